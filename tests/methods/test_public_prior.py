"""A public table as a guess of how columns are related: it helps where it is right, and hardly hurts elsewhere."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from weft_lab.fetch import as_table
from weft_lab.generated import latent_class

import weft
from weft.cli import app
from weft.curator import Curator
from weft.encoding import Codec
from weft.engines import MemoryEngine
from weft.errors import DataError, MethodError, SchemaError, WeftError
from weft.evaluation.forecast import plan
from weft.evaluation.metrics import k_way
from weft.marginals.domain import Domain, StructuralZeros
from weft.marginals.marginal import NoisyMarginal
from weft.marginals.reconciliation import reconcile
from weft.marginals.records import Records
from weft.methods.weave.public_prior import PublicPrior, rake_pair, reconcile_distances
from weft.privacy import Adjacency, Budget, Ledger
from weft.schema import Schema
from weft.synthesis.statement import APART, NOT_TAKEN, PUBLIC, list_cautions

ROWS = 2_000


def population():
    records = latent_class(20_000, 8, np.random.default_rng(0), classes=6, sizes=(3, 8))
    schema = Schema.from_domain(dict(zip(records.domain.names, records.domain.shape, strict=True)))
    return as_table(records), schema


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The private rows, and files of public ones: of the same kind, and with other relations than the private ones."""
    rows, schema = population()
    folder = tmp_path_factory.mktemp("public")
    private, public = rows.slice(0, ROWS), rows.slice(ROWS)
    sorted_alone = {name: public[name].take(pc.sort_indices(public[name])) for name in public.column_names}
    rng = np.random.default_rng(1)
    shuffled = {name: public[name].take(pa.array(rng.permutation(len(public)))) for name in public.column_names}
    files = {"alike": public, "misleading": pa.table(sorted_alone), "unrelated": pa.table(shuffled)}
    for name, table in files.items():
        pq.write_table(table, folder / f"{name}.parquet")
    pq.write_table(private, folder / "private.parquet")
    return private, schema, folder


def error(private, schema, epsilon=0.5, **options):
    """Mean error of pairs over some runs."""
    codec, found = Codec(schema, private.schema), []
    for seed in range(4):
        made = weft.Synthesizer(epsilon, noise_seed=seed, seed=seed, journal=None, **options).fit(private, schema)
        found.append(k_way(codec.encode(private), codec.encode(made.sample(seed=seed)), 2).tvd)
    return np.mean(found)


def test_public_rows_of_the_same_kind_help_and_others_hardly_hurt(tables):
    private, schema, folder = tables
    alone = error(private, schema)
    assert error(private, schema, public=folder / "alike.parquet") < 0.8 * alone
    assert error(private, schema, public=folder / "misleading.parquet") < 1.1 * alone
    assert error(private, schema, public=folder / "unrelated.parquet") < 1.1 * alone


def test_the_distances_to_public_guesses_are_charged_and_nothing_else_is(tables):
    private, schema, folder = tables
    made = weft.Synthesizer(1.0, journal=None, public=str(folder / "alike.parquet")).fit(private, schema)
    asked = [entry.draws for entry in made.ledger_.entries if entry.purpose == "scores"]
    assert asked[0] == 2 * 28  # two guesses of every pair
    assert made.ledger_.spend_statement().epsilon <= 1.0 + 1e-9
    assert made.fitted_.options["public"] == "alike.parquet"  # the name, not the place


def test_a_raked_table_has_the_private_columns_and_the_public_relation():
    rng = np.random.default_rng(0)
    pair, rows, columns = rng.integers(1, 50, (4, 5)), rng.random(4), rng.random(5)
    rows, columns = 1000 * rows / rows.sum(), 1000 * columns / columns.sum()
    table = rake_pair(pair, rows, columns)
    assert table.sum(axis=1) == pytest.approx(rows, rel=1e-3) and table.sum(axis=0) == pytest.approx(columns)
    cross = pair[:-1, :-1] * pair[1:, 1:] / (pair[1:, :-1] * pair[:-1, 1:])
    assert table[:-1, :-1] * table[1:, 1:] / (table[1:, :-1] * table[:-1, 1:]) == pytest.approx(cross, rel=0.1)


def test_what_no_public_row_has_stays_possible():
    assert (rake_pair(np.array([[5.0, 0.0], [0.0, 5.0]]), np.array([6.0, 4.0]), np.array([5.0, 5.0])) > 0).all()
    assert np.isfinite(rake_pair(np.zeros((2, 2)), np.array([6.0, 0.0]), np.array([3.0, 3.0]))).all()


def test_two_distances_differ_by_no_more_than_their_ends():
    rng = np.random.default_rng(0)
    one, other, apart = rng.normal(50, 40, 100), rng.normal(50, 40, 100), rng.random(100) * 60
    first, second = reconcile_distances(one, other, apart)
    assert (np.abs(first - second) <= apart + 1e-9).all() and first + second == pytest.approx(one + other)
    near = np.abs(one - other) <= apart
    assert first[near] == pytest.approx(one[near]) and second[near] == pytest.approx(other[near])


