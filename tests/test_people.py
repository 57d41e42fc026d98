"""People with several rows: how many each has is asked once, and reproduced."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft import Schema, Synthesizer
from weft.curator.value_queries import MAX_UNIT_SIZE
from weft.encoding import Codec
from weft.encoding.persons import People
from weft.engines.privacy_units import keep_rows, sizes_of
from weft.errors import SchemaError
from weft.privacy import Adjacency

TEXT = """
unit = "who"
rows_per_unit = 3
per_unit = ["sex", "born"]
[columns.who]
kind = "id"
type = "int64"
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.born]
kind = "integer"
range = [1920, 2020]
[columns.cost]
kind = "integer"
range = [0, 999]
"""
SCHEMA = Schema.from_toml(TEXT)
TWO_COLUMNS = """
unit = "who"
rows_per_unit = 4
per_unit = ["sex"]
[columns.who]
kind = "id"
[columns.sex]
kind = "category"
values = ["f", "m"]
"""


def table(people=1500, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 2, 3], people, p=[0.5, 0.2, 0.3])
    who = np.repeat(np.arange(people), rows)
    return pa.table(
        {
            "who": who + 7000,
            "sex": np.repeat(rng.choice(["f", "m"], people), rows),
            "born": np.repeat(rng.integers(1930, 2010, people), rows),
            "cost": rng.integers(0, 1000, len(who)),
        }
    )


def test_a_unit_more_moves_one_number_by_one_and_a_replaced_one_two():
    """Every table of up to three units with up to four rows each, of which two are kept."""
    most = 2

    def sizes(rows):
        owners = np.repeat(np.arange(len(rows)), rows)
        return sizes_of(owners[keep_rows(owners, most, np.random.default_rng(0))], most)

    added, replaced = 0.0, 0.0
    for rows in itertools.product(range(5), repeat=3):
        for other in range(5):
            added = max(added, np.abs(sizes([*rows, other]) - sizes(rows)).sum())
            replaced = max(replaced, np.abs(sizes([*rows[:2], other]) - sizes(rows)).sum())
    assert added == Adjacency(rows_per_unit=most).units_l1() == 1
    assert replaced == Adjacency("replace-one", rows_per_unit=most).units_l1() == 2
    assert Adjacency("replace-one").units_l2() == pytest.approx(np.sqrt(2))


def test_rows_are_dealt_out_in_the_numbers_that_were_measured():
    text = TWO_COLUMNS + '[columns.x]\nkind = "integer"\nrange = [0, 9999]\n'
    who = [str(number) for number in range(10_000)]
    rows = pa.table({"who": who, "sex": ["f", "m"] * 5000, "x": list(range(10_000))})
    codec = Codec(Schema.from_toml(text), rows.schema)
    made, person = People(np.array([0.5, 0.0, 0.5]), ("sex",)).assign(rows, codec, np.random.default_rng(1))
    sizes = np.bincount(np.bincount(person)) / (person.max() + 1)
    assert sizes[[1, 3]] == pytest.approx([0.5, 0.5], abs=0.03) and sizes[2] < 0.01
    same = made.to_pandas().assign(person=person).groupby("person")["sex"].nunique()
    assert same.max() == 1
    assert made.column("x").equals(rows.column("x"))
    changed = np.mean(np.array(made.column("sex").to_pylist()) != np.array(rows.column("sex").to_pylist()))
    assert changed < 0.001  # people are made of rows that are alike already


def test_a_row_that_would_break_a_rule_is_a_person_of_its_own():
    text = TWO_COLUMNS + '[columns.pregnant]\nkind = "boolean"\n[[rules]]\nforbid = [{sex = "m", pregnant = true}]\n'
    rows = pa.table({"who": list("abcd"), "sex": ["f", "m", "f", "m"], "pregnant": [True, False, False, False]})
    codec = Codec(Schema.from_toml(text), rows.schema)
    for seed in range(20):
        made, person = People(np.array([0, 0, 0, 1.0]), ("sex",)).assign(rows, codec, np.random.default_rng(seed))
        assert not codec.broken(made).any()
        for number in set(person.tolist()):
            assert len({made.column("sex")[int(i)].as_py() for i in np.flatnonzero(person == number)}) == 1


@pytest.mark.parametrize("method", ["independent", "weave"])
def test_synthetic_people_have_as_many_rows_as_real_ones_and_ids_keep_their_type(method, tmp_path):
    real = table()
    fitted = Synthesizer(6.0, method=method, journal=None, noise_seed=1).fit(real, SCHEMA)
    assert fitted.ledger_.entries[0].purpose == "units"
    assert fitted.ledger_.used <= 1 + 1e-9
    fitted.save(tmp_path / "m.weft")
    made = weft.load(tmp_path / "m.weft").sample(3000, seed=1)
    assert made.schema.equals(real.schema)
    counts = [t.to_pandas().groupby("who").size().value_counts(normalize=True).sort_index() for t in (real, made)]
    assert counts[0].tolist() == pytest.approx(counts[1].tolist(), abs=0.05)
    assert made.to_pandas().groupby("who")[["sex", "born"]].nunique().to_numpy().max() == 1


def test_very_many_rows_a_person_are_counted_together():
    text = TEXT.replace("rows_per_unit = 3", "rows_per_unit = 100000")
    fitted = Synthesizer(6.0, method="independent", journal=None, noise_seed=1).fit(table(50), Schema.from_toml(text))
    assert len(fitted.fitted_.people.sizes) == MAX_UNIT_SIZE


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ('per_unit = ["sex", "born"]', 'per_unit = ["sexx"]', "Did you mean"),
        ('per_unit = ["sex", "born"]', 'per_unit = "sex"', "list of columns"),
        ("rows_per_unit = 3", "rows_per_unit = 1", "several rows"),
    ],
)
def test_what_makes_no_sense_is_refused(old, new, match):
    with pytest.raises(SchemaError, match=match):
        Schema.from_toml(TEXT.replace(old, new))


CLINIC = """
unit = "patient"
rows_per_unit = 8
per_unit = ["sex", "birth", "height"]
[columns.patient]
kind = "id"
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.birth]
kind = "datetime"
range = ["1930-01-01", "2010-12-31"]
[columns.seen]
kind = "datetime"
after = "birth"
range = ["0d", "36500d"]
[columns.age]
kind = "derived"
formula = "seen - birth"
[columns.year]
kind = "integer"
range = [2015, 2024]
[columns.height]
kind = "real"
range = [1.4, 2.1]
decimals = 2
[columns.weight]
kind = "real"
range = [40.0, 140.0]
decimals = 1
[columns.heavy]
kind = "derived"
formula = "bmi - 30"
[columns.bmi]
kind = "derived"
formula = "weight / (height * height)"
[[rules]]
unique = ["patient", "year"]
[[rules]]
when = {sex = "m"}
then = {weight = {min = 50}}
"""


def clinic(people=900, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.choice([1, 4, 8], people, p=[0.3, 0.4, 0.3])
    years = np.concatenate([rng.permutation(np.arange(2015, 2025))[:n] for n in rows])
    birth = np.repeat(np.datetime64("1930-01-01") + rng.integers(0, 29_000, people), rows)
    height = np.repeat(np.round(rng.normal(1.7, 0.1, people).clip(1.4, 2.1), 2), rows)
    weight = np.round((height**2 * rng.normal(25, 4, len(years))).clip(50, 140), 1)
    seen = birth + rng.integers(0, 7000, len(years))
    patient = np.repeat(np.arange(people), rows).astype(str)
    sex = np.repeat(rng.choice(["f", "m"], people), rows)
    days = (seen - birth).astype(int)
    bmi = weight / height**2
    columns = {"patient": patient, "sex": sex, "birth": birth, "seen": seen, "age": days.astype(float), "year": years}
    return pa.table(columns | {"height": height, "weight": weight, "heavy": bmi - 30, "bmi": bmi})


@pytest.mark.parametrize("method", ["independent", "mst", "privbayes", "weave"])
def test_formulas_keys_and_constants_hold_together(method):
    """Derived columns follow the constants of a person, and a key of a person's rows does not repeat."""
    real = clinic()
    fitted = Synthesizer(4.0, method=method, journal=None, noise_seed=1, seed=1).fit(real, Schema.from_toml(CLINIC))
    made = fitted.sample(3000, seed=2)
    frame = made.to_pandas()
    assert len(frame) == 3000
    assert frame.groupby("patient")[["sex", "birth", "height"]].nunique().to_numpy().max() == 1
    assert not frame.duplicated(["patient", "year"]).any()
    assert np.allclose(frame.bmi, frame.weight / frame.height**2)
    assert np.allclose(frame.heavy, frame.bmi - 30)
    days = frame.seen.to_numpy("datetime64[D]") - frame.birth.to_numpy("datetime64[D]")
    assert (days.astype(int) == frame.age).all() and (frame.age >= 0).all()
    assert not fitted.fitted_.codec.broken(made).any()
    measured = fitted.fitted_.people.sizes / fitted.fitted_.people.sizes.sum()
    sizes = np.bincount(frame.groupby("patient").size(), minlength=9)[1:]
    assert sizes / sizes.sum() == pytest.approx(measured, abs=0.05)


