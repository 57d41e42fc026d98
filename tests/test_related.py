"""Related tables from end to end: frames and files in, the same out, with keys and family rules intact."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import weft
from weft.cli import app
from weft.errors import ConditionError, DataError, MethodError, SchemaError, WeftError
from weft.models.given_records import sample_given
from weft.release.database_release import count_broken_families
from weft.schema.database import Database
from weft.synthesis.verdicts import judge_tables

SCHEMA = """
root = "households"

[tables.households]
key = "id"
columns.region = {kind = "category", values = ["n", "s"]}
columns.size = {kind = "integer", range = [0, 5]}
columns.young = {kind = "category", values = ["no", "yes"]}
columns.from = {kind = "datetime", range = ["2020-01-01", "2020-12-31"]}

[tables.persons]
key = "person"
foreign_keys = {home = "households.id", job = "jobs.code"}
max_children = 5
columns.role = {kind = "category", values = ["head", "partner", "child"]}
columns.age = {kind = "integer", range = [0, 99]}
columns.number = {kind = "integer", range = [1, 5]}
columns.since = {kind = "datetime", range = ["2019-01-01", "2021-12-31"]}

[tables.trips]
foreign_keys = {person = "persons.person"}
max_children = 3
time = "hour"
columns.hour = {kind = "integer", range = [0, 23]}
columns.mode = {kind = "category", values = ["car", "foot"]}

[tables.jobs]
key = "code"
public = true
columns.title = {kind = "category", values = ["clerk", "nurse"]}

[[family_rules]]
exactly_one = "persons"
where = {role = "head"}

[[family_rules]]
at_most_one = "persons"
where = {role = "partner"}

[[family_rules]]
number = "persons.number"

[[family_rules]]
count = "persons"
column = "size"
max = 4

[[family_rules]]
any = "persons"
column = "young"
where = {age = {max = 17}}
values = ["no", "yes"]

