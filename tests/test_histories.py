"""Histories of a single table: its privacy argument by brute force and replay, and releases from end to end."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner
from weft_lab.replay import replay

import weft
from weft.cli import app
from weft.encoding.time_gaps import GAP_CODES, count_possible_codes, draw_gaps, encode_gaps, place_times
from weft.engines import family_rows
from weft.engines.family_rows import open_changes, open_families, pair_weight, row_weight
from weft.errors import DataError, SchemaError
from weft.privacy import Noise
from weft.privacy.mechanisms import Mechanisms
from weft.release.database_release import publish_history
from weft.schema.database import Database
from weft.synthesis import database_fit
from weft.synthesis.history_fit import split_history
from weft.synthesis.history_model import find_correlation

COLUMNS = {
    "person": {"kind": "id"},
    "year": {"kind": "integer", "range": [2000, 2009]},
    "sex": {"kind": "category", "values": ["f", "m"]},
    "age": {"kind": "integer", "range": [0, 99]},
    "state": {"kind": "category", "values": ["work", "home", "ill"]},
    "wage": {"kind": "real", "range": [0, 1000], "decimals": 1, "outside": "clip"},
}
SCHEMA = weft.Schema.from_dict({"unit": "person", "rows_per_unit": 5, "time": "year", "columns": COLUMNS})


def panel(n=600, seed=0):
    """Make persons whose state and wage depend on those of the year before."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n)
    owner = np.repeat(np.arange(n), sizes)
    start = rng.integers(2000, 2005, n)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    state, wage = np.zeros(len(owner), int), np.zeros(len(owner))
    level = rng.normal(400, 120, n)
    for i in range(len(owner)):  # a test's own data
        stays = step[i] and rng.random() < 0.8
        state[i] = state[i - 1] if stays else rng.integers(0, 3)
        wage[i] = level[owner[i]] + rng.normal(0, 30)
    return pd.DataFrame(
        {
            "person": owner,
            "year": start[owner] + step,
            "sex": rng.choice(["f", "m"], n)[owner],
            "age": rng.integers(20, 60, n)[owner] + step,
            "state": np.array(["work", "home", "ill"])[state],
            "wage": wage.clip(0, 1000).round(1),
        }
    )


@given(st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=6), min_size=1, max_size=5), st.integers(5, 60))
def test_times_stay_in_their_range_and_in_order(gaps, room):
    family = np.repeat(np.arange(len(gaps)), [len(g) for g in gaps])
    steps = np.concatenate([[0, *g[1:]] for g in gaps])
    times = place_times(np.full(len(gaps), 7), steps, family, (0, room), 1)
    inside = np.diff(family) == 0
    assert times.min() >= 0 and times.max() <= room
    assert (np.diff(times)[inside] >= 0).all()
    if all(len(g) <= room for g in gaps) and min(min(g[1:], default=1) for g in gaps) > 0:
        assert (np.diff(times)[inside] > 0).all()  # distinct times stay distinct


@given(st.lists(st.integers(0, 10**7), min_size=2, max_size=30))
def test_gaps_are_drawn_from_the_cell_that_encodes_them(gaps):
    times = np.cumsum(gaps)
    codes = encode_gaps(times, np.zeros(len(times), np.int64), 1)
    assert codes[0] == 0 and codes.max() < GAP_CODES
    drawn = draw_gaps(codes, 1, 1 << 40, np.random.default_rng(0))
    again = encode_gaps(np.cumsum(drawn), np.zeros(len(times), np.int64), 1)
    assert (again == codes).all()


