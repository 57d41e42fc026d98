import contextlib
import hashlib
import io
import json
import pickle
import zipfile

import numpy as np
import pytest
from conftest import SCHEMA
from fuzz.mutations import mutation

import weft
from weft.errors import MethodError, ModelFileError
from weft.methods import METHODS
from weft.models import MODELS
from weft.schema import Schema
from weft.synthesis import model_file as modelfile
from weft.synthesis.model_file import PARTLY
from weft.synthesis.statement import FROM_DATA


@pytest.fixture
def saved(tmp_path, table, schema):
    path = tmp_path / "model.weft"
    weft.Synthesizer(epsilon=1.0, method="independent", seed=1).fit(table, schema).save(path)
    return path


def read_members(path):
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewrite(path, changes, *, sealed=True):
    """Copy a model file with some members replaced (None: left out); sealed: with a manifest of what is there now."""
    members = {name: content for name, content in (read_members(path) | changes).items() if content is not None}
    if sealed and "manifest.json" not in changes:
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        del hashes["manifest.json"]
        members["manifest.json"] = json.dumps({"format": 2, "members": hashes}).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content)


def test_a_loaded_model_samples_the_same_rows(saved, table, schema):
    loaded = weft.load(saved)
    again = weft.load(saved)
    assert loaded.sample(50, seed=3).equals(again.sample(50, seed=3))
    assert loaded.sample(50, seed=3).schema.types == table.schema.types
    assert loaded.ledger_.to_dict() == again.ledger_.to_dict()


def test_nothing_of_the_rows_is_inside(tmp_path, schema):
    from conftest import make_table

    canary = make_table(50).set_column(3, "cost", [np.full(50, 123.45, np.float32)])
    path = tmp_path / "canary.weft"
    weft.Synthesizer(method="independent").fit(canary, schema).save(path)
    with zipfile.ZipFile(path) as file:
        assert all(b"123.45" not in file.read(name) for name in file.namelist())


def test_the_file_does_not_tell_the_time(saved, tmp_path):
    """How long a fit took follows the number of rows; and equal models make equal files."""
    with zipfile.ZipFile(saved) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {member.compress_type for member in file.infolist()} == {zipfile.ZIP_DEFLATED}
    weft.load(saved).save(tmp_path / "again.weft")
    assert (tmp_path / "again.weft").read_bytes() == saved.read_bytes()


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


HUGE = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999,), }".ljust(118)
"""An array file whose header claims 800 GB."""


@pytest.mark.parametrize(
    "changes",
    [
        {"weft.json": b"not json"},
        {"weft.json": b"[]"},
        {"manifest.json": json.dumps({"format": 99, "members": {}}).encode()},
        {"manifest.json": json.dumps({"format": 1, "members": {}}).encode()},
        {"manifest.json": json.dumps({"format": 2, "members": {}}).encode()},
        {"manifest.json": b"[]"},
        {"weft.json": json.dumps({"method": "nope", "options": {}, "measured": []}).encode()},
        {"weft.json": json.dumps({"method": "a\n---\nb", "options": {}, "measured": []}).encode()},
        {"weft.json": json.dumps({"method": "mst", "options": {"budget": 1}, "measured": []}).encode()},
        {"weft.json": json.dumps({"method": "mst", "options": {"share_scores": 1e-300}, "measured": []}).encode()},
        {"weft.json": json.dumps({"method": "dpsyn", "options": {"marginals": "a.toml"}, "measured": []}).encode()},
        {"weft.json": None},
        {"schema.json": b"{}"},
        {"model.json": json.dumps({"kind": "nope", "arrays": [], "values": {}}).encode()},
        {"model.json": json.dumps({"kind": "independent", "arrays": ["tables"], "values": {}}).encode()},
        {"arrays/tables.npy": HUGE},
        {"arrays/tables.npy": npy(np.zeros(3))},
        {"arrays/tables.npy": npy(np.array([None, "x"], dtype=object))},
        {"arrays/tables.npy": pickle.dumps([1, 2, 3])},
        {"arrays/tables.npy": None},
        {"ledger.json": b"{}"},
        {"ledger.json": b"[" * 100_000},
    ],
)  # fmt: skip
def test_a_hostile_file_gets_a_clear_error(saved, changes):
    rewrite(saved, changes)
    with pytest.raises(ModelFileError, match=r"model\.weft"):
        weft.load(saved)


@pytest.mark.parametrize("content", [b"", b"random bytes", b"PK\x03\x04 truncated"])
def test_what_is_no_zip_is_refused(tmp_path, content):
    path = tmp_path / "model.weft"
    path.write_bytes(content)
    with pytest.raises(ModelFileError):
        weft.load(path)
    with pytest.raises(ModelFileError, match="no such file"):
        weft.load(tmp_path / "absent.weft")


def test_an_older_file_says_what_to_do(saved):
    rewrite(saved, {"manifest.json": None}, sealed=False)
    with pytest.raises(ModelFileError, match=r"older Weft\. Fit the model again with this version"):
        weft.load(saved)


@pytest.mark.parametrize("changes", [{"extra.json": b"{}"}, {"weft.json": b"{}"}, {"arrays/tables.npy": None}])
def test_the_manifest_finds_what_was_changed_added_or_dropped(saved, changes):
    rewrite(saved, changes, sealed=False)
    with pytest.raises(ModelFileError, match="damaged"):
        weft.load(saved)


def edited(path, member, change):
    document = json.loads(read_members(path)[member])
    change(document)
    rewrite(path, {member: json.dumps(document).encode()})