[[family_rules]]
within = "persons.since"
after = "from"
"""


def town(n=1500, seed=0):
    """Make households whose members resemble each other."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 6, n)
    home = np.repeat(np.arange(n), sizes)
    place = np.arange(len(home)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    role = np.where(place == 0, "head", np.where((place == 1) & (home % 3 > 0), "partner", "child"))
    old = np.repeat(rng.integers(20, 80, n), sizes)
    age = np.where(role == "child", np.maximum(old - 25, 0) % 30, old + rng.integers(-3, 4, len(home)))
    start = np.datetime64("2020-01-01") + rng.integers(0, 360, n)
    persons = pd.DataFrame(
        {
            "person": np.arange(len(home)),
            "home": home,
            "job": rng.choice([10, 20], len(home)),
            "role": role,
            "age": np.clip(age, 0, 99),
            "number": place + 1,
            "since": start[home] + rng.integers(0, 100, len(home)),
        }
    )
    young = np.bincount(home, persons["age"] < 18, n) > 0
    households = pd.DataFrame(
        {
            "id": np.arange(n),
            "region": rng.choice(["n", "s"], n),
            "size": np.minimum(sizes, 4),
            "young": np.where(young, "yes", "no"),
            "from": start,
        }
    )
    trips = pd.DataFrame(
        {
            "person": rng.integers(0, len(home), n),
            "hour": rng.integers(0, 24, n),
            "mode": rng.choice(["car", "foot"], n),
        }
    )
    jobs = pd.DataFrame({"code": [10, 20], "title": ["clerk", "nurse"]})
    return {"households": households, "persons": persons, "trips": trips, "jobs": jobs}


@pytest.fixture(scope="module")
def fitted():
    synthesizer = weft.Synthesizer(epsilon=4, journal=None, seed=1, noise_seed=1)
    return synthesizer.fit(town(), Database.from_toml(SCHEMA))


def arrow(made):
    return {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in made.items()}


def test_a_dict_of_frames_in_a_dict_of_frames_out(fitted):
    data, made = town(), fitted.sample(seed=3)
    assert set(made) == set(data)
    for name, frame in data.items():
        assert isinstance(made[name], pd.DataFrame)
        assert list(made[name]) == list(frame), name
    assert abs(len(made["households"]) - 1500) < 150
    assert abs(len(made["persons"]) - len(data["persons"])) < 600
    assert 0.98 < fitted.ledger_.used <= 1.0 + 1e-9


def test_rows_that_refer_to_no_public_row_are_dropped():
    data, astray = town(300), town(300)
    astray["persons"].loc[::50, "job"] = 99
    schema, settings = Database.from_toml(SCHEMA), {"epsilon": 4, "journal": None, "seed": 1, "noise_seed": 1}
    made = weft.Synthesizer(**settings).fit(astray, schema).sample(seed=2)
    assert set(made["persons"]["job"]) <= set(data["jobs"]["code"])


def test_the_contribution_bound_of_a_discovered_table_is_chosen_and_reported(tmp_path):
    rng = np.random.default_rng(0)
    own = np.repeat(np.arange(2000), np.where(np.arange(2000) % 4 == 0, 90, 20))
    pd.DataFrame({"id": np.arange(2000), "sex": rng.choice(["f", "m"], 2000)}).to_csv(tmp_path / "p.csv", index=False)
    labs = pd.DataFrame({"p": own, "test": rng.choice(["x", "y"], len(own))})
    labs.to_csv(tmp_path / "labs.csv", index=False)
    text = 'root = "p"\n[tables.p]\nkey = "id"\n[tables.labs]\nforeign_keys = {p = "p.id"}\n'
    (tmp_path / "db.toml").write_text(text)
    files = {"p": tmp_path / "p.csv", "labs": tmp_path / "labs.csv"}
    made = weft.Synthesizer(epsilon=4, journal=None, noise_seed=1).fit(files, tmp_path / "db.toml")
    bound = made.related_.database.table("labs").max_children
    assert bound > 20 and made.ledger_.adjacency.rows_per_unit == bound + 1
    (verdict,) = (each for each in judge_tables(made.related_)["labs"] if each.column == "p")
    assert verdict.grade == "usable with care" and "the contribution bound" in verdict.reasons[0]


def test_keys_bounds_and_rules_hold_in_every_family(fitted):
    made = fitted.sample(400, seed=4)
    broken = count_broken_families(Database.from_toml(SCHEMA), arrow(made))
    assert len(broken) == 14
    assert not any(broken.values()), broken
    hours = made["trips"].groupby("person", sort=False)["hour"]
    assert hours.apply(lambda values: values.is_monotonic_increasing).all()  # in the order of time


@pytest.mark.parametrize(
    ("table", "column", "value", "told"),
    [
        ("households", "size", 0, "size = count"),
        ("households", "young", "maybe", "young = any"),
        ("persons", "home", "nobody", "persons.home refers to"),
        ("persons", "role", "child", "exactly one row of persons"),
        ("persons", "number", 3, "numbers the rows"),
        ("persons", "since", pd.Timestamp("2019-01-01"), "lies within"),
        ("persons", "person", "1", "persons.person is a key"),
    ],
)
def test_a_broken_family_is_found(fitted, table, column, value, told):
    made = {name: frame.copy() for name, frame in fitted.sample(50, seed=5).items()}
    made[table][column] = value
    schema = Database.from_toml(SCHEMA)
    broken = count_broken_families(schema, arrow(made))
    assert any(count for what, count in broken.items() if told in what)


def test_siblings_resemble_each_other(fitted):
    def apart(tables):
        persons = tables["persons"]
        pairs = persons[persons["role"].isin(["head", "partner"])].groupby("home")["age"]
        both = pairs.agg(["min", "max", "size"])
        return (both["max"] - both["min"])[both["size"] == 2].mean()

    real, made, shuffled = town(), fitted.sample(seed=6), town()
    shuffled["persons"]["age"] = np.random.default_rng(0).permutation(shuffled["persons"]["age"])
    assert apart(real) < 4
    assert apart(made) < 0.7 * apart(shuffled)


def test_a_model_file_gives_the_same_rows(fitted, tmp_path):
    fitted.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    one, other = fitted.sample_tables(100, seed=7), loaded.sample_tables(100, seed=7)
    assert all(one[name].equals(other[name]) for name in one)
    assert loaded.ledger_.to_dict() == fitted.ledger_.to_dict()


def test_given_attributes_are_kept(fitted):
    model = fitted.related_.models["persons"]
    given = {"households: region": np.array([0, 1, 1]), "households: number of persons": np.array([1, 2, 2])}
    head = {"role": np.array([1.0, 0.0, 0.0])}
    records = sample_given(model, given, head, np.random.default_rng(0))
    assert all(np.array_equal(records.column(name), codes) for name, codes in given.items())
    assert not records.column("role").any()


@pytest.mark.parametrize(
    ("settings", "error", "told"),
    [
        ({"method": "mst"}, MethodError, "weave only"),
        ({"engine": "stream"}, MethodError, "held in memory"),
        ({"public": "other.csv"}, MethodError, "option public"),
    ],
)
def test_what_is_not_supported_is_refused_before_spending(settings, error, told, tmp_path):
    journal = tmp_path / "j.jsonl"
    with pytest.raises(error, match=told):
        weft.Synthesizer(journal=journal, **settings).fit(town(20), Database.from_toml(SCHEMA))
    assert not journal.exists()


def test_roles_that_overlap_are_refused_before_spending(tmp_path):
    overlapping = SCHEMA.replace('where = {role = "partner"}', 'where = {role = ["head", "partner"]}')
    journal = tmp_path / "j.jsonl"
    with pytest.raises(SchemaError, match="the same role"):
        weft.Synthesizer(journal=journal).fit(town(20), Database.from_toml(overlapping))
    assert not journal.exists()


def test_missing_tables_and_columns_are_refused_before_spending(tmp_path):
    journal, data = tmp_path / "j.jsonl", town(20)
    synthesizer = weft.Synthesizer(journal=journal)
    with pytest.raises(DataError, match='no source for table "jobs"'):
        synthesizer.fit({name: frame for name, frame in data.items() if name != "jobs"}, Database.from_toml(SCHEMA))
    with pytest.raises(SchemaError, match='no table "homes"'):
        synthesizer.fit(data | {"homes": data["jobs"]}, Database.from_toml(SCHEMA))
    with pytest.raises(SchemaError, match="no such column"):
        synthesizer.fit(data | {"trips": data["trips"].drop(columns="mode")}, Database.from_toml(SCHEMA))
    with pytest.raises(SchemaError, match="related tables need a schema"):
        synthesizer.fit(data)
    assert not journal.exists()


def test_a_query_by_a_column_of_another_table_says_which(fitted):
    with pytest.raises(WeftError, match=r'by "age", but by columns of households\. Pass --table persons'):
        fitted.query("age")


def test_what_works_for_one_table_only_says_so(fitted):
    with pytest.raises(WeftError, match="not supported for related tables"):
        fitted.replicates(2)


def test_conditions_on_the_root_keep_whole_families(fitted):
    made = fitted.sample(40, where="region = n", seed=1)
    assert len(made["households"]) == 40 and set(made["households"]["region"]) == {"n"}
    assert set(made["persons"]["home"]) <= set(made["households"]["id"]) and len(made["persons"]) > 40
    assert not any(count_broken_families(fitted.related_.database, arrow(made)).values())
    among = fitted.sample(where={"region": "n"}, seed=1)["households"]
    assert 0 < len(among) < fitted.related_.default_rows() and set(among["region"]) == {"n"}
    with pytest.raises(ConditionError, match="mode"):  # a column of another table
        fitted.sample(10, where="mode = bus")


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def test_files_in_a_folder_out(tmp_path):
    for name, frame in town(300).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "db.toml").write_text(SCHEMA)
    files = [tmp_path / f"{name}.csv" for name in town(1)]
    out = tmp_path / "made"
    first = run("synth", *files, "--schema", tmp_path / "db.toml", "-e", 2, "-o", out, "--model", out / "m.weft")
    assert first.exit_code == 0, first.output
    beside = {"database.card.json", "database.card.md", "m.weft"}
    assert (tmp_path / "made.ledger.jsonl").is_file()  # PRIVATE: not among the released files
    assert {path.name for path in out.iterdir()} == beside | {f"{name}.csv" for name in town(1)}
    card = json.loads((out / "database.card.json").read_text())
    assert card["privacy"]["unit"] == "households.id"
    assert not any(card["checks"].values())
    assert run("verify", out).exit_code == 0
    again = run("sample", out / "m.weft", "-n", 20, "-o", tmp_path / "few")
    assert again.exit_code == 0, again.output
    assert len(pd.read_csv(tmp_path / "few" / "households.csv")) == 20
    assert run("verify", tmp_path / "few").exit_code == 0
    refused = run("synth", *files, "--schema", tmp_path / "db.toml", "-e", 2, "-o", out)
    assert refused.exit_code == 7
    part = run("sample", out / "m.weft", "-n", 9, "--where", "region=s", "-o", tmp_path / "part")
    assert part.exit_code == 0, part.output
    assert set(pd.read_csv(tmp_path / "part" / "households.csv")["region"]) == {"s"}
    assert "every family meets the condition" in (tmp_path / "part" / "database.card.md").read_text()
    persons = (out / "persons.csv").read_text().splitlines()
    (out / "persons.csv").write_text("\n".join(persons[:-3]) + "\n")
    assert run("verify", out).exit_code != 0