def test_gaps_that_only_noise_has_do_not_leave_the_range():
    """The largest gaps in days do not fit 64 bits in microseconds; noise gives each of them some probability."""
    day, n = 86_400_000_000, 6
    ends = (0, 1_095 * day)
    codes = np.array([0] + [GAP_CODES - 1] * (n - 1))
    gaps = draw_gaps(codes, day, (ends[1] - ends[0]) // day, np.random.default_rng(0))
    times = place_times(np.array([500 * day]), gaps, np.zeros(n, np.int64), ends, day)
    assert (np.diff(times) > 0).all() and times[0] >= ends[0] and times[-1] <= ends[1]
    assert encode_gaps(np.array([0, 1_095]), np.zeros(2, np.int64), 1)[1] < count_possible_codes(1_095)
    assert encode_gaps(np.array([0, 1_600]), np.zeros(2, np.int64), 1)[1] >= count_possible_codes(1_095)


def test_correlation_of_groups():
    assert find_correlation(np.ones((4, 4))) == 0
    assert find_correlation(np.eye(4)[::-1]) == 0  # only persistence counts


HISTORIES = [
    ((), ()),
    (("a",), (1,)),
    (("a", "a"), (1, 2)),
    (("a", "b"), (1, 1)),
    (("b", "a", "b"), (1, 2, 5)),
    (("a", "a", "a", "b"), (1, 2, 3, 4)),
]


def visits(persons):
    rows = [(p, t, s) for p, (states, times) in persons for s, t in zip(states, times, strict=True)]
    people = pd.DataFrame({"id": [f"p{p}" for p, _ in persons], "sex": "f"}).astype(str)
    table = pd.DataFrame(rows, columns=["id", "day", "state"]).astype({"day": "int64", "state": "string"})
    return {"people": people, "visits": table.assign(id=[f"p{p}" for p in table["id"]]).astype({"id": "string"})}


VISITS = Database.from_toml("""
root = "people"
[tables.people]
key = "id"
columns.sex = {kind = "category", values = ["f", "m"]}
[tables.visits]
foreign_keys = {id = "people.id"}
max_children = 4
time = "day"
columns.day = {kind = "integer", range = [1, 9]}
columns.state = {kind = "category", values = ["a", "b"]}
""")


class Still:
    """The coupling of Lemma 0: rows that both tables share have equal random numbers."""

    def random(self, n):
        return np.zeros(n)


def count_visits(persons):
    families = open_families(VISITS, visits(persons), {}, rng=Still())
    own = families.codecs["visits"].domain
    views = {
        "rows": families.rows("visits"),
        "pairs": families.pairs("visits", {name: (np.arange(own.size(name)), own.size(name)) for name in own}),
    }
    found = {}
    for view, engine in views.items():
        cliques = [c for n in (0, 1, 2) for c in itertools.combinations(sorted(engine.domain), n)]
        found |= {(view, c): table for c, table in zip(cliques, engine.count(cliques), strict=True)}
    return found


def test_one_history_moves_every_count_by_at_most_its_mass():
    """All tables of three of these histories, and each without one of them."""
    mass = {"rows": row_weight(VISITS, "visits"), "pairs": pair_weight(VISITS, "visits")}
    worst = dict.fromkeys(mass, 0)
    for chosen in itertools.combinations_with_replacement(range(len(HISTORIES)), 3):
        persons = list(enumerate(HISTORIES[i] for i in chosen))
        whole = count_visits(persons)
        for gone in range(3):
            less = count_visits([each for each in persons if each[0] != gone])
            for (view, clique), table in whole.items():
                moved = table - less[view, clique]
                assert (moved >= 0).all()
                worst[view] = max(worst[view], int(moved.sum()))
    assert worst == mass  # attained, and never exceeded


def changes_of(frame):
    engine = open_changes(frame, SCHEMA, "year")
    return {name: engine.count([(name,)])[0] for name in engine.domain}, engine


def test_a_person_is_one_record_of_changes():
    frame = panel(40)
    whole, engine = changes_of(frame)
    assert engine.mass == 1 and len(engine.records) == 40
    for person in (0, 7, 39):
        less, _ = changes_of(frame[frame["person"] != person])
        for name, table in whole.items():
            moved = table - less[name]
            assert moved.sum() == 1 and (moved >= 0).all()
    several = int((frame.groupby("person").size() > 1).sum())
    assert whole["sex"].tolist() == [40 - several, several, 0, 0]
    assert whole["age"].tolist() == [40 - several, 0, several, 0]  # ages advance with the year
    assert whole["year"].tolist() == [40 - several, several, 0, 0]  # no year occurs twice
    twice = pd.concat([frame, frame[frame["person"] == 3].head(1)])
    assert changes_of(twice)[0]["year"][3] == 1


def test_text_that_is_coded_by_its_order_of_appearance_counts_as_changing(tmp_path):
    frame = panel(60)
    frame["lag"] = [f"{i % 7} days" for i in range(len(frame))]
    frame.to_csv(tmp_path / "p.csv", index=False)
    columns = COLUMNS | {"lag": {"kind": "duration", "range": ["0s", "30d"], "outside": "clip"}}
    schema = weft.Schema.from_dict({"unit": "person", "rows_per_unit": 5, "columns": columns})
    assert "lag" not in open_changes(str(tmp_path / "p.csv"), schema, "year").domain


def test_a_history_of_times_alone_is_released():
    frame = panel(300)[["person", "year", "sex"]]
    schema = weft.Schema.from_dict(
        {"unit": "person", "rows_per_unit": 5, "time": "year", "columns": {n: COLUMNS[n] for n in frame}}
    )
    made = weft.Synthesizer(epsilon=3, journal=None, seed=1).fit(frame, schema).sample(seed=1)
    assert (made.groupby("person")["sex"].nunique() == 1).all()


def test_an_invalid_value_is_refused_before_any_charge(tmp_path):
    journal = tmp_path / "j.jsonl"
    with pytest.raises(DataError):
        weft.Synthesizer(epsilon=1, journal=journal).fit(panel(30).replace({"year": {2004: 1900}}), SCHEMA)
    assert not journal.exists() or '"question"' not in journal.read_text()


def test_constants_ages_and_distinct_times_are_found_from_the_noisy_counts():
    counts = {name: table.astype(float) for name, table in changes_of(panel(400))[0].items()}
    database = split_history(SCHEMA, "year", counts, 1.0, 5)
    assert [c.name for c in database.table("persons").schema.columns] == ["person", "sex"]
    assert [str(rule) for rule in database.rules] == [
        "rows.year differs between the rows of a family", "rows.age advances with time",
    ]  # fmt: skip
    assert Database.from_dict(database.to_dict()).rules == database.rules


@pytest.fixture
def program(tmp_path, monkeypatch):
    def open_still(*args, **settings):
        return family_rows.open_families(*args, **settings, rng=Still())

    monkeypatch.setattr(database_fit, "open_families", open_still)
    runs = []

    def run(data, release):
        folder = tmp_path / str(len(runs))
        runs.append(folder)
        folder.mkdir()
        synthesizer = weft.Synthesizer(epsilon=3, journal=None, seed=1).fit(data, SCHEMA, release=release)
        publish_history(synthesizer.related_, synthesizer.sample_tables(seed=1), folder / "made.csv")
        synthesizer.save(folder / "m.weft")
        ledger = synthesizer.ledger_.to_dict()
        for entry in ledger["entries"]:
            entry.pop("time", None)
        return {path.name: path.read_bytes() for path in folder.iterdir()} | {"ledger": ledger}

    return run


DATA = panel(90)
SIZES = DATA.groupby("person").size()


@pytest.mark.parametrize(
    "second",
    [
        DATA[DATA["person"] != SIZES[SIZES == 5].index[0]],
        DATA[DATA["person"] != SIZES[SIZES == 1].index[0]],
        pd.concat([DATA, pd.DataFrame([(999, 2003, "m", 5, "ill", 1e9)] * 9, columns=DATA.columns)]),
    ],
    ids=["a person at the bound", "a person with one row", "a person above the bound with equal times"],
)
def test_nothing_but_noise_depends_on_a_person(program, second):
    assert replay(program, DATA, second, Mechanisms(Noise.seeded(1))) == []


def test_a_panel_without_a_schema_is_released_as_histories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = panel(900)
    frame.to_csv("panel.csv", index=False)
    words = "synth panel.csv --unit person --time year -e 4 -o made.csv --model m.weft --few-rows --noise-seed 1"
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
    assert "Strengths and limitations of what may change" in done.output
    found = weft.Schema.load("made.schema.toml")  # to be used again as it is
    assert found.time == "year" and found.rows_per_unit > 1
    made = pd.read_csv("made.csv")
    assert list(made.columns) == list(frame.columns)
    person = made.groupby("person")
    assert (person["sex"].nunique() == 1).all()
    assert not made.duplicated(["person", "year"]).any()
    assert (made["year"].diff()[made["person"].diff() == 0] > 0).all()
    lengths = pd.concat(
        [g.groupby("person").size().value_counts(normalize=True) for g in (frame, made)], axis=1
    ).fillna(0)
    assert lengths.diff(axis=1).iloc[:, 1].abs().sum() / 2 < 0.06
    followed = made[made["person"].shift(-1) == made["person"]]["state"]
    assert (made["state"].shift(-1)[followed.index] == followed).mean() > 0.7  # .87 in the table, .35 by chance
    assert CliRunner().invoke(app, ["verify", "made.csv"]).exit_code == 0
    assert CliRunner().invoke(app, ["sample", "m.weft", "-n", "50", "-o", "more.csv"]).exit_code == 0
    assert pd.read_csv("more.csv")["person"].nunique() == 50
    text = (tmp_path / "made.csv").read_text().replace('"f"', '"m"', 1)
    (tmp_path / "made.csv").write_text(text)
    assert CliRunner().invoke(app, ["verify", "made.csv"]).exit_code != 0
    card = json.loads((tmp_path / "made.card.json").read_text())
    assert card["privacy"]["unit"] == "person" and sum(card["checks"].values()) == 0
    assert card["ledger"]["adjacency"]["rows_per_unit"] >= card["schema"]["tables"]["rows"]["max_children"]


def test_rules_in_time_hold():
    schema = VISITS.to_dict()
    schema["tables"]["visits"]["columns"]["count"] = {"kind": "integer", "range": [0, 20]}
    schema["family_rules"] = [
        {"increasing": "visits.day"},
        {"nondecreasing": "visits.count"},
        {"final": "visits", "where": {"state": "b"}},
    ]
    rng = np.random.default_rng(0)
    data = visits([(i, HISTORIES[rng.integers(1, 6)]) for i in range(400)])
    data["visits"]["count"] = rng.integers(0, 20, len(data["visits"]))
    synthesizer = weft.Synthesizer(epsilon=3, journal=None, seed=1).fit(data, Database.from_dict(schema))
    made = synthesizer.sample(seed=1)["visits"]
    after = made["id"].shift() == made["id"]
    assert (made["day"].diff()[after] > 0).all()
    assert (made["count"].diff()[after] >= 0).all()
    assert not (made["state"].shift()[after] == "b").any()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"time": "year"}, "person"),
        ({"time": "yaer", "unit": "person"}, "no column"),
        ({"time": "person", "unit": "person"}, "no column"),
    ],
)
def test_an_invalid_time_is_refused_before_spending(settings, told, tmp_path):
    journal = tmp_path / "j.jsonl"
    with pytest.raises(SchemaError, match=told):
        weft.Synthesizer(epsilon=1, journal=journal).fit(panel(20), **settings)
    assert not journal.exists()


