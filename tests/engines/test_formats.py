"""Files as people have them: every format is read as the schema says, told apart by its name, and written again."""

import datetime as dt
import gzip
import io
import json
import zipfile
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pyreadstat
import pytest
import xlsxwriter

from weft import Dialect, Schema, Synthesizer
from weft.drafting import draft_source
from weft.drafting.draft import source_schema
from weft.engines import open_engine
from weft.engines.sources import is_written, names_are_in_file
from weft.errors import DataError, OutputError, SchemaError, WeftError
from weft.evaluation.report.editions import read_coded, releasable_report
from weft.io.formats import FORMATS, find_format, format_of, list_writable_endings
from weft.io.formats.csv_files import read_csv
from weft.io.formats.format import FileLayout, TypedFormat
from weft.io.table_files import write_table
from weft.release.publish import Files, publish
from weft.release.verification import verify
from weft.synthesis.resume import finish_run, read_unfinished

SCHEMA = Schema.from_toml("""
[columns.n]
kind = "integer"
range = [0, 9]
missing = true

[columns.x]
kind = "real"
range = [0.0, 2000.0]
decimals = 2

[columns.w]
kind = "category"
values = ["a", "b;c", "é"]

[columns.f]
kind = "boolean"

[columns.d]
kind = "datetime"
range = ["2020-01-01", "2020-12-31"]
""")
ROWS = [
    {"n": 3, "x": 1.5, "w": "a", "f": True, "d": dt.date(2020, 3, 5)},
    {"n": None, "x": 1234.25, "w": "b;c", "f": False, "d": dt.date(2020, 12, 31)},
    {"n": 9, "x": 0.0, "w": "é", "f": True, "d": dt.date(2020, 1, 1)},
]
TABLE = pa.Table.from_pylist(ROWS, pa.schema([(c.name, c.arrow_type()) for c in SCHEMA.columns]))
TEXT = "n,x,w,f,d\n3,1.5,a,yes,2020-03-05\n,1234.25,b;c,no,2020-12-31\n9.0,0,é,TRUE,2020-01-01\n"


PLAIN = Dialect()


def codes(source, dialect=PLAIN, schema=SCHEMA, engine="memory"):
    opened = open_engine(source, schema, engine=engine, dialect=dialect)
    names = [(name,) for name in opened.codec.domain]
    return [table.tolist() for table in opened.engine.count(names)]


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(TABLE, path)
    return codes(path)


@pytest.mark.parametrize("engine", ["memory", "stream"])
@pytest.mark.parametrize("ending", list_writable_endings())
def test_what_is_written_in_a_format_is_read_again(ending, engine, tmp_path, expected):
    path = tmp_path / f"rows{ending}"
    assert write_table([TABLE.slice(0, 2), TABLE.slice(2)], path, ending) == 3
    assert codes(path, engine=engine) == expected
    assert read_coded(path, SCHEMA).table.num_rows == 3
    drafted = Schema.from_toml(draft_source(path))
    assert [column.name for column in drafted.columns] == list(ROWS[0])


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        (
            Dialect(separator=";", decimal=",", quote="'"),
            TEXT.replace("b;c", "'b_c'").replace(",", ";").replace(".", ","),
        ),
        (Dialect(separator="|", quote=""), TEXT.replace(",", "|")),
        (Dialect(encoding="latin-1"), TEXT),
        (Dialect(encoding="utf-16"), TEXT),
        (Dialect(encoding="cp1252", separator="\t"), TEXT.replace(",", "\t")),
        (Dialect(header=False), TEXT.partition("\n")[2]),
        (Dialect(missing=("none",)), TEXT.replace("\n,", "\nnone,")),
    ],
)
def test_dialects_are_declared(dialect, text, tmp_path, expected):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.replace("b_c", "b;c").encode(dialect.encoding))
    assert codes(path, dialect) == expected