def test_a_model_is_fitted_alone_and_other_commands_say_what_they_do_not_support(tmp_path):
    (tmp_path / "data").mkdir()
    for name, frame in town(200).items():
        frame.to_parquet(tmp_path / "data" / f"{name}.parquet")
    schema = tmp_path / "db.toml"
    schema.write_text(SCHEMA)
    made = run("fit", tmp_path / "data", "--schema", schema, "-e", 2, "-o", tmp_path / "m.weft")
    assert made.exit_code == 0, made.output
    assert weft.load(tmp_path / "m.weft").sample(5)["households"].num_rows == 5
    query = run("query", tmp_path / "m.weft", "age")
    assert query.exit_code != 0
    assert "--table" in query.output
    replicates = run("replicates", tmp_path / "m.weft", "-o", tmp_path / "r")
    assert replicates.exit_code != 0
    assert "related tables" in replicates.output


def test_a_report_compares_tables_families_and_siblings(tmp_path):
    for folder, frames in (("data", town(150)), ("same", town(150)), ("other", town(150, seed=9))):
        (tmp_path / folder).mkdir()
        for name, frame in frames.items():
            frame.to_csv(tmp_path / folder / f"{name}.csv", index=False)
    (tmp_path / "db.toml").write_text(SCHEMA)

    def figures(made):
        out = ("--schema", tmp_path / "db.toml", "-o", tmp_path / "report", "--json")
        done = run("report", tmp_path / "data", tmp_path / made, *out)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["headlines"]

    same, other = figures("same"), figures("other")
    assert {"households", "persons", "persons, siblings", "trips"} <= set(same)
    assert same["persons"]["Pairs of columns"] == 1 and other["persons"]["Pairs of columns"] < 0.99
    pages = {path.name for path in (tmp_path / "report").iterdir()}
    assert {"index.html", "persons.html", "persons-siblings.html"} <= pages
    page = json.loads((tmp_path / "report" / "persons.json").read_text())
    assert "households.region" in {column["name"] for column in page["columns"]}
    assert "rows of persons" in (tmp_path / "report" / "households.json").read_text()
    index = (tmp_path / "report" / "index.html").read_text()
    assert "private rows, " in index and "up to 5, the contribution bound" in index
    shuffled = town(150)
    shuffled["persons"]["age"] = np.random.default_rng(0).permutation(shuffled["persons"]["age"])
    (tmp_path / "same" / "persons.csv").write_text(shuffled["persons"].to_csv(index=False))
    assert figures("same")["persons, siblings"]["Pairs of columns"] < same["persons, siblings"]["Pairs of columns"]
    refused = run("report", tmp_path / "data", tmp_path / "same", "--schema", tmp_path / "db.toml", "-o", "x.html")
    assert refused.exit_code == 7 and "folder" in refused.output