def test_a_schema_states_a_time_only_with_a_unit():
    with pytest.raises(SchemaError, match="with a unit"):
        weft.Schema.from_dict({"time": "year", "columns": {"year": {"kind": "integer", "range": [1, 2]}}})
    assert weft.Schema.from_toml(SCHEMA.to_toml()) == SCHEMA


def test_a_report_compares_consecutive_rows_and_draws_histories(tmp_path):
    real, shuffled = panel(400), panel(400)
    shuffled["wage"] = np.random.default_rng(0).permutation(shuffled["wage"])
    fitted = weft.Synthesizer(epsilon=10, journal=None, seed=1, noise_seed=1).fit(real, SCHEMA)
    fitted.save(tmp_path / "panel.weft")
    figures = {}
    for name, frame in (("real", real), ("same", real), ("shuffled", shuffled), ("made", fitted.sample(seed=1))):
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    for name in ("same", "shuffled", "made"):
        words = ["report", tmp_path / "real.csv", tmp_path / f"{name}.csv", "--model", tmp_path / "panel.weft"]
        done = CliRunner().invoke(app, [*map(str, words), "-o", str(tmp_path / name), "--json"])
        assert done.exit_code == 0, done.output
        figures[name] = json.loads(done.stdout)["headlines"]["rows, consecutive rows"]["Pairs of columns"]
    assert figures["same"] == 1 and figures["shuffled"] < figures["same"] - 0.02
    index = (tmp_path / "made" / "index.html").read_text()
    assert "PRIVATE" in index and "rows-consecutive-rows.html" in index
    assert index.count("<svg") == 2 and "wage over year: 20 real histories" in index
    assert index.count("<polyline") == 2 * 2 * 20  # two numbers, real and synthetic, twenty persons each