def test_a_warning_cannot_be_dropped_without_being_missed(tmp_path, table):
    path = tmp_path / "m.weft"
    marked = Schema.from_toml(SCHEMA + 'from_data = ["range"]\n')
    weft.Synthesizer(1.0, method="independent", trust_data_for_schema=True).fit(table, marked).save(path)
    assert weft.load(path).ledger_.stamps[0].startswith(PARTLY) and FROM_DATA.startswith(PARTLY)
    edited(path, "ledger.json", lambda ledger: ledger["stamps"].clear())
    with pytest.raises(ModelFileError, match="does not warn"):
        weft.load(path)


def test_an_insecure_budget_says_so_whatever_the_file_says(tmp_path, table, schema):
    path = tmp_path / "m.weft"
    budget = weft.Budget(epsilon=50.0, insecure=True)
    weft.Synthesizer(budget=budget, method="independent").fit(table, schema).save(path)
    edited(path, "ledger.json", lambda ledger: ledger["stamps"].clear())
    assert weft.load(path).ledger_.stamps == ("INSECURE BUDGET",)
    edited(path, "ledger.json", lambda ledger: ledger["budget"].pop("insecure"))
    with pytest.raises(ModelFileError):
        weft.load(path)


def test_members_carry_no_time(saved):
    with zipfile.ZipFile(saved) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("name", ["ledger.json", "arrays/tables.npy"])
def test_a_small_file_that_unpacks_to_much_is_refused(saved, name, monkeypatch):
    monkeypatch.setattr(modelfile, "MAX_DOCUMENT", 1 << 16)
    monkeypatch.setattr(modelfile, "MAX_ARRAYS", 1 << 16)
    weft.load(saved)
    rewrite(saved, {name: b" " * (1 << 20)})
    with pytest.raises(ModelFileError, match="unpack to more than"):
        weft.load(saved)


KINDS = {
    "independent": {"method": "independent"},
    "bayesnet": {"method": "privbayes", "delta": 0.0},
    "atoms": {"method": "dualquery", "draws": 10},
    "copula": {"method": "dp-copula"},
    "generator": {"method": "dp-wgan", "steps": 2},
    "buckets": {"method": "bsg", "buckets": {"age": 2, "ward": [0, 0, 1, 1, 1]}},
    "gum": {"method": "privsyn", "rare": 30.0},
    "views": {"method": "priview", "strength": 2},
    "mrf": {"method": "tree", "rare": 30.0},
    "field": {"method": "pb-pgm", "delta": 0.0},
    "chains": {
        "method": "weave",
        "tuning": {"max_tree": 0, "chains": 500, "matching_rounds": 1, "columns_only_error": 10.0},
    },
    "arranged": {
        "method": "dpsyn",
        "marginals": '[[presence]]\ncolumns = ["ward", "cost"]\n[[fills]]\ncolumn = "sex"\nfrom = "ward"\n'
        '[[marginals]]\ncolumns = ["age", "cost"]\nexact = true\n',
    },
    "joined": {"method": "dpsyn", "parts": [["age", "ward"], ["age", "cost"]], "rare": 30.0},
    "seeded": {"method": "bsg", "omega": 3, "rows": 30, "guarantee": "deniability", "k": 2},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory, table, schema):
    """A model file of every kind, by name."""
    made = {}
    for name, settings in KINDS.items():
        made[name] = tmp_path_factory.mktemp("models") / f"{name}.weft"
        weft.Synthesizer(**({"epsilon": 5.0, "seed": 1} | settings)).fit(table, schema).save(made[name])
    stored = [json.loads(read_members(path)["model.json"]) for path in made.values()]
    inner = [each["values"]["inner"] for each in stored if "inner" in each["values"]]
    assert {each["kind"] for each in [*stored, *inner]} == set(MODELS)
    return made


@pytest.mark.parametrize("seeds", [range(25), pytest.param(range(25, 400), marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", KINDS)
def test_a_mutated_model_is_refused_or_usable(name, seeds, models, tmp_path):
    """Whatever is changed inside, by somebody who writes a new manifest: a model that samples, or a ModelFileError."""
    refused = 0
    for seed in seeds:
        path = tmp_path / "m.weft"
        path.write_bytes(models[name].read_bytes())
        rewrite(path, mutation(read_members(path), np.random.default_rng(seed)))
        try:
            loaded = weft.load(path)
            assert loaded.sample(7, seed=1).num_rows == 7
            loaded.ledger_.spend_statement()
        except ModelFileError:
            refused += 1
        except MethodError as error:
            assert name == "seeded" and "and no more" in str(error)  # fewer records than were asked for
    assert refused > len(seeds) / 5


def test_any_flipped_byte_loads_or_is_refused(saved):
    """Damage anywhere ends in a model or a ModelFileError, never in another exception."""
    original = saved.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(original), 150):
        damaged = bytearray(original)
        damaged[position] ^= 0xFF
        saved.write_bytes(bytes(damaged))
        with contextlib.suppress(ModelFileError):
            weft.load(saved)


@pytest.mark.parametrize("rows", [0, 1, 40])
@pytest.mark.parametrize("method", [name for name in METHODS if name != "marginals"])
def test_every_model_that_is_saved_can_be_loaded(method, rows, tmp_path, schema):
    from conftest import make_table

    settings = {"delta": 0.0} if method in ("privbayes", "pb-pgm") else {}
    made = weft.Synthesizer(0.5, method=method, seed=1, **settings).fit(make_table(rows), schema)
    made.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.sample(9, seed=2).equals(made.sample(9, seed=2))


def test_columns_that_were_measured_twice_are_saved_once(tmp_path, schema):
    from conftest import make_table

    made = weft.Synthesizer(5.0, method="privsyn", seed=1, marginals=[["sex"], ["ward"]]).fit(make_table(300), schema)
    made.save(tmp_path / "m.weft")
    assert weft.load(tmp_path / "m.weft").sample(9, seed=2).equals(made.sample(9, seed=2))
