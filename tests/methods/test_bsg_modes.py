"""BSG's modes: deniable records, a random omega, rows divided among the steps, and other models behind the test."""

import itertools
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit.programs import seeded, synthesise, with_row_replaced, without_last
from conftest import SCHEMA, by_turns, make_table
from weft_lab.methods.bsg.bsg import list_seed_methods
from weft_lab.replay import Recorder, check_ledger, couple_coins, find_reused_randomness, replay

import weft
from weft.engines import MemoryEngine, open_engine
from weft.errors import BudgetError, MethodError, ModelFileError
from weft.methods import METHODS
from weft.privacy import Budget, Ledger
from weft.privacy.ledger import DENIABILITY
from weft.privacy.mechanisms import Mechanisms
from weft.release.card import DENIABLE, card_json, card_markdown
from weft.schema import Schema
from weft.synthesis.model_file import save_model
from weft.synthesis.statement import explain_guarantee

DENY = {"omega": 2, "rows": 50, "k": 20, "guarantee": "deniability"}
MODES = {
    "seeds": {"omega": 2, "rows": 50, "epsilon": 4.0},
    "omega": {"omega": "1-4", "rows": 60, "epsilon": 6.0},
    "split": {"omega": 2, "rows": 50, "epsilon": 4.0, "split": [0.5, 0.2, 0.2]},
    "split, no seeds": {"split": [0.0, 0.5, 0.5]},
    "split, pure": {"split": [0.0, 0.5, 0.5], "accounting": "pure", "delta": 0.0},
    "split, other model": {"omega": [2, 3], "rows": 50, "epsilon": 4.0, "split": [0.5, 0.2, 0.2], "model": "mst"},
    "deniability": DENY,
    "deniability, test 2": DENY | {"epsilon0": 0.5, "omega": "1-4", "max_plausible": 30, "max_check_plausible": 100},
    "deniability, split": DENY | {"split": [0.4, 0.3, 0.3], "k": 5},
    "deniability, other model": DENY | {"model": "privbayes", "accounting": "zcdp"},
}


def fit(table, **settings):
    settings = {"method": "bsg", "seed": 1} | settings
    schema = settings.pop("schema", SCHEMA)
    return weft.Synthesizer(**settings).fit(table, Schema.from_toml(schema))


def without_first(table):
    return table.slice(1)


@pytest.mark.parametrize(("mode", "rows"), by_turns(MODES, [1, 3000], 2))
@pytest.mark.parametrize("neighbour", [without_first, without_last])
def test_every_mode_is_a_function_of_its_mechanisms(mode, rows, neighbour):
    table = make_table(rows)
    assert replay(synthesise("bsg", **MODES[mode]), table, neighbour(table), seeded()) == []


@pytest.mark.parametrize("mode", ["split, no seeds", "split, pure", "deniability", "deniability, split"])
def test_replaced_rows_stay_in_their_part(mode):
    table = make_table(3000)
    program = synthesise("bsg", neighbours="replace-one", **MODES[mode])
    assert replay(program, table, with_row_replaced(table), seeded()) == []


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_draws_fresh(mode):
    assert find_reused_randomness(synthesise("bsg", **MODES[mode]), make_table(3000), Mechanisms) == []


# Planted leaks.


def test_coins_dealt_by_position_from_a_known_seed_are_caught(monkeypatch):
    split = MemoryEngine.split

    def by_position(self, shares, deal):
        return split(self, shares, lambda names: np.random.default_rng(7).integers(0, 2**64, len(names), np.uint64))

    table = make_table(2000)
    monkeypatch.setattr(MemoryEngine, "split", by_position)
    found = replay(synthesise("bsg", **MODES["split, no seeds"]), table, without_first(table), seeded())
    assert any("changed" in finding for finding in found)


def test_rows_that_serve_in_two_parts_are_caught(monkeypatch):
    """Each answer moves as declared, but the price is that of one part."""
    split = MemoryEngine.split
    monkeypatch.setattr(MemoryEngine, "split", lambda self, shares, deal: [split(self, [1.0], deal)[0]] * len(shares))
    table = make_table(2000)
    found = replay(synthesise("bsg", **MODES["split, no seeds"]), table, without_last(table), seeded())
    assert found == ["answers of several parts changed: parameters, structure"]


def test_known_coins_are_not_fresh(monkeypatch):
    class Known(Mechanisms):
        def __call__(self, charge, exact):
            released = super().__call__(charge, exact)
            return [np.arange(len(exact[0]), dtype=np.uint64)] if charge.mechanism == "coins" else released

    found = find_reused_randomness(synthesise("bsg", **MODES["split, no seeds"]), make_table(200), Known)
    assert "two runs drew the same coins" in found