def test_a_balanced_panel_keeps_its_sizes():
    """Six rows a person in six years: rows are exchanged and copied, and hardly any person is split."""
    text = TWO_COLUMNS.replace("rows_per_unit = 4", "rows_per_unit = 6") + (
        '[columns.year]\nkind = "integer"\nrange = [1, 6]\n[[rules]]\nunique = ["who", "year"]\n'
    )
    rng = np.random.default_rng(3)
    n = 6000
    rows = pa.table({"who": np.arange(n).astype(str), "sex": rng.choice(["f", "m"], n), "year": rng.integers(1, 7, n)})
    codec = Codec(Schema.from_toml(text), rows.schema)
    made, person = People(np.eye(6)[5], ("sex",)).assign(rows, codec, rng)
    frame = made.to_pandas().assign(who=person)
    assert not frame.duplicated(["who", "year"]).any()
    assert (np.bincount(person) == 6).mean() > 0.95
    assert frame.groupby("who").sex.nunique().max() == 1


def test_conditions_hold_after_the_constants_of_a_person_are_set():
    fitted = Synthesizer(4.0, method="independent", journal=None, noise_seed=1).fit(clinic(), Schema.from_toml(CLINIC))
    made = fitted.sample(500, where="bmi >= 28", seed=1).to_pandas()
    assert len(made) == 500 and (made.bmi >= 28).all() and not made.duplicated(["patient", "year"]).any()


