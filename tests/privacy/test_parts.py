"""Costs of questions to disjoint parts of the rows: the largest, not their sum; and never less than what holds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import BudgetError, ModelFileError
from weft.privacy import Adjacency, Budget, Charge, Ledger, Lifetime, Noise, gdp_delta, read_journal
from weft.privacy.ledger import open_run_ledger
from weft.privacy.mechanisms import Mechanisms

PARTS = {"seeds": 0.4, "structure": 0.25, "parameters": 0.25}


def coins(chances=PARTS):
    return Charge.coins("coins", chances=chances)


def asked(mu, part="", slack=0.0):
    return Charge("question", "gaussian", "l2", 1.0, 1 / mu, 1, slack, part)


def geometric(epsilon, part=""):
    return Charge("question", "geometric", "l1", 1.0, 1 / epsilon, 1, part=part)


def ledger(*charges, budget=None, accounting="gaussian", relation="add-remove", journal=None):
    book = Ledger(budget or Budget(epsilon=2.0, delta=1e-5), accounting, Adjacency(relation), journal=journal)
    for charge in charges:
        book.charge(charge)
    return book


def test_the_part_that_costs_most_counts():
    book = ledger(asked(0.1), coins(), asked(0.2, "seeds"), asked(0.1, "structure"), asked(0.1, "structure"))
    assert book.spent == pytest.approx(0.1**2 / 2 + 0.2**2 / 2)
    assert book.left_with(0.0, "structure") == pytest.approx(book.capacity - (0.01 + 0.02) / 2)
    assert book.left_with(0.0, "parameters") == pytest.approx(book.capacity - 0.01 / 2)
    assert book.left == pytest.approx(book.capacity - book.spent)
    assert book.parts == PARTS


def test_every_part_may_spend_the_whole_budget_and_none_more():
    book = ledger(coins())
    whole = math.sqrt(2 * book.capacity)
    for part in PARTS:
        book.charge(asked(whole, part))
        with pytest.raises(BudgetError, match="would cost"):
            book.charge(asked(whole / 100, part))
    with pytest.raises(BudgetError, match="would cost"):
        book.charge(asked(whole / 100))
    assert book.used == pytest.approx(1)
    assert book.spent_epsilon() <= 2


def test_rows_are_divided_once_and_a_part_must_exist():
    book = ledger(coins())
    for second in (coins(), coins({"seeds": 0.5}), Charge("c", "coins", "none", 1.0, 1.0, 1, part="seeds")):
        with pytest.raises(BudgetError, match="only once"):
            book.charge(second)
    for part in ("nobody", "seeds/seeds"):
        with pytest.raises(BudgetError, match="no part"):
            book.charge(asked(0.1, part))
    with pytest.raises(BudgetError, match="no part"):
        ledger(asked(0.1, "seeds"))


@pytest.mark.parametrize(
    "chances", [{}, {"": 1.0}, {"a": 0.0}, {"a": math.nan}, {"a": 0.7, "b": 0.7}, {"a": -1, "b": 1}]
)
def test_chances_that_make_no_sense_are_refused(chances):
    with pytest.raises(BudgetError, match=r"probabilities|numbers"):
        ledger(coins(chances))


def test_slack_counts_where_it_falls():
    slack = 4e-7
    book = ledger(coins(), asked(0.1, "seeds", slack))
    assert book.left_with(0.0, "structure") == pytest.approx(Budget(epsilon=2.0, delta=1e-5).capacity("gaussian"))
    paid = Budget(epsilon=2.0, delta=1e-5 - (1 + math.exp(2)) * slack).capacity("gaussian")
    assert book.left_with(0.0, "seeds") == pytest.approx(paid - 0.1**2 / 2)
    assert book.left == pytest.approx(paid - 0.1**2 / 2)


def test_files_and_journals_keep_parts(tmp_path):
    path = tmp_path / "journal"
    book = ledger(asked(0.1), coins(), asked(0.2, "seeds"), asked(0.3, "structure"), journal=path)
    (run,) = read_journal(path)
    rebuilt = Ledger.from_dict({**run.header, "stamps": run.stamps, "entries": run.charges})
    for other in (rebuilt, Ledger.from_dict(book.to_dict())):
        assert other.spent == book.spent
        assert other.parts == PARTS
    # A run that crashed after any of its lines has spent what stands there, on whichever part.
    lines = path.read_text().splitlines()
    for end in range(1, len(lines) + 1):
        path.write_text("\n".join(lines[:end]) + "\n")
        (run,) = read_journal(path)
        cut = Ledger.from_dict({**run.header, "stamps": run.stamps, "entries": run.charges})
        assert cut.spent == pytest.approx(ledger(*book.entries[: end - 1]).spent)


def test_a_file_that_claims_parts_without_coins_is_refused():
    values = ledger(coins(), asked(0.2, "seeds")).to_dict()
    with pytest.raises(ModelFileError):
        Ledger.from_dict(values | {"entries": values["entries"][1:]})


# What is stated as spent, against the mixture itself: a unit is in a part by chance.


@given(st.lists(st.tuples(st.floats(0.05, 1), st.floats(0.1, 3)), min_size=1, max_size=4))
def test_pure_mixtures_are_bounded_exactly(parts):
    """Randomised response in each part: a unit turns the odds of its part's answer from e^-epsilon to e^epsilon."""
    total = sum(p for p, _ in parts) / 0.9
    chances = {f"{i}": p / total for i, (p, _) in enumerate(parts)}
    book = ledger(
        coins(chances),
        *(geometric(e, f"{i}") for i, (_, e) in enumerate(parts)),
        budget=Budget(epsilon=4.0, delta=0),
        accounting="pure",
    )
    stated = math.exp(book.spent_epsilon())
    idle = 1 - sum(chances.values())
    ratios = []  # of the probabilities of some answers, with the unit and without
    for answers in np.ndindex(*(2,) * len(parts)):
        turned = [math.exp(e if a else -e) for (_, e), a in zip(parts, answers, strict=True)]
        ratios.append(idle + sum(p * r for p, r in zip(chances.values(), turned, strict=True)))
    assert max(ratios) == pytest.approx(stated)
    assert min(ratios) >= 1 / stated - 1e-9


