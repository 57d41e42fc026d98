"""A derived column is computed: never read, never measured, exact where they are, missing as they are."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft import Synthesizer, load
from weft.drafting.schema_check import review_schema
from weft.encoding import Codec
from weft.errors import SchemaError
from weft.marginals.records import Records
from weft.schema import Boolean, Category, Datetime, Derived, Id, Integer, Real, Schema
from weft.schema.kinds.formula import evaluate_formula, parse_formula
from weft.values.arithmetic import NumberArray

BASE = (
    Integer("a", (0, 9), missing=True),
    Integer("b c", (-5, 5)),
    Real("price", (0, 10), decimals=2),
    Datetime("came", ("2023-12-25", "2024-01-05"), bins=12),
    Datetime("left", (0, 5), after="came"),
    Category("code", ("x1", "x2", "y1")),
    Category("grade", (1, 2, 3)),
    Boolean("yes"),
)
TYPES = {
    "a": pa.int64(),
    "b c": pa.int32(),
    "price": pa.float64(),
    "came": pa.date32(),
    "left": pa.timestamp("us"),
    "code": pa.string(),
    "grade": pa.int8(),
    "yes": pa.bool_(),
}


def made(column, arrow_type, rows=400, seed=0, nullable=True, others=()):
    fields = [*TYPES.items(), *((c.name, t) for c, t in others)]
    schema = pa.schema([*fields, pa.field(column.name, arrow_type, nullable)])
    codec = Codec(Schema((*BASE, *(c for c, _ in others), column)), schema)
    assert column.name not in codec.domain
    assert column.name not in codec.reads
    rng = np.random.default_rng(seed)
    records = Records.of(codec.domain, [rng.integers(0, size, rows) for size in codec.domain.shape])
    table = codec.decode(records, rng)
    table.validate(full=True)
    assert table.schema.field(column.name).type == arrow_type
    assert len(codec.decode(Records.empty(codec.domain), rng)) == 0
    # What the input holds there is not looked at.
    blank = table.set_column(table.num_columns - 1, table.schema.field(column.name), pa.nulls(rows, arrow_type))
    assert all(
        np.array_equal(x, y) for x, y in zip(codec.encode(table).columns, codec.encode(blank).columns, strict=True)
    )
    return table.to_pylist()


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.int8(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.decimal128(9, 2),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
def test_sums_are_exact_and_missing_where_an_operand_is(arrow_type):
    rows = made(Derived("x", 'a + 2 * ("b c" - 1)'), arrow_type)
    assert any(row["a"] is None for row in rows)
    for row in rows:
        expected = None if row["a"] is None else row["a"] + 2 * (row["b c"] - 1)
        assert row["x"] == (str(expected) if expected is not None and isinstance(row["x"], str) else expected)


def test_decimals_stay_exact():
    for row in made(Derived("x", "price * 3 + 0.10"), pa.decimal128(9, 2)):
        assert row["x"] == Decimal(f"{row['price']:.2f}") * 3 + Decimal("0.10")
    for row in made(Derived("x", "price + price"), pa.string()):
        assert Decimal(row["x"]) == 2 * Decimal(f"{row['price']:.2f}")
        assert row["x"][-3] == "."


def test_division_by_zero_is_missing():
    for row in made(Derived("x", 'price / "b c"'), pa.float64()):
        assert row["x"] == (None if row["b c"] == 0 else pytest.approx(row["price"] / row["b c"]))


def test_dates_count_in_days():
    for row in made(Derived("x", "left - came"), pa.int16()):
        assert row["x"] == (row["left"].date() - row["came"]).days
    for row in made(Derived("x", "came + grade"), pa.date32()):
        assert row["x"] == row["came"] + dt.timedelta(row["grade"])
    for row in made(Derived("x", "came + grade / 2"), pa.timestamp("s")):
        assert row["x"] == dt.datetime.combine(row["came"], dt.time()) + dt.timedelta(row["grade"] / 2)


@pytest.mark.parametrize("column", ["came", "left"])
@pytest.mark.parametrize(
    ("piece", "expected"),
    [
        ("year", lambda d: d.year),
        ("quarter", lambda d: (d.month + 2) // 3),
        ("month", lambda d: d.month),
        ("day", lambda d: d.day),
        ("week", lambda d: d.isocalendar().week),
        ("weekday", lambda d: d.isoweekday()),
        ("hour", lambda d: 0),
        ("monthname", lambda d: "December" if d.month == 12 else "January"),
    ],
)
def test_pieces_of_dates(piece, expected, column):
    for row in made(Derived("x", f"{piece}({column})"), pa.string() if piece == "monthname" else pa.int64()):
        assert row["x"] == expected(row[column])


def test_pieces_of_dates_in_text_and_numbers_and_zones():
    when = Datetime("d", ("2023-12-25", "2024-01-05"), format="%Y%m%d", bins=12)
    for arrow_type in (pa.string(), pa.int32()):
        for row in made(Derived("x", "year(d) * 100 + month(d)"), pa.int32(), others=[(when, arrow_type)]):
            assert row["x"] == int(str(row["d"])[:6])
    zoned = Datetime("z", ("2024-01-01 00:00", "2024-01-02 23:00"), step="1h", bins="each")
    for row in made(Derived("x", "hour(z)"), pa.int8(), others=[(zoned, pa.timestamp("s", "America/New_York"))]):
        assert row["x"] == row["z"].hour


@pytest.mark.parametrize("arrow_type", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_maps(arrow_type):
    column = Derived("x", of="code", map={"x1": "X", "x2": "X"}, otherwise="rest")
    for row in made(column, arrow_type):
        assert row["x"] == ("rest" if row["code"] == "y1" else "X")


def test_maps_of_numbers_and_truths():
    for row in made(Derived("x", of="grade", map={1: 10, "2": 20, "3": 30}), pa.int16()):
        assert row["x"] == 10 * row["grade"]
    for row in made(Derived("x", of="yes", map={"true": 1.5, "false": 0.0}), pa.float64()):
        assert row["x"] == (1.5 if row["yes"] else 0.0)
    for row in made(
        Derived("x", of="a", map={"0": "none"}, otherwise="some", missing=True), pa.string(), nullable=False
    ):
        assert row["x"] == (None if row["a"] is None else "some" if row["a"] else "none")


def test_chains():
    first = (Derived("y", "a + grade"), pa.int8())
    for row in made(Derived("x", "y * 2"), pa.int64(), others=[first]):
        assert row["x"] == (None if row["a"] is None else 2 * (row["a"] + row["grade"]))
    group = (Derived("y", of="code", map={"x1": "x", "x2": "x", "y1": "y"}), pa.string())
    for row in made(Derived("x", of="y", map={"x": "big", "y": "small"}), pa.string(), others=[group]):
        assert row["x"] == ("big" if row["code"].startswith("x") else "small")


def test_a_map_may_be_a_file_and_is_kept_in_the_schema(tmp_path, monkeypatch):
    (tmp_path / "codes.csv").write_text("code,group\nx1,X\nx2,X\ny1,Y\n")
    monkeypatch.chdir(tmp_path)
    text = '[columns.x]\nkind = "derived"\nof = "code"\nmap = "codes.csv"\n'
    schema = Schema.from_toml(f'{text}[columns.code]\nkind = "category"\nvalues = ["x1", "x2", "y1"]\n')
    (tmp_path / "codes.csv").unlink()
    assert schema.to_dict()["columns"]["x"]["map"] == {"x1": "X", "x2": "X", "y1": "Y"}
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_dict(schema.to_dict()) == schema
    with pytest.raises(SchemaError, match=r'line 4: column "x": map: cannot read codes.csv'):
        Schema.from_toml(text)


def test_else_is_written_as_else():
    schema = Schema((*BASE, Derived("x", of="code", map={"x1": "odd key"}, otherwise="rest")))
    assert "else = " in schema.to_toml()
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    "formula",
    [
        "",
        "a +",
        "a ** 2",
        "__import__('os')",
        "a.b",
        "a if b else c",
        "[a]",
        "1 / 0 + a",
        "sum(a)",
        "1 + 1",
        "year(a + b)",
        "1e400 * a",
        "monthname(came) + 1",
        "a" * 3000,
        "(" * 500 + "a" + ")" * 500,
        "a // 2",
        "True + a",
    ],
)
def test_formulas_that_are_none(formula):
    with pytest.raises(SchemaError, match=r'line 3: column "x": '):
        Schema.from_toml(f"[columns.x]\nkind = 'derived'\nformula = '''{formula}'''\n")


@pytest.mark.parametrize(
    ("column", "arrow_type", "message"),
    [
        (Derived("x", "aa + 1"), pa.int64(), '"x": formula names "aa", which is not a column. Did you mean "a"'),
        (Derived("x", "x + 1"), pa.int64(), "in a circle"),
        (Derived("x", "code + 1"), pa.int64(), '"code" is not a number'),
        (Derived("x", "year(a)"), pa.int64(), '"a" is not a date'),
        (Derived("x", "a * 100"), pa.int8(), "may exceed the limits of its type int8"),
        (Derived("x", 'a / "b c"'), pa.int64(), "may exceed the limits"),
        (Derived("x", "came - left"), pa.bool_(), "does not fit its type bool"),
        (Derived("x", of="code", map={"x1": "X"}), pa.string(), 'map lacks the value "x2"'),
        (Derived("x", of="a", map={"0": "X"}), pa.string(), 'map lacks the value "1"'),
        (Derived("x", of="price", map={"0": "X"}), pa.string(), "must name a category"),
        (Derived("x", of="codes", map={"0": "X"}), pa.string(), 'Did you mean "code"'),
        (Derived("x", of="code", map={"x1": "X"}, otherwise="z"), pa.int64(), "do not fit its type"),
    ],
)
def test_what_cannot_be_is_refused_before_rows_are_read(column, arrow_type, message):
    with pytest.raises(SchemaError, match=message):
        Codec(Schema((*BASE, column)), pa.schema([*TYPES.items(), ("x", arrow_type)]))


def test_missing_needs_a_place():
    with pytest.raises(SchemaError, match="set missing = true"):
        Codec(Schema((*BASE, Derived("x", "a + 1"))), pa.schema([*TYPES.items(), pa.field("x", pa.int64(), False)]))


def test_circles_and_tables_without_anything_to_learn():
    circle = Schema((Integer("n", (0, 1)), Derived("x", "y + 1"), Derived("y", "x + n")))
    with pytest.raises(SchemaError, match="in a circle"):
        Codec(circle, pa.schema([("n", pa.int8()), ("x", pa.int64()), ("y", pa.int64())]))
    with pytest.raises(SchemaError, match="no column to model"):
        Codec(Schema((Id("i"),)), pa.schema([("i", pa.string())]))
    with pytest.raises(SchemaError, match='unit must name a column of kind "id"'):
        Schema((Integer("n", (0, 1)), Derived("x", "n + 1")), unit="x")


def test_from_a_file_to_a_release(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("n,twice,word\n" + "1,not read,\n3,,zzz\n" * 200)
    schema = Schema.from_toml(
        '[columns.n]\nkind = "integer"\nrange = [0, 4]\n[columns.twice]\nkind = "derived"\nformula = "2 * n"\n'
        'type = "int64"\n'
        '[columns.word]\nkind = "derived"\nof = "n"\nmap = {"1" = "one"}\nelse = "more"\n'
    )
    assert any("never measured" in finding.text for finding in review_schema(schema))
    fitted = Synthesizer(8.0, method="independent", noise_seed=1, journal=None).fit(path, schema)
    fitted.save(tmp_path / "model.weft")
    table = load(tmp_path / "model.weft").sample(100)
    assert table.column_names == ["n", "twice", "word"]
    for row in table.to_pylist():
        assert row["twice"] == 2 * row["n"]
        assert row["word"] == ("one" if row["n"] == 1 else "more")


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_any_formula_is_what_python_makes_of_it(data):
    signs = st.sampled_from("+-*")
    leaves = st.sampled_from(["a", "b", "2", "0.5", "7"])
    text = data.draw(
        st.recursive(leaves, lambda inner: st.builds("({} {} {})".format, inner, signs, inner), max_leaves=8)
    )
    values = data.draw(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50)), min_size=1, max_size=5))
    columns = {n: np.array([v[i] for v in values]) for i, n in enumerate("ab")}
    none = np.zeros(len(values), bool)
    got = evaluate_formula(
        parse_formula(text), lambda name: NumberArray(columns[name.column], parse_formula("1"), none), NumberArray.of
    )
    expected = [eval(text, {"a": a, "b": b}) for a, b in values]
    assert np.broadcast_to(got.floats(), len(values)).tolist() == pytest.approx(expected)