PIECES = """
unit = "who"
rows_per_unit = 3
per_unit = ["born"]
[columns.who]
kind = "id"
[columns.born]
kind = "datetime"
range = ["1950-03-01", "2010-06-30"]
pieces = {year = "y", month = "m", day = "d"}
[columns.y]
kind = "integer"
range = [1950, 2010]
[columns.m]
kind = "integer"
range = [1, 12]
[columns.d]
kind = "integer"
range = [1, 31]
[columns.decade]
kind = "derived"
formula = "year(born) - 1900"
[columns.seat]
kind = "integer"
range = [0, 100000]
[[rules]]
unique = ["seat", "decade"]
"""


@pytest.mark.parametrize("same", ['["born"]', '["y"]'])
def test_a_date_in_pieces_stays_the_same_and_stays_a_date(same):
    schema = Schema.from_toml(PIECES.replace('["born"]', same, 1))
    rng = np.random.default_rng(5)
    born = np.datetime64("1950-03-01") + rng.integers(0, 22_000, 600)
    years = born.astype("datetime64[Y]").astype(int) + 1970
    months = born.astype("datetime64[M]").astype(int) % 12 + 1
    days = (born - born.astype("datetime64[M]")).astype(int) + 1
    real = pa.table(
        {
            "who": np.repeat(np.arange(200), 3).astype(str),
            "y": years,
            "m": months,
            "d": days,
            "decade": (years - 1900).astype(float),
            "seat": rng.integers(0, 100_000, 600),
        }
    )
    fitted = Synthesizer(8.0, method="independent", journal=None, noise_seed=1).fit(real, schema)
    made = fitted.sample(600, seed=1).to_pandas()
    names = ["y", "m", "d"] if "born" in same else ["y"]
    assert made.groupby("who")[names].nunique().to_numpy().max() == 1
    dates = made.apply(lambda row: np.datetime64(f"{int(row.y):04d}-{int(row.m):02d}-{int(row.d):02d}"), axis=1)
    assert dates.between(np.datetime64("1950-03-01"), np.datetime64("2010-06-30")).all()
    assert (made.decade == made.y - 1900).all()
    assert not made.duplicated(["seat", "decade"]).any()
    assert made.groupby("who").size().mean() > 1.5