def test_columns_that_lost_values_are_named_on_screen_and_card(tmp_path):
    parents = pd.DataFrame({"id": np.arange(800), "rare": ["common"] * 797 + ["a", "b", "c"]})
    children = pd.DataFrame({"id": np.arange(800), "x": 1})
    for name, frame in {"parents": parents, "children": children}.items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    out = tmp_path / "made"
    files = [tmp_path / "parents.csv", tmp_path / "children.csv"]
    keys = ["--root", "parents", "--key", "parents.id", "--link", "children.id"]
    done = run("synth", *files, *keys, "-e", 1, "-o", out, "--noise-seed", 1)
    assert done.exit_code == 0, done.output
    assert "Strengths and limitations of parents" in done.output
    told = [line for line in json.loads((out / "database.card.json").read_text())["limits"] if "parents.rare:" in line]
    assert len(told) == 1 and "rare:" in done.output


def test_an_interrupt_keeps_a_paid_model_of_related_tables(tmp_path, monkeypatch):
    for name, frame in town(200).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "db.toml").write_text(SCHEMA)

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("weft.synthesis.database_model.FittedDatabase.sample", stop)
    files = [tmp_path / f"{name}.csv" for name in town(1)]
    done = run("synth", *files, "--schema", tmp_path / "db.toml", "-e", 2, "-o", tmp_path / "made")
    assert done.exit_code == 130, done.output
    (kept,) = tmp_path.glob("made-*.weft")  # beside the journal, which is not in the folder that may be published
    monkeypatch.undo()
    assert weft.load(kept).sample(5)["households"].num_rows == 5


def test_a_bad_schema_file_is_refused_before_anything_is_written(tmp_path):
    (tmp_path / "db.toml").write_text(SCHEMA.replace('home = "households.id"', 'home = "houses.id"'))
    made = run("synth", tmp_path / "x.csv", "--schema", tmp_path / "db.toml", "-e", 1, "-o", tmp_path / "made")
    assert made.exit_code == 3
    assert "houses" in made.output
    assert not (tmp_path / "made").exists()