def test_packed_files(tmp_path, expected):
    with zipfile.ZipFile(tmp_path / "rows.zip", "w") as archive:
        archive.writestr("__MACOSX/rows", "x")
        archive.writestr("inner/rows.tsv", TEXT.replace(",", "\t"))
    assert codes(tmp_path / "rows.zip") == expected
    with zipfile.ZipFile(tmp_path / "two.csv.zip", "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    with pytest.raises(DataError, match="holds several files"):
        codes(tmp_path / "two.csv.zip")


def test_standard_input_is_read_once_and_unpacked(monkeypatch, expected):
    for octets in (TEXT.encode(), gzip.compress(TEXT.encode())):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets)))
        assert codes("-", engine="auto") == expected
    with pytest.raises(DataError, match="read only once"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
        codes("-", engine="stream")


def test_several_files_are_one_table(tmp_path, expected):
    lines = TEXT.splitlines(keepends=True)
    for place, line in enumerate(lines[1:]):
        (tmp_path / f"{place}.csv").write_text(lines[0] + line)
    files = sorted(tmp_path.glob("*.csv"))
    assert codes(files) == codes(tmp_path) == codes(str(tmp_path / "*.csv")) == expected
    assert "b;c" in draft_source(list(map(str, files)))


def test_statistics_packages(tmp_path, expected):
    frame = pd.DataFrame(ROWS)
    frame["f"] = frame["f"].astype(float)
    for ending, write in (
        ("sav", pyreadstat.write_sav),
        ("dta", pyreadstat.write_dta),
        ("xpt", pyreadstat.write_xport),
    ):
        write(frame, str(tmp_path / f"rows.{ending}"))
        assert codes(tmp_path / f"rows.{ending}") == expected
        assert "[columns.d]" in draft_source(tmp_path / f"rows.{ending}")


def test_cells_of_a_workbook_have_types_of_their_own(tmp_path, expected):
    with xlsxwriter.Workbook(str(tmp_path / "rows.xlsx")) as book:
        sheet = book.add_worksheet()
        day = book.add_format({"num_format": "dd/mm/yyyy"})
        sheet.write_row(0, 0, list(ROWS[0]))
        sheet.write_row(1, 0, ["3", 1.5, "a", True])
        sheet.write_datetime(1, 4, dt.datetime(2020, 3, 5), day)
        sheet.write_row(2, 1, ["1234.25", "b;c", 0, "2020-12-31"])
        sheet.write_row(3, 0, [9.0, 0, "é", "yes", "2020-01-01"])
    assert codes(tmp_path / "rows.xlsx") == expected
    with xlsxwriter.Workbook(str(tmp_path / "wide.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["n"])
        sheet.write_row(1, 0, [3, "S3CRET"])
    with pytest.raises(DataError, match="names no column") as caught:
        codes(tmp_path / "wide.xlsx", schema=Schema.from_toml('[columns.n]\nkind = "integer"\nrange = [0, 9]\n'))
    assert "S3CRET" not in str(caught.value)


@pytest.fixture
def years(tmp_path):
    """A workbook of three sheets, each with as many rows as its place says; one is called as a place is written."""
    with xlsxwriter.Workbook(str(tmp_path / "years.xlsx")) as book:
        for rows, name in enumerate(("S3CRET", "3", "2020"), 1):
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, [f"n{rows}"])
            for row in range(1, rows + 1):
                sheet.write(row, 0, row)
    return tmp_path / "years.xlsx"


@pytest.mark.parametrize(
    ("sheet", "place"), [(None, 1), (1, 1), (2, 2), (3, 3), ("1", 1), ("2", 2), ("3", 2), ("2020", 3), ("S3CRET", 1)]
)
def test_a_sheet_is_chosen_by_name_or_place_and_a_name_wins(years, sheet, place):
    dialect = Dialect(sheet=sheet)
    schema = Schema.from_toml(f'[columns.n{place}]\nkind = "integer"\nrange = [1, 3]\n')
    assert codes(years, dialect, schema) == [[1] * place + [0] * (3 - place)]
    assert f"[columns.n{place}]" in draft_source(years, dialect)
    assert source_schema(schema, years, dialect).names == [f"n{place}"]
    assert read_coded(years, schema, dialect).table.num_rows == place


@pytest.mark.parametrize("sheet", ["patients", "s3cret", "0", "4", 4, 2020, "-1", "9" * 5000])
def test_a_sheet_that_is_not_there_is_refused_without_the_names_of_the_others(years, sheet):
    schema = Schema.from_toml('[columns.n1]\nkind = "integer"\nrange = [1, 3]\n')
    for read in (lambda: codes(years, Dialect(sheet=sheet), schema), lambda: draft_source(years, Dialect(sheet=sheet))):
        with pytest.raises(DataError, match="the workbook has 3 sheets") as caught:
            read()
        assert str(years) in str(caught.value) and "S3CRET" not in str(caught.value)


@pytest.mark.parametrize("sheet", [0, -1, True, "", " ", 1.5])
def test_what_is_no_sheet_is_refused(sheet):
    with pytest.raises(DataError, match="counted from 1"):
        Dialect(sheet=sheet)


@pytest.mark.parametrize(
    ("ending", "dialect"),
    [
        (".csv", Dialect(sheet=2)),
        (".jsonl", Dialect(sheet=2)),
        (".jsonl", Dialect(separator=";")),
        (".parquet", Dialect(sheet="a")),
        (".parquet", Dialect(encoding="latin-1", separator=";")),
        (".xlsx", Dialect(separator=";")),
        (".parquet", Dialect(header=False)),
        (".orc", Dialect(separator=";")),
        (".db", Dialect(sheet=2)),
    ],
)
def test_what_a_dialect_cannot_say_of_a_file_is_refused_everywhere(ending, dialect, tmp_path):
    source = tmp_path / f"rows{ending}"
    if ending == ".db":
        with duckdb.connect(str(source)) as database:
            database.register("given", TABLE)
            database.sql("CREATE TABLE rows AS FROM given")
        source = f"duckdb:{source}?table=rows"
    else:
        write_table([TABLE], source, ending)
    codes(source)
    for read in (
        lambda: codes(source, dialect),
        lambda: draft_source(source, dialect),
        lambda: source_schema(SCHEMA, source, dialect),
        lambda: Synthesizer(1.0, dialect=dialect).fit(source, SCHEMA),
    ):
        with pytest.raises(DataError, match="would change nothing"):
            read()
    with pytest.raises(DataError, match="table in memory"):
        codes(TABLE, dialect)


def test_json_lines_are_read_one_by_one(tmp_path, expected):
    path = tmp_path / "rows.jsonl"
    rows = [{**row, "d": str(row["d"])} for row in ROWS]
    rows[1].pop("n")
    rows[2] |= {"n": "9", "x": "0"}
    path.write_text("\n\n".join(map(json.dumps, rows)))
    assert codes(path) == expected
    for bad, match in (
        ('{"n": 1', "line 6: it is no JSON object"),
        ("[1]", "line 6: it is no JSON object"),
        ('{"n": [1, "S3CRET"]}', "neither text nor a number"),
        ('{"S3CRET": 1}', "a key that the schema does not describe"),
        ("{" * 100_000, "no JSON object"),
        ('{"n": ' + "9" * 6000 + "}", "cannot be read as int64|outside"),
    ):
        path.write_text("\n\n".join(map(json.dumps, rows)) + f"\n{bad}\n")
        with pytest.raises(DataError, match=match) as caught:
            codes(path)
        assert "S3CRET" not in str(caught.value)


@pytest.mark.parametrize(
    "ending", [".csv.gz", ".csv.zst", ".zip", ".jsonl.gz", ".feather", ".parquet", ".orc", ".xlsx", ".sav"]
)
def test_damaged_files_are_told_as_such(ending, tmp_path):
    whole = tmp_path / f"whole{ending}"
    big = pa.concat_tables([TABLE] * 3000)
    if ending == ".sav":
        pyreadstat.write_sav(big.to_pandas().astype({"f": float}), str(whole))
    elif ending == ".zip":
        with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rows.csv", TEXT + TEXT.partition("\n")[2] * 3000)
    else:
        write_table([big], whole, ending)
    octets = whole.read_bytes()
    middle = len(octets) // 2
    scrambled = octets[:middle] + bytes(255 - byte for byte in octets[middle : middle + 200]) + octets[middle + 200 :]
    for content in (octets[:middle], scrambled, b"", b"S3CRET" * 50):
        path = tmp_path / f"bad{ending}"
        path.write_bytes(content)
        try:
            codes(path)
        except (DataError, SchemaError) as error:
            assert "S3CRET" not in str(error) and str(path) in str(error)


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b'{"S3CRET": 1}\n', "looks like JSON"),
        (b'[{"S3CRET": 1}]', "looks like JSON"),
        (b"PK\x03\x04S3CRET", "zip archive or an Excel"),
        (b"\x1f\x8bS3CRET", "gzip"),
        (b"\x28\xb5\x2f\xfdS3CRET", "zstd"),
        (b"$FL2S3CRET", "SPSS"),
        (b"SQLite format 3\0S3CRET", "SQLite"),
        (b"PAR1S3CRET", "Parquet"),
        (b"ORC\n\x1c\nS3CRET", "ORC"),
        ("S3CRET,b\n1,2\n".encode("utf-16"), "not UTF-8.*--encoding"),
        (b"39,S3CRET,77516\n40,x,1\n", "looks like a row.*--no-header"),
        (b"S3CRET,2020-01-05\nx,2020-01-06\n", "looks like a row.*--no-header"),
        (b"S3CRET,x\nS3CRET,y\nz,x\n", "looks like a row.*--no-header"),
        (b"S3CRET;b\n1;2\n", "--separator"),
    ],
)
def test_what_a_file_is_not_is_told_in_words(content, match, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=match) as caught:
        draft_source(path)
    assert "S3CRET" not in str(caught.value)
    with pytest.raises((DataError, SchemaError)) as caught:
        codes(path)
    if b"S3CRET,x" not in content and b"S3CRET;" not in content:
        assert "S3CRET" not in str(caught.value)


