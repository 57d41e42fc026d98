"""Each defect of drafts that strangers met, by its number in the report of their trials: it is gone."""

import random
import tomllib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from weft.cli import app
from weft.drafting.draft import draft, draft_source, sketch_source
from weft.drafting.guesses import guess_written
from weft.drafting.schema_check import review_schema
from weft.encoding import Codec
from weft.errors import DataError, SchemaError
from weft.io.dialect import DEFAULT_DIALECT
from weft.io.formats.csv_files import read_csv
from weft.schema import Integer, Real, Schema

SHARED = Path(__file__).parents[3] / "shared" / "data"


def accepted(path):
    """The draft of a file, into which that file encodes."""
    schema = Schema.from_toml(draft_source(path))
    table = read_csv(path, schema)
    Codec(schema, table.schema).encode(table)
    return schema


def column(tmp_path, words, name="x"):
    path = tmp_path / "rows.csv"
    quoted = ['"' + word.replace('"', '""') + '"' for word in words]
    path.write_text(f"{name},rest\n" + "".join(f"{word},{i % 2}\n" for i, word in enumerate(quoted)))
    return accepted(path).column(name)


def test_3_1_whole_numbers_written_with_a_point(tmp_path):
    found = column(tmp_path, [f"{i % 9}.0" if i % 5 else "" for i in range(60)])
    assert (found.kind, found.range, found.missing) == ("integer", (0, 8), True)


def test_3_1_times_with_an_offset(tmp_path):
    found = column(tmp_path, [f"2013-01-{i % 28 + 1:02d} 10:00:00+00:00" for i in range(60)])
    assert (found.kind, found.timezone) == ("datetime", "UTC")
    mixed = column(tmp_path, [f"2013-07-01T{i % 24:02d}:30:00{('Z', '+02:00')[i % 2]}" for i in range(60)])
    assert (mixed.kind, mixed.step) == ("datetime", "1h")