def test_cells_that_no_row_may_have_stay_empty_in_a_public_guess():
    never = np.eye(2, 3, dtype=bool)
    domain = Domain(("a", "b"), (2, 3), impossible=(StructuralZeros(("a", "b"), never),))
    rows = MemoryEngine(Records.of(domain, [np.array([0, 1]), np.array([1, 2])]))
    curator = Curator(rows, Ledger(Budget(epsilon=1.0, delta=1e-5), "gaussian", Adjacency()), None, public=rows)
    columns = {("a",): np.array([6.0, 4.0]), ("b",): np.array([2.0, 3.0, 5.0])}
    (guess,) = PublicPrior(curator).guesses([("a", "b")], columns)
    taken = PublicPrior(curator).taken(("a", "b"), guess, 2.0)
    assert taken.order == 2 and np.array_equal(taken.empty, never)
    alone = [NoisyMarginal(c, table, 0.1) for c, table in columns.items()]
    assert not reconcile([*alone, taken], total=10.0).tables[2].table[never].any()


def refused(tables, tmp_path, match, kind=WeftError, schema=True, **settings):
    _, known, folder = tables
    journal = tmp_path / "run.ledger.jsonl"
    with pytest.raises(kind, match=match):
        weft.Synthesizer(1.0, journal=journal, **settings).fit(folder / "private.parquet", known if schema else None)
    assert not journal.exists() or '"charge"' not in journal.read_text()


def test_what_cannot_be_public_is_refused_before_a_charge(tables, tmp_path):
    private, schema, folder = tables
    link = tmp_path / "another-name.parquet"
    link.symlink_to(folder / "private.parquet")
    hidden = f"duckdb:SELECT * FROM '{folder / 'private.parquet'}'"
    for same in (folder / "private.parquet", link, str(folder), f"{folder}/p*.parquet", hidden):
        refused(tables, tmp_path, "is read from a file of the private table", DataError, public=same)
    pq.write_table(private.slice(0, 0), tmp_path / "none.parquet")
    refused(tables, tmp_path, "has no row", DataError, public=tmp_path / "none.parquet")
    pq.write_table(private.drop_columns([private.column_names[0]]), tmp_path / "fewer.parquet")
    refused(tables, tmp_path, f"fewer.parquet.*{private.column_names[0]}", public=tmp_path / "fewer.parquet")
    refused(tables, tmp_path, "nowhere", public=tmp_path / "nowhere.parquet")
    refused(tables, tmp_path, "standard input", DataError, public="-")
    with pytest.raises(WeftError) as told:
        weft.Synthesizer(public="postgresql://host/db?table=x&password=hush", journal=None).fit(private)
    assert "hush" not in str(told.value)
    refused(tables, tmp_path, "does not state all columns", SchemaError, schema=False, public=folder / "alike.parquet")
    with pytest.raises(MethodError, match="public"):
        weft.Synthesizer(1.0, method="privsyn", public="some.parquet")
    with pytest.raises(WeftError, match="plan reads no table"):
        plan(schema, 1000, options={"public": "some.parquet"})


def test_the_command_line_takes_it_and_the_card_says_so(tables, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    _, schema, folder = tables
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(schema.to_toml())
    public = str(folder / "alike.parquet")
    line = ["synth", str(folder / "private.parquet"), "-s", "schema.toml", "-e", "1", "--public", public]
    done = CliRunner().invoke(app, [*line, "--model", "made.weft", "-o", "made.csv"])
    assert done.exit_code == 0, done.output
    card = json.loads((tmp_path / "made.card.json").read_text())
    assert card["method"]["options"]["public"] == "alike.parquet"
    assert "alike.parquet, which was declared public" in (tmp_path / "made.card.md").read_text()
    assert "alike.parquet" in done.output and "alike.parquet" in (tmp_path / "made.ledger.jsonl").read_text()
    assert CliRunner().invoke(app, [*line[:-1], "", "-o", "none.csv"]).exit_code != 0
    assert weft.load("made.weft").fitted_.options["public"] == "alike.parquet"
    # How the private text is written says nothing of a public file that is no text.
    pa.csv.write_csv(tables[0], "semicolons.csv", pa.csv.WriteOptions(delimiter=";"))
    other = ["synth", "semicolons.csv", "--separator", ";", *line[2:], "-o", "made-2.csv"]
    assert CliRunner().invoke(app, other).exit_code == 0
    over = CliRunner().invoke(app, [*line, "-o", public])
    assert over.exit_code != 0 and "public table" in over.output.replace("\n", " ")
    both = CliRunner().invoke(app, [*line, "--option", "public=x", "-o", "other.csv"])
    assert both.exit_code != 0 and not (tmp_path / "other.csv").exists()


def test_a_public_table_needs_no_ids_and_the_card_does_not_say_that_columns_are_unrelated(tables, tmp_path):
    """Not even where every pair is the public one's; and whose rows are public does not matter."""
    private, schema, folder = tables
    whose = 'unit = "who"\nrows_per_unit = 2\n', '\n[columns.who]\nkind = "id"\n'
    known = Schema.from_toml(whose[0] + schema.to_toml() + whose[1])
    owned = private.append_column("who", pa.array([f"p{i // 2}" for i in range(len(private))]))
    made = weft.Synthesizer(1.0, noise_seed=1, seed=1, journal=None, public=folder / "alike.parquet").fit(owned, known)
    alone = tuple(m for m in made.fitted_.measured if len(m.clique) == 1)
    said = list_cautions(replace(made.fitted_, measured=alone))
    assert made.model_.relates_columns and APART not in said and PUBLIC.format(name="alike.parquet") in said
    none = weft.Synthesizer(0.001, noise_seed=1, journal=None, public=folder / "alike.parquet").fit(owned, known)
    assert not none.model_.relates_columns
    assert APART in list_cautions(none.fitted_) and NOT_TAKEN.format(name="alike.parquet") in list_cautions(
        none.fitted_
    )
    assert weft.Synthesizer(1.0, public=None).options == {}