ROLES = """
root = "p"
[tables.p]
key = "id"
columns.sex = {kind = "category", values = ["f", "m"]}
[tables.s]
foreign_keys = {p = "p.id"}
max_children = 8
columns.role = {kind = "category", values = ["h", "c", "o"]}
[[family_rules]]
exactly_one = "s"
where = {role = "h"}
[[family_rules]]
at_most_one = "s"
where = {role = "c"}
"""


@pytest.mark.parametrize("parents", [0, 3, 40])
@pytest.mark.parametrize("children", [0, 1])
def test_noise_that_leaves_no_role_does_not_end_a_paid_fit(parents, children):
    who = [f"p{i}" for i in range(parents)]
    frames = {
        "p": pd.DataFrame({"id": pd.Series(who, dtype=object), "sex": pd.Series(["f"] * parents, dtype=object)}),
        "s": pd.DataFrame(
            {"p": pd.Series(who * children, dtype=object), "role": pd.Series(["o"] * parents * children, dtype=object)}
        ),
    }
    for seed in range(4):
        made = weft.Synthesizer(epsilon=3.0, journal=None, noise_seed=seed, seed=seed)
        made.fit(frames, Database.from_toml(ROLES))
        tables = made.sample_tables(30, seed=1)
        heads = tables["s"].to_pandas().groupby("p")["role"].apply(lambda roles: (roles == "h").sum())
        assert (heads == 1).all()


def test_a_public_table_is_not_a_private_one_and_no_table_is_a_journal(tmp_path):
    schema = Database.from_toml(
        ROLES.split("[[family_rules]]")[0].replace("{p =", '{q = "q.code", p =')
        + '[tables.q]\nkey = "code"\npublic = true\ncolumns.sex = {kind = "category", values = ["f", "m"]}\n'
    )
    pd.DataFrame({"id": ["a", "b"], "code": ["1", "2"], "sex": ["f", "m"]}).to_csv(tmp_path / "p.csv", index=False)
    pd.DataFrame({"p": ["a"], "q": ["1"], "role": ["o"]}).to_csv(tmp_path / "s.csv", index=False)
    sources = {"p": tmp_path / "p.csv", "s": tmp_path / "s.csv", "q": tmp_path / "p.csv"}
    with pytest.raises(DataError, match="private"):
        weft.Synthesizer(epsilon=1.0, journal=None).fit(sources, schema)
    before = (tmp_path / "s.csv").read_bytes()
    pd.DataFrame({"code": ["1"], "sex": ["f"]}).to_csv(tmp_path / "q.csv", index=False)
    with pytest.raises(WeftError, match="input of this command"):
        weft.Synthesizer(epsilon=1.0, journal=tmp_path / "s.csv").fit(sources | {"q": tmp_path / "q.csv"}, schema)
    assert (tmp_path / "s.csv").read_bytes() == before


def test_related_tables_are_not_written_to_an_address(tmp_path):
    for name, frame in town(50).items():
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    (tmp_path / "db.toml").write_text(SCHEMA)
    files = [str(tmp_path / f"{name}.csv") for name in town(50)]
    words = ["synth", *files, "--schema", str(tmp_path / "db.toml"), "--epsilon", "1", "-o", "sqlite:made.sqlite"]
    told = CliRunner().invoke(app, words)
    assert told.exit_code and "are written to a folder" in told.stderr


def test_a_schema_of_keys_alone_is_checked(tmp_path):
    text = 'root = "p"\n[tables.p]\nkey = "id"\n[tables.q]\nforeign_keys = {p = "p.id"}\n'
    (tmp_path / "db.toml").write_text(text)
    told = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "db.toml")])
    assert told.exit_code == 0 and "valid" in told.stdout


def test_a_quantity_that_has_the_name_of_its_table_is_not_its_key(tmp_path):
    pd.DataFrame({"player": ["a", "b", "c"], "born": [1, 2, 2]}).to_csv(tmp_path / "players.csv", index=False)
    pays = pd.DataFrame({"player": ["a", "a", "b", "c"], "salary": [9, 9, 7, 8]})
    pays.to_csv(tmp_path / "salaries.csv", index=False)
    words = ["schema", "draft", str(tmp_path / "players.csv"), str(tmp_path / "salaries.csv")]
    told = CliRunner().invoke(app, [*words, "-o", str(tmp_path / "db.toml")])
    assert told.exit_code == 0, told.output
    assert 'key = "salary"' not in (tmp_path / "db.toml").read_text()