def test_3_1_faults_of_several_columns_come_together(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,c\n1,2,x\n300,2.5,y\n")
    text = "".join(f'[columns.{name}]\nkind = "integer"\nrange = [0, 9]\n' for name in "abc")
    with pytest.raises(DataError) as caught:
        read_csv(path, Schema.from_toml(text))
    assert 'column "b"' in str(caught.value) and 'column "c"' in str(caught.value)
    both = Schema.from_toml(text.replace("[0, 9]", "[0, 1]"))
    with pytest.raises(DataError) as caught:
        Codec(both, pa.schema({name: pa.int64() for name in "abc"})).encode(pa.table({name: [7] for name in "abc"}))
    assert all(f'column "{name}"' in str(caught.value) for name in "abc")
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(text.replace("[0, 9]", "[9, 0]"), "s.toml")
    assert [f"s.toml, line {line}: column" in str(caught.value) for line in (3, 6, 9)] == [True] * 3


def test_3_2_a_check_warns_of_bins_that_swallow_a_skewed_column():
    def warned(made):
        return any(
            "equal width" in finding.text for finding in review_schema(Schema((made,))) if finding.level == "warning"
        )

    assert warned(Real("adr", (0.0, 5400.0), bins=32, decimals=2))
    assert warned(Integer("days", (0, 1000), bins=32))
    assert not warned(Integer("age", (0, 110)))
    assert not warned(Integer("age", (0, 110), bins=22))


def test_3_4_the_person_is_found():
    rng = np.random.default_rng(3)
    rows = np.concatenate([np.repeat(np.arange(40), 40), rng.integers(40, 4000, 3000)])
    table = pa.table(
        {
            "patient_nbr": rows * 917 + 8_222_157,
            "home": [f"2018HU{n:07d}" for n in rng.integers(0, 2600, len(rows))],
            "flag": [True] * len(rows),
        }
    )
    text = draft(table, "rows")
    schema = Schema.from_toml(text)
    assert [each.kind for each in schema.columns] == ["id", "id", "boolean"]
    assert '# unit = "patient_nbr"' in text and len(text.splitlines()) < 40


@pytest.mark.parametrize(
    ("words", "entry"),
    [
        ([f"${n * 37:,}.{n % 100:02d}" for n in range(100)], {"kind": "real", "prefix": "$", "thousands": ","}),
        ([f"{n % 101}%" for n in range(150)], {"kind": "integer", "suffix": "%", "range": (0, 100)}),
        ([f"{n * 37 // 1000}.{n * 37 % 1000:03d},50 EUR" for n in range(100)], {"kind": "real", "decimal": ","}),
        (["?" if n % 10 == 0 else str(n % 80) for n in range(200)], {"kind": "integer", "markers": ("?",)}),
        ([(str(n % 91), "-9", "999")[n % 20 == 0 and 1 + n % 40 // 20] for n in range(400)], {"special": (-9, 999)}),
        ([f"2023{n % 12 + 1:02d}{n % 28 + 1:02d}" for n in range(99)], {"kind": "datetime", "format": "%Y%m%d"}),
        ([f"{n % 24:02d}:{n % 60:02d}" for n in range(99)], {"kind": "time", "format": "%H:%M"}),
        (["NA" if n % 9 == 0 else f"{n % 28 + 1:02d}/{n % 12 + 1:02d}/2020" for n in range(99)], {"markers": ("NA",)}),
        (["", "  ", "a", "b"] * 9, {"kind": "category", "values": ("a", "b"), "markers": ("",)}),
    ],
)
def test_3_5_numbers_codes_and_times_as_people_write_them(tmp_path, words, entry):
    found = column(tmp_path, words)
    assert {key: getattr(found, key) for key in entry} == entry


def test_3_5_codes_leave_the_range_of_a_typed_table_too():
    table = pa.table({"x": [i % 60 + 0.5 for i in range(300)] + [-999.0]})
    found = Schema.from_toml(draft(table, "rows")).column("x")
    assert (found.range, found.special) == ((0.5, 59.5), (-999.0,))


@pytest.fixture
def wide(tmp_path):
    """A draft of sixty columns, each with several marks."""
    columns = {f"c{n}": [str(row % (n + 2)) for row in range(80)] for n in range(60)}
    pq.write_table(pa.table(columns), tmp_path / "wide.parquet")
    path = tmp_path / "draft.toml"
    path.write_text(draft_source(tmp_path / "wide.parquet"))
    assert len(Schema.load(path).from_data_facts()) >= 120
    return path


def test_3_6_flags_leave_no_mark(wide):
    for words in (["--private", "values"], ["--accept", "kind", "--accept", "missing"], ["--accept", "all"]):
        assert CliRunner().invoke(app, ["schema", "review", str(wide), *words]).exit_code == 0
    assert Schema.load(wide).from_data_facts() == []
    assert "from_data =" not in wide.read_text()


def test_3_6_stepping_takes_an_answer_for_each_sort_of_fact(wide):
    sorts = dict.fromkeys(fact for column in Schema.load(wide).columns for fact in column.from_data)
    done = CliRunner().invoke(app, ["schema", "review", str(wide)], input="A\n" * len(sorts))
    assert done.exit_code == 0 and "nothing is left to review" in done.output
    assert Schema.load(wide).from_data_facts() == []


def test_3_7_a_long_list_stands_beside_the_draft(tmp_path):
    path = tmp_path / "rows.csv"
    rng = random.Random(1)
    rows = [f"ward {rng.randrange(700)} of town,{rng.randrange(9)},name {rng.randrange(3000)} x" for _ in range(9000)]
    path.write_text("ward,n,who\n" + "\n".join(rows) + "\n")
    text, files = sketch_source(path).apart("d.values")
    assert len(text.splitlines()) < 120 and list(files) == ["ward.txt"]
    (tmp_path / "d.values").mkdir()
    (tmp_path / "d.values" / "ward.txt").write_text("\n".join(files["ward.txt"]) + "\n")
    (tmp_path / "d.toml").write_text(text)
    schema = Schema.load(tmp_path / "d.toml")
    assert len(schema.column("ward").values) == 700 and schema.column("who").other == "other"
    assert schema == Schema.from_toml(draft_source(path))


NAMES = st.sampled_from(["a", "A", "a ", "id", "patient_nbr", "code", "date", "ä", "x.y", 'q"q', "[b]", "n"])
WORDS = [
    "0",
    "1",
    "-9",
    "999",
    "3.0",
    "2.5",
    "1e9",
    "1e400",
    "inf",
    "nan",
    "007",
    "$5",
    "57%",
    "1,234",
    "(3)",
    "10" * 15,
]
WORDS += [
    "NA",
    "?",
    "",
    " ",
    "  x",
    "x",
    "true",
    "False",
    "2013-01-05",
    "2013-02-30",
    "05/01/2013",
    "20230131",
    "08:30",
]
WORDS += [
    "2013-01-01 10:00:00+02:00",
    "2013-01-01T10:00",
    "é",
    "日本",
    'say "a"',
    "a,b",
    "two\nlines",
    "other",
    "-0.0",
    "+7",
]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_readable_file_is_accepted_by_its_own_draft(tmp_path_factory, data):
    names = data.draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = data.draw(st.integers(1, 40))
    cells = []
    for _ in names:
        pool = data.draw(st.lists(st.sampled_from(WORDS) | st.text(max_size=3), min_size=1, max_size=5))
        cells.append(data.draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows)))
    text = "\n".join(
        ",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [names, *zip(*cells, strict=True)]
    )
    path = tmp_path_factory.mktemp("messy") / "rows.csv"
    path.write_text(text + "\n", encoding="utf-8", errors="replace", newline="")
    try:
        drafted = draft_source(path)
    except (DataError, SchemaError):
        return  # not a readable table
    schema = Schema.from_toml(drafted)
    table = read_csv(path, schema)
    if any(each.modelled for each in schema.columns):
        Codec(schema, table.schema).encode(table)


def test_a_column_that_no_kind_takes_is_still_told():
    assert guess_written(pa.chunked_array([["a", "b"]]), "x", DEFAULT_DIALECT).entry["kind"] == "category"


RAW = ["adult_raw", "hotel_bookings_raw", "flights_raw", "cps_tax", "acs_pums2018_west"]


def raw(name, tmp_path, rows):
    table = pq.read_table(SHARED / f"{name}.parquet")
    frame = table.slice(0, rows).to_pandas()
    path = tmp_path / f"{name}.csv"
    frame.to_csv(path, index=False)
    schema = accepted(path)
    text, _ = sketch_source(path).apart("x")
    assert len(text) < 60_000 + 300 * len(schema.columns)
    return tomllib.loads(text)


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables are not on this machine")
@pytest.mark.parametrize("name", RAW[:2])
def test_raw_tables_are_accepted_by_their_drafts(name, tmp_path):
    raw(name, tmp_path, 1_500)


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared tables are not on this machine")
@pytest.mark.parametrize("name", RAW)
def test_raw_tables_are_accepted_by_their_drafts_whole(name, tmp_path):
    document = raw(name, tmp_path, 10**7)
    if name == "acs_pums2018_west":
        assert document["columns"]["SERIALNO"]["kind"] == "id"