def seeded_run():
    recorder = Recorder(seeded())
    made = synthesise("bsg", **MODES["seeds"])(make_table(20_000), recorder)
    return recorder.tape, made["ledger"]


def test_replay_computes_the_price_of_seeds_anew():
    tape, ledger = seeded_run()
    assert check_ledger(tape, ledger) == []
    assert tape[-1].charge.mechanism == "seeded"
    charge = tape[-1].charge
    for wrong in (
        replace(charge, scale=charge.scales[0] * 1.01),
        replace(charge, terms=charge.terms | {"passing": charge.terms["passing"] + 1}),
        replace(charge, terms=charge.terms | {"k": charge.terms["k"] // 2}),
        replace(charge, draws=charge.draws + 1),
    ):
        assert any(
            "seeds" in finding for finding in check_ledger([*tape[:-1], replace(tape[-1], charge=wrong)], ledger)
        )


def test_the_books_miss_no_stamp_and_no_coins():
    recorder = Recorder(seeded())
    ledger = synthesise("bsg", **MODES["deniability, split"])(make_table(3000), recorder)["ledger"]
    assert check_ledger(recorder.tape, ledger) == []
    assert any("stamp" in finding for finding in check_ledger(recorder.tape, ledger | {"stamps": []}))
    bare = [answer for answer in recorder.tape if answer.charge.mechanism != "coins"]
    assert any("coins" in finding for finding in check_ledger(bare, ledger))


def test_coins_are_coupled_by_unit():
    before, words = np.array([5, 3, 5, 9], np.uint64), np.array([10, 11, 12, 13], np.uint64)
    assert sorted(couple_coins(np.array([9, 5, 5], np.uint64), before, words).tolist()) == [10, 12, 13]
    assert couple_coins(np.array([9, 3], np.uint64), before, words).tolist() == [13, 11]
    more = np.array([3, 7, 9, 5, 5], np.uint64)
    assert np.delete(couple_coins(more, before, words), 1).tolist() == [11, 13, 10, 12]
    assert couple_coins(np.array([7, 5, 5, 9], np.uint64), before, words).tolist() == [11, 10, 12, 13]
    assert couple_coins(np.zeros(0, np.uint64), before, words).tolist() == []


def test_an_added_unit_may_be_in_any_part():
    before, more = np.array([5, 3], np.uint64), np.array([5, 7, 3], np.uint64)
    rng = np.random.default_rng(0)
    tapes = [rng.integers(0, 2**64, 2, np.uint64) for _ in range(200)]
    new = np.array([couple_coins(more, before, words)[1] for words in tapes])
    assert (couple_coins(more, before, tapes[0])[1] == new[0]).all()  # a replay can be repeated
    assert len(np.unique(new)) == 200
    assert (np.bincount((new >> np.uint64(62)).astype(int), minlength=4) > 20).all()


# Deniability.


@pytest.mark.parametrize(("omega", "k"), [(1, 20), (2, 200)])
def test_each_deniable_record_has_k_seeds(omega, k):
    """The kept columns are not told, but one choice of them must have k seeds for every record."""
    table = make_table(5000)
    model = fit(table, **DENY | {"k": k, "rows": 300, "omega": omega}).model_
    engine = open_engine(table, Schema.from_toml(SCHEMA)).engine
    fewest = []
    for kept in itertools.combinations(model.domain.names, 4 - omega):
        prefixes, counts = engine.groups(kept)
        found = dict(zip(map(tuple, prefixes.tolist()), counts.tolist(), strict=True))
        rows = np.column_stack([model.records.column(name) for name in kept]).tolist()
        fewest.append(min(found.get(tuple(row), 0) for row in rows))
    assert max(fewest) >= k


@pytest.mark.parametrize("test", ["omega", "classes"])
def test_a_record_without_seeds_is_drawn_whole(test):
    synthesizer = fit(make_table(60), **DENY | {"k": 61, "test": test})
    assert synthesizer.sample().num_rows == 50
    # That no seed passed is told by the rows, without noise.
    assert synthesizer.ledger_.deniable and synthesizer.model_.deniable


def test_model_and_ledger_agree_on_what_is_deniable_whatever_omega_chance_gives(tmp_path):
    """One record with 3 or all 4 columns drawn: where chance says 4, no seed was asked and nothing needs denying."""
    found = set()
    for seed in range(12):
        synthesizer = fit(make_table(300), **DENY | {"omega": "3-4", "rows": 1, "k": 5, "seed": seed})
        deniable = synthesizer.model_.deniable
        assert deniable == synthesizer.ledger_.deniable == (DENIABILITY in synthesizer.ledger_.stamps)
        synthesizer.save(tmp_path / "m.weft")
        assert weft.load(tmp_path / "m.weft").model_.deniable == deniable
        found.add(deniable)
    assert found == {True, False}


def test_a_file_whose_ledger_does_not_know_of_its_deniable_records_is_refused(tmp_path):
    synthesizer = fit(make_table(300), **DENY | {"k": 5})
    silent = Ledger.from_dict(
        synthesizer.ledger_.to_dict()
        | {"stamps": [], "entries": [e.to_dict() for e in synthesizer.ledger_.entries if e.mechanism != "deniable"]}
    )
    save_model(replace(synthesizer.fitted_, ledger=silent), tmp_path / "m.weft")
    with pytest.raises(ModelFileError, match="deniab"):
        weft.load(tmp_path / "m.weft")


def test_the_card_of_deniable_records_does_not_speak_of_neighbours():
    made = fit(make_table(500), **DENY).fitted_
    card = card_markdown(made, 50, name="out.csv")
    for words in ("Privacy unit", "eighbour", "included in delta"):
        assert words not in card
    assert "Not covered: whether a row was in the private table" in card
    plain = card_markdown(fit(make_table(500)).fitted_, 50, name="out.csv")
    for words in ("Privacy unit: one row", "Neighbouring tables", "neighbours:", "included in delta"):
        assert words in plain


def test_every_word_about_deniable_records_says_what_they_are(tmp_path):
    synthesizer = fit(make_table(5000), **DENY | {"epsilon0": 1.0})
    fitted = synthesizer.fitted_
    card, facts = card_markdown(fitted, 50, name="out.csv"), card_json(fitted, 50, name="out.csv")
    for text in (card, json.dumps(facts), str(synthesizer.ledger_), str(synthesizer.ledger_.spend_statement())):
        assert DENIABILITY in text
        assert "-differential privacy" not in text
    assert DENIABLE in card
    assert "NOT differential privacy" in card
    assert "differential-privacy" not in card
    assert "epsilon:" not in card
    assert facts["privacy"]["epsilon"] is None
    assert facts["privacy"]["delta"] is None
    assert "no bound holds for the table" in explain_guarantee(fitted)
    assert "Theorem 1" in explain_guarantee(fitted)
    assert "Theorem 1" not in explain_guarantee(fit(make_table(500), **DENY).fitted_)
    synthesizer.save(tmp_path / "m.weft")
    loaded = weft.load(tmp_path / "m.weft")
    assert loaded.model_.deniable
    assert loaded.ledger_.stamps == (DENIABILITY,)
    assert loaded.sample(50, seed=3).equals(synthesizer.sample(50, seed=3))


def test_deniability_does_not_touch_the_budget():
    synthesizer = fit(make_table(5000), **DENY)
    assert synthesizer.ledger_.spent == pytest.approx(synthesizer.ledger_.capacity)
    for budget in (Budget(rho=0.1), Budget(mu=0.5)):
        assert fit(make_table(500), budget=budget, **DENY).sample().num_rows == 50


def unit_settings(most):
    text = f'unit = "who"\nrows_per_unit = {most}\n{SCHEMA}\n[columns.who]\nkind = "id"\n'
    table = make_table(3000)
    return table.append_column("who", pa.array(np.arange(3000) // 2)), {"schema": text}


def test_several_rows_of_one_person_are_no_plausible_seeds():
    table, settings = unit_settings(2)
    with pytest.raises(BudgetError, match="one row per"):
        fit(table, **DENY, **settings)
    table, settings = unit_settings(1)
    assert fit(table, **DENY, **settings).sample().num_rows == 50


def test_units_of_several_rows_can_be_divided():
    table, settings = unit_settings(2)
    ledger = fit(table, split=[0.0, 0.5, 0.5], **settings).ledger_
    assert ledger.adjacency.rows_per_unit == 2
    assert ledger.used == pytest.approx(1)


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
def test_a_unit_and_all_of_its_rows_stay_in_one_part(relation):
    """A unit of two rows in the middle is taken away, or exchanged for another."""
    table, settings = unit_settings(2)
    other = make_table(2, seed=9).append_column("who", pa.array([9999, 9999])).cast(table.schema)
    middle = [] if relation == "add-remove" else [other]
    neighbour = pa.concat_tables([table.slice(0, 1000), *middle, table.slice(1002)])

    def program(data, release):
        made = weft.Synthesizer(method="bsg", seed=1, split=[0.0, 0.5, 0.5], neighbours=relation)
        made.fit(data, Schema.from_toml(settings["schema"]), release=release)
        return {"arrays": made.model_.to_arrays()[1], "ledger": made.ledger_.to_dict()}

    assert replay(program, table, neighbour, seeded()) == []


def test_a_coin_a_row_would_put_a_person_in_two_parts(monkeypatch):
    split = MemoryEngine.split
    monkeypatch.setattr(
        MemoryEngine, "split", lambda self, shares, deal: split(replace(self, owners=None), shares, deal)
    )
    found = []
    for seed in range(5):  # half of the people have both rows in one part
        table, settings = unit_settings(2)

        def program(data, release, settings=settings):
            made = weft.Synthesizer(method="bsg", seed=1, split=[0.0, 0.5, 0.5])
            made.fit(data, Schema.from_toml(settings["schema"]), release=release)
            return {"ledger": made.ledger_.to_dict()}

        found += replay(program, table, table.slice(2), seeded(seed))
    assert any("several parts" in finding for finding in found)


# Omega.


def test_all_columns_drawn_need_no_seeds_and_no_test():
    synthesizer = fit(make_table(500), omega=4)
    assert synthesizer.model_.kind == "bayesnet"
    assert not any(entry.mechanism == "seeded" for entry in synthesizer.ledger_.entries)


@pytest.mark.parametrize("omega", ["2-3", [2, 3], (2, 3)])
def test_a_random_omega_is_paid_for_each_number_of_kept_columns(omega):
    synthesizer = fit(make_table(20_000), omega=omega, rows=50, epsilon=4.0)
    grown = [entry for entry in synthesizer.ledger_.entries if entry.mechanism == "seeded"]
    assert len(grown) == 2
    assert sum(entry.draws for entry in grown) == 50
    assert synthesizer.ledger_.spent <= synthesizer.ledger_.capacity
    assert synthesizer.sample().num_rows == 50


def test_a_given_test_serves_every_omega():
    synthesizer = fit(make_table(20_000), omega="2-3", rows=20, epsilon=8.0, k=400, epsilon0=0.05)
    grown = [entry.terms["k"] for entry in synthesizer.ledger_.entries if entry.mechanism == "seeded"]
    assert set(grown) == {400}


# The division of the rows.


@pytest.mark.parametrize("mode", ["split", "split, no seeds"])
def test_each_part_has_the_whole_budget_and_the_ledger_says_so(mode):
    synthesizer = fit(make_table(8000), **MODES[mode])
    ledger = synthesizer.ledger_
    asked = {entry.part for entry in ledger.entries if entry.mechanism != "coins"}
    assert asked == set(ledger.parts)
    assert ledger.used == pytest.approx(1, abs=0.02)
    assert sum(entry.cost for entry in ledger.entries) > 1.5 * ledger.capacity
    assert "secret random partition" in str(ledger)
    assert "secret random partition" in card_markdown(synthesizer.fitted_, 5, name="out.csv")
    if mode == "split, no seeds":
        assert synthesizer.model_.total == pytest.approx(8000, rel=0.1)  # of all rows, not of a part


def test_a_stream_can_be_divided(tmp_path):
    pq.write_table(make_table(8000), tmp_path / "t.parquet", row_group_size=1000)
    synthesizer = fit(str(tmp_path / "t.parquet"), engine="stream", **MODES["split"])
    assert synthesizer.sample().num_rows == 50
    settings = MODES["split"] | {"noise_seed": 3}
    one = fit(str(tmp_path / "t.parquet"), engine="stream", **settings)
    assert one.sample(50, seed=0).equals(fit(make_table(8000), **settings).sample(50, seed=0))


# Other models behind the test.


@pytest.mark.parametrize("model", list_seed_methods())
def test_other_models_grow_seeds_too(model):
    accounting = "zcdp" if model in ("mwem", "privbayes", "pb-pgm") else "gaussian"
    options = {"marginals": [["age", "ward"], ["cost", "ward"]]} if model == "pgm" else {}
    synthesizer = fit(
        make_table(2000), model=model, model_options=options, accounting=accounting, **DENY | {"omega": "1-3"}
    )
    assert synthesizer.sample().num_rows == 50
    assert synthesizer.ledger_.deniable


@pytest.mark.parametrize("model", [name for name in METHODS if name not in list_seed_methods()])
def test_models_without_conditionals_are_refused_before_anything_is_spent(model, tmp_path):
    with pytest.raises(MethodError, match="cannot complete seeds"):
        fit(make_table(50), model=model, journal=tmp_path / "journal", **DENY)
    assert not (tmp_path / "journal").exists()