def test_replaced_units_get_no_gain_from_chance():
    charges = [coins(), geometric(1.0, "seeds"), geometric(0.2, "structure")]
    pure = {"budget": Budget(epsilon=4.0, delta=0), "accounting": "pure"}
    assert ledger(*charges, relation="replace-one", **pure).spent_epsilon() == 1.0
    added = ledger(*charges, **pure).spent_epsilon()
    assert added == pytest.approx(math.log(0.4 * math.e + 0.25 * math.exp(0.2) + 0.25 + 0.1))


@settings(max_examples=6, deadline=None)
@given(st.floats(0.2, 1.5), st.floats(0.2, 1.5), st.floats(0.1, 0.6))
def test_gaussian_mixtures_keep_to_what_is_stated(first, second, chance):
    """Monte Carlo: the divergence of the real mixture, from its own likelihood ratio, in both directions."""
    chances = {"a": chance, "b": 0.9 - chance}
    book = ledger(coins(chances), asked(first, "a"), asked(second, "b"), budget=Budget(mu=3.0, delta=0.01))
    rng = np.random.default_rng(0)
    draws = 200_000
    noise = rng.standard_normal((draws, 2))
    part = rng.choice(3, draws, p=[chance, 0.9 - chance, 0.1])
    moved = noise + np.array([[first, 0], [0, second], [0, 0]])[part]

    def ratio(x):  # density with the unit over density without
        return (
            chance * np.exp(first * x[:, 0] - first**2 / 2)
            + (0.9 - chance) * np.exp(second * x[:, 1] - second**2 / 2)
            + 0.1
        )

    for delta in (0.01, 0.05):
        epsilon = book.spent_epsilon(delta)
        more = np.maximum(0, 1 - math.exp(epsilon) / ratio(moved)).mean()
        less = np.maximum(0, 1 - math.exp(epsilon) * ratio(noise)).mean()
        assert max(more, less) <= delta + 4 * math.sqrt(delta / draws)
        # and the mean of the parts' own deltas is what is used up
        mean = chance * gdp_delta(first, epsilon) + (0.9 - chance) * gdp_delta(second, epsilon)
        assert mean == pytest.approx(delta, rel=1e-6) or epsilon == 0


class Thirsty(Noise):
    """A source that remembers how much was drawn from it at once."""

    def bits(self, count):
        self.most = max(count, getattr(self, "most", 0))
        return super().bits(count)