def test_a_file_without_names_is_drafted_when_told_so(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("39,x,77516\n40,y,1\n")
    drafted = Schema.from_toml(draft_source(path, Dialect(header=False)))
    assert [column.name for column in drafted.columns] == ["column_1", "column_2", "column_3"]
    assert "[columns.39]" in draft_source(path, Dialect(header=True))


def test_a_draft_names_the_markers_that_it_was_told_of(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "".join(f"{i},5;{i % 7}\n" for i in range(60)) + "?;?\n")
    drafted = Schema.from_toml(draft_source(path, Dialect(separator=";", decimal=",", missing=("?", "NA"))))
    assert drafted.column("a").kind == "real" and drafted.column("a").markers == ("?",)
    assert drafted.column("b").markers == ("?",)


def test_a_draft_reads_duckdb(tmp_path):
    with duckdb.connect(str(tmp_path / "rows.db")) as connection:
        connection.register("held", TABLE)
        connection.execute("CREATE TABLE rows AS FROM held")
    assert "[columns.w]" in draft_source(f"duckdb:{tmp_path / 'rows.db'}?table=rows")


@pytest.mark.parametrize(
    "settings",
    [
        {"separator": ";;"}, {"separator": "a"}, {"quote": ";", "separator": ";"}, {"encoding": "utf-7"},
        {"encoding": "iso2022_jp"}, {"encoding": "nothing"}, {"decimal": ";"}, {"separator": ",", "decimal": ","},
    ],
)  # fmt: skip
def test_dialects_that_cannot_be(settings):
    with pytest.raises(DataError):
        Dialect(**settings)


def test_numbers_as_people_write_them(tmp_path):
    schema = Schema.from_toml("""
[columns.cost]
kind = "real"
range = [-5000, 5000]
decimals = 2
prefix = "$"
thousands = ","
accounting = true

[columns.share]
kind = "integer"
range = [0, 100]
suffix = "%"
missing = ["n/a"]
""")
    path = tmp_path / "rows.csv"
    path.write_text('cost,share\n"$1,234.50",57%\n($12.00),n/a\n3,3.0\n')
    table = read_csv(path, schema)
    assert table.to_pydict() == {"cost": [1234.5, -12.0, 3.0], "share": [57, None, 3]}
    write_table([table], tmp_path / "out.csv", schema=schema)
    assert (tmp_path / "out.csv").read_text().splitlines()[1:3] == ['"$1,234.50","57%"', '"($12.00)",']
    assert read_csv(tmp_path / "out.csv", schema).equals(table)
    words = pa.table({"cost": ["$1,234.50", "($12.00)", "3"], "share": ["57%", "n/a", "3"]})
    pq.write_table(words, tmp_path / "words.parquet")
    made = Synthesizer(5.0, method="independent", journal=None).fit(tmp_path / "words.parquet", schema).sample(50)
    assert all(word.lstrip("(").startswith("$") for word in made.column("cost").to_pylist())
    path.write_text("cost,share\n$1;2,57\n")
    with pytest.raises(DataError, match="cost"):
        read_csv(path, schema)


def test_offsets_and_truths(tmp_path):
    schema = Schema.from_toml("""
[columns.t]
kind = "datetime"
range = ["2013-01-01 00:00:00", "2013-12-31 23:59:59"]
timezone = "UTC"

[columns.f]
kind = "boolean"
""")
    path = tmp_path / "rows.csv"
    path.write_text("t,f\n2013-01-01 10:00:00+00:00,Y\n2013-01-01T12:00:00+02:00,off\n2013-01-01 10:00:00,0\n")
    table = read_csv(path, schema)
    assert len(set(table.column("t").to_pylist())) == 1 and table.column("f").to_pylist() == [True, False, False]


def test_a_row_of_utf16_with_half_a_letter_refuses_the_file(tmp_path):
    path = tmp_path / "rows.csv"
    octets = "n\n1\n2\n3\n".encode("utf-16-le")
    schema = Schema.from_toml('[columns.n]\nkind = "integer"\nrange = [0, 9]\nmissing = true\noutside = "clip"\n')
    path.write_bytes(octets)
    assert codes(path, Dialect(encoding="utf-16-le"), schema)
    for place in range(4, len(octets) + 1, 2):
        path.write_bytes(octets[:place] + b"\x31" + octets[place:])
        with pytest.raises(DataError):
            codes(path, Dialect(encoding="utf-16-le"), schema)


def test_released_numbers_keep_their_draws(tmp_path):
    rng = np.random.default_rng(0)
    table = pa.table({"x": np.round(rng.uniform(0, 5, 200), 2), "n": rng.integers(0, 9, 200)})
    schema = Schema.from_toml(
        '[columns.x]\nkind = "real"\nrange = [0, 5]\ndecimals = 2\ndecimal = ","\n\n'
        '[columns.n]\nkind = "integer"\nrange = [0, 9]\n'
    )
    made = Synthesizer(3.0, method="independent", journal=None).fit(table, schema).sample(100, seed=0)
    write_table([made], tmp_path / "made.tsv", ".tsv", schema=schema)
    assert read_csv(tmp_path / "made.tsv", schema).equals(made)


# A format is one object and one line of the registry: a format of this test's own goes all the way to a release.


class Toy(TypedFormat):
    """Arrow's stream behind four bytes."""

    name = "toy"
    endings = (".toy",)
    written_endings = (".toy",)
    magic = ((b"TOY1", "a toy; name it .toy"),)

    def read_layout(self, path):
        with self.opened(path) as stream:
            return FileLayout(stream.schema.names, stream.schema)

    def batches(self, path, columns, batch_rows):
        with self.opened(path) as stream:
            for batch in stream:
                for at in range(0, batch.num_rows, batch_rows):
                    yield batch.select(list(columns)).slice(at, batch_rows)

    @contextmanager
    def writer(self, sink, arrow, options):
        with sink.open("wb") as file:
            file.write(b"TOY1")
            with pa.ipc.new_stream(file, arrow) as stream:
                yield stream.write_table

    def opened(self, path):
        octets = path.read_bytes()
        if not octets.startswith(b"TOY1"):
            raise pa.ArrowInvalid("S3CRET")
        return pa.ipc.open_stream(octets[4:])


TOY = Toy()


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setitem(FORMATS, "toy", (__name__, "TOY"))


def test_a_new_format_is_one_object_and_one_line(registered, tmp_path, expected):
    path = tmp_path / "rows.toy"
    write_table([TABLE.slice(0, 2), TABLE.slice(2)], path, ".toy")
    assert path.read_bytes().startswith(b"TOY1") and format_of(path) is TOY
    for engine in ("memory", "stream"):
        assert codes(path, engine=engine) == codes(tmp_path, engine=engine) == expected
    # Drafts and checks of a schema see the declared types: what they do not know is not taken for SPSS, or for text.
    assert source_schema(SCHEMA, path) == TABLE.schema
    drafted = Schema.from_toml(draft_source(path))
    assert [(c.name, c.arrow_type()) for c in drafted.columns] == [(f.name, f.type) for f in TABLE.schema]
    assert not is_written(path) and not names_are_in_file(path)
    with pytest.raises(DataError, match="would change nothing"):
        codes(path, Dialect(separator=";"))


def test_a_new_format_is_released_and_verified(registered, tmp_path):
    path = tmp_path / "rows.toy"
    write_table([pa.concat_tables([TABLE] * 40)], path, ".toy")
    made = Synthesizer(8.0, method="independent", journal=None).fit(path, SCHEMA, unit=False)
    out = tmp_path / "released" / "made.toy"
    out.parent.mkdir()
    publish(made.fitted_, made.tables(90), Files.of(out))
    found = verify(out)
    assert not found.wrong and not found.skipped and TOY.read_whole(out).num_rows == 90
    write_table([TABLE.select(["n"])], out, ".toy")
    assert {check.what for check in verify(out).wrong} >= {"columns and types", "table matches the card"}


@pytest.mark.parametrize("ending", [".toy", ".orc", ".arrow", ".csv", ".xlsx"])
def test_a_run_on_any_format_is_finished_from_its_checkpoint(ending, registered, tmp_path):
    path = tmp_path / f"rows{ending}"
    write_table([pa.concat_tables([TABLE] * 40)], path, ending)
    made = Synthesizer(8.0, method="independent", journal=None, seed=3, checkpoint=tmp_path / "run")
    made.fit(path, SCHEMA, unit=False)
    path.unlink()  # no row is read again
    again = finish_run(read_unfinished(made.checkpoint_))
    assert again.sample(50, seed=4).equals(made.sample(50, seed=4))


def test_a_damaged_or_misnamed_file_of_a_new_format_is_told_as_such(registered, tmp_path):
    for name, content, match in (
        ("rows.toy", b"S3CRET" * 9, "is damaged"),
        ("rows.toy", b"", "is empty"),
        ("rows.csv", b"TOY1S3CRET", "it is a toy; name it .toy"),
        ("rows.dat1", b"S3CRET", r"must end in one of .*\.toy"),
    ):
        (tmp_path / name).write_bytes(content)
        for read in (draft_source, codes):
            with pytest.raises((DataError, SchemaError), match=match) as caught:
                read(tmp_path / name)
            assert "S3CRET" not in str(caught.value)


def test_a_format_that_is_only_read_is_refused_as_an_output():
    with pytest.raises(WeftError, match=r"cannot determine the output format of made\.sav"):
        Files.of(Path("made.sav"))


# ORC: what it holds, and what it holds otherwise.

MOMENT = dt.datetime(2020, 7, 1, 8, 30, 0, 250_000)
ORC_TYPES = [
    (pa.int8(), 5, pa.int8()),
    (pa.int64(), 2**62, pa.int64()),
    (pa.uint8(), 255, pa.int16()),
    (pa.uint32(), 2**32 - 1, pa.int64()),
    (pa.uint64(), 2**64 - 1, pa.decimal128(20)),
    (pa.float16(), np.float16(1.5), pa.float32()),
    (pa.float64(), 0.1, pa.float64()),
    (pa.bool_(), True, pa.bool_()),
    (pa.string(), "é", pa.string()),
    (pa.large_string(), "é", pa.string()),
    (pa.string_view(), "é", pa.string()),
    (pa.dictionary(pa.int8(), pa.string()), "a", pa.string()),
    (pa.date32(), MOMENT.date(), pa.date32()),
    (pa.date64(), MOMENT.date(), pa.date32()),
    (pa.timestamp("s"), MOMENT.replace(microsecond=0), pa.timestamp("ns")),
    (pa.timestamp("us", "Europe/Berlin"), MOMENT.replace(tzinfo=dt.UTC), pa.timestamp("ns", "UTC")),
    (pa.decimal128(38, 2), Decimal("-1.25"), pa.decimal128(38, 2)),
    (pa.decimal256(30, 2), Decimal("-1.25"), pa.decimal128(30, 2)),
    (pa.decimal256(50, 2), Decimal("-1.25"), pa.string()),
    (pa.binary(2), b"\xff\x00", pa.binary()),
    (pa.time32("s"), dt.time(8, 30), pa.string()),
    (pa.time64("us"), dt.time(8, 30, 0, 5), pa.string()),
]


@pytest.mark.parametrize(("arrow_type", "value", "stored"), ORC_TYPES, ids=lambda each: str(each))
def test_orc_holds_a_value_of_every_type_exactly(arrow_type, value, stored, tmp_path):
    path, form = tmp_path / "rows.orc", find_format("orc")
    table = pa.table({"b": pa.array([value, None], arrow_type), "a": pa.array([1, 2])})
    write_table([table.slice(0, 1), table.slice(1)], path, ".orc")
    found = form.read_whole(path)
    assert found.schema.types == [stored, pa.int64()] == [form.stored_type(each) for each in table.schema.types]
    assert found.column_names == ["b", "a"] and form.read_layout(path).rows == 2
    if pa.types.is_fixed_size_binary(arrow_type):
        assert found.column("b").to_pylist() == [value, None]
    elif not pa.types.is_time(arrow_type):
        assert found.cast(table.schema).equals(table)
    else:
        assert [word and dt.time.fromisoformat(word) for word in found.column("b").to_pylist()] == [value, None]
    write_table([found], path, ".orc")  # what was read from ORC comes back in the same types
    assert form.read_whole(path).equals(found)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_lengths_of_time_are_text_in_orc(unit, tmp_path):
    hour = {"s": 3600, "ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}[unit]
    table = pa.table({"a": pa.array([hour, None, -hour * 30, 0, hour + 1], pa.duration(unit))})
    write_table([table], tmp_path / "rows.orc", ".orc")
    found = find_format("orc").read_whole(tmp_path / "rows.orc").column("a").to_pylist()
    odd = "1:00:01" if unit == "s" else f"{hour + 1}{unit}"
    assert found == ["1:00:00", None, "-30:00:00", "0:00:00", odd]


def test_orc_refuses_a_type_that_it_cannot_hold(tmp_path):
    with pytest.raises(OutputError, match=r"cannot hold month_day_nano_interval; write a \.parquet"):
        write_table([pa.table({"a": pa.nulls(2, pa.month_day_nano_interval())})], tmp_path / "rows.orc", ".orc")


ORC_RELEASED = """
[columns.shift]
kind = "time"
range = ["08:00", "18:00"]
step = "15min"
missing = true

[columns.stay]
kind = "duration"
range = ["0min", "12h"]
step = "1min"

[columns.seen]
kind = "datetime"
range = ["2020-01-01 00:00:00", "2020-12-31 23:59:59"]
step = "1s"

[columns.ward]
kind = "category"
values = ["a", "b"]

[columns.n]
kind = "integer"
range = [0, 9]
"""


def test_a_release_in_orc_is_verified_in_types_that_orc_does_not_have(tmp_path):
    rows = [
        [dt.time(8, 15), None],
        [dt.timedelta(hours=1)] * 2,
        [MOMENT.replace(microsecond=0)] * 2,
        ["a", "b"],
        [3, 4],
    ]
    types = [pa.time32("s"), pa.duration("s"), pa.timestamp("s"), pa.dictionary(pa.int8(), pa.string()), pa.uint8()]
    names = ["shift", "stay", "seen", "ward", "n"]
    table = pa.table([pa.array(each * 60, kind) for each, kind in zip(rows, types, strict=True)], names)
    write_table([table], tmp_path / "rows.arrow", ".arrow")
    made = Synthesizer(8.0, method="independent", journal=None)
    made.fit(tmp_path / "rows.arrow", Schema.from_toml(ORC_RELEASED), unit=False)
    out = tmp_path / "made.orc"
    card = publish(made.fitted_, made.tables(100), Files.of(out))
    assert [column["type"] for column in card["columns"]] == list(map(str, types))
    found = verify(out)
    assert not found.wrong and not found.skipped, found.wrong
    releasable_report(made.fitted_, out)
    # A card without a schema states types by name alone: then the names of the columns are compared.
    facts = json.loads(out.with_suffix(".card.json").read_text())
    facts["schema"]["codec"] = None
    out.with_suffix(".card.json").write_text(json.dumps(facts))
    assert "columns and types" not in {check.what for check in verify(out).wrong}
    write_table([table.select(names[::-1])], out, ".orc")
    assert "columns and types" in {check.what for check in verify(out).wrong}


def test_encodings_and_stripes_of_orc_do_not_show(tmp_path, expected):
    many = pa.concat_tables([TABLE] * 900)
    for number, settings in enumerate(
        (
            {},
            {"stripe_size": 500, "batch_size": 8},
            {"dictionary_key_size_threshold": 1.0},
            {"compression": "snappy", "row_index_stride": 100},
            {"file_version": "0.11", "compression": "zlib"},
        )
    ):
        path = tmp_path / f"rows{number}.orc"
        pa.orc.write_table(many, path, **settings)
        for batch_rows in (1, 1000, 1500, 1 << 17):
            opened = open_engine(path, SCHEMA, engine="stream", batch_rows=batch_rows)
            found = [table.tolist() for table in opened.engine.count([(name,) for name in opened.codec.domain])]
            assert found == [[900 * cell for cell in table] for table in expected]


def test_time_stamps_that_orc_cannot_return_are_refused_without_their_value(tmp_path):
    path = tmp_path / "rows.orc"
    for year in (1, 1676, 2263, 9999):
        table = pa.table({"t": pa.array([dt.datetime(2020, 1, 1), dt.datetime(year, 2, 3)], pa.timestamp("us"))})
        write_table([table], path, ".orc")
        days = 'range = ["2020-01-01", "2020-12-31"]'
        schema = Schema.from_toml(f'[columns.t]\nkind = "datetime"\n{days}\noutside = "clip"\n')
        for engine in ("memory", "stream"):
            with pytest.raises(DataError, match="before 1677 or after 2262") as caught:
                codes(path, schema=schema, engine=engine)
            assert str(path) in str(caught.value) and f"{year}-" not in str(caught.value)
        with pytest.raises(DataError, match="before 1677 or after 2262"):
            draft_source(path)


def test_a_csv_whose_first_column_is_called_orc_is_text(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("ORC,n\n" + "a,1\nb,2\n" * 20)
    assert "[columns.ORC]" in draft_source(path)


def test_columns_of_one_name_are_refused_in_orc(tmp_path):
    path = tmp_path / "rows.orc"
    pa.orc.write_table(pa.table([[1], [2]], ["a", "a"]), path)
    with pytest.raises(SchemaError, match="several columns of this name"):
        draft_source(path)


def test_a_draft_of_several_files_refuses_a_first_row_for_names(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("39,S3CRET,77516\n40,x,1\n")
    with pytest.raises(DataError, match=r"looks like a row.*--no-header") as caught:
        draft_source([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert "S3CRET" not in str(caught.value)