def test_coins_of_many_units_are_drawn_a_few_at_a_time():
    """All at once they would be one integer of 64 bits a unit; a few at a time they are the same coins."""
    names = np.zeros(300_001, np.uint64)
    noise = Thirsty.seeded(1)
    (words,) = Mechanisms(noise)(coins(), [names])
    whole = Noise.seeded(1).bits(64 * len(names)).to_bytes(8 * len(names), "little")
    np.testing.assert_array_equal(words, np.frombuffer(whole, "<u8"))
    assert words.dtype == np.uint64
    assert noise.most <= 1 << 20
    (none,) = Mechanisms(noise)(coins(), [names[:0]])
    assert none.shape == (0,)


# Amplification by sampling, spent.


def sampled(rate=0.5, chances=PARTS):
    return Charge.coins("coins", chances=chances, queried=rate)


def spend_all(book, part):
    book.charge(Charge("q", "geometric", "l1", 1.0, 1 / book.left_with(0.0, part), 1, part=part))


@pytest.mark.parametrize("chances", [{"a": 0.3, "b": 0.2}, {"a": 0.1}, {"a": 0.5, "b": 0.25, "c": 0.25}])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_amplification_spends_a_pure_budget_exactly(chances, epsilon):
    """Randomised response in each part, with all that the part may spend; all answers and both directions."""
    book = ledger(sampled(sum(chances.values()), chances), budget=Budget(epsilon=epsilon, delta=0), accounting="pure")
    for part in chances:
        spend_all(book, part)
    own = book.entries[-1].cost
    ratios = []
    for answers in np.ndindex(*(2,) * len(chances)):
        turned = [math.exp(own if a else -own) for a in answers]
        ratios.append(1 - sum(chances.values()) + sum(p * r for p, r in zip(chances.values(), turned, strict=True)))
    assert max(ratios) == pytest.approx(math.exp(epsilon))
    assert min(ratios) >= math.exp(-epsilon) * (1 - 1e-9)
    assert book.spent_epsilon() == pytest.approx(epsilon) and book.used == pytest.approx(1)


@pytest.mark.parametrize("accounting", ["gaussian", "zcdp", "paper"])
@pytest.mark.parametrize("rate", [0.05, 0.4, 0.9])
def test_amplification_with_gaussian_noise_keeps_its_delta(accounting, rate):
    """The hockey-stick divergence of the mixture and the table without the unit, integrated, in both directions."""
    epsilon, delta = 0.8, 1e-3
    book = ledger(sampled(rate, {"a": rate}), budget=Budget(epsilon=epsilon, delta=delta), accounting=accounting)
    mu = math.sqrt(2 * book.left_with(0.0, "a"))
    assert mu > math.sqrt(2 * Budget(epsilon=epsilon, delta=delta).capacity(accounting))
    x, step = np.linspace(-30, 30, 600_001, retstep=True)
    without = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    there = rate * np.exp(-((x - mu) ** 2) / 2) / math.sqrt(2 * math.pi) + (1 - rate) * without
    for one, other in ((there, without), (without, there)):
        assert np.maximum(one - math.exp(epsilon) * other, 0).sum() * step <= delta * (1 + 1e-6)
    book.charge(asked(mu * 0.999, "a"))
    assert 0.5 * epsilon < book.spent_epsilon() <= epsilon
    again = Ledger.from_dict(book.to_dict())
    assert again.used == pytest.approx(book.used) and again.to_dict() == book.to_dict()


def test_amplification_is_not_spent_where_it_does_not_hold():
    with pytest.raises(BudgetError, match="no query was made to all rows"):
        ledger(asked(0.01), sampled())
    with pytest.raises(BudgetError, match="no query was made to all rows"):
        ledger(sampled(), relation="replace-one")
    with pytest.raises(BudgetError, match="no query was made to all rows"):
        ledger(sampled(), budget=Budget(rho=0.1))
    book = ledger(sampled(), asked(0.1, "structure"))
    for refused in (asked(0.001), asked(0.001, "seeds")):  # 0.25 + 0.4 is above 0.5
        with pytest.raises(BudgetError, match="does not cover"):
            book.charge(refused)
    book.charge(asked(0.1, "parameters"))
    with pytest.raises(BudgetError, match="at most 1"):
        sampled(1.5)


def test_a_lifetime_budget_is_not_amplified(tmp_path):
    terms = (Adjacency(), "row", Budget(epsilon=1.0, delta=1e-6), "gaussian")
    lifetime = Lifetime.create(tmp_path / "b", Budget(epsilon=5.0, delta=1e-5))
    with open_run_ledger(terms, lifetime, journal=None, stamps=(), facts={"method": "m", "source": "s"}) as book:
        assert not book.can_amplify
