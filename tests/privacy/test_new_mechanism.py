"""A mechanism that Weft does not have, added in this one file: it is priced, drawn, audited, stated and allocated for.

The noise is the discrete staircase of Geng and Viswanath, "The Optimal Noise-Adding Mechanism in Differential Privacy"
(2016, section on discrete queries), with steps of two integers: P(k) = a b^ceil(|k| / 2), b = e^(-1 / scale).
"""

import decimal
import json
import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from audit.programs import leaks, synthesise
from conftest import SCHEMA, make_table
from weft_lab.replay import Recorder, find_weak_noise, wrong_law

from weft.curator import Curator
from weft.errors import BudgetError, ModelFileError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.methods.common.allocation import by_size
from weft.privacy import MECHANISMS, Adjacency, Budget, Charge, CountNoise, Ledger, Noise
from weft.privacy.accounting import ACCOUNTINGS, PURE
from weft.privacy.mechanisms import Mechanisms
from weft.privacy.noise import Law, compute_margin
from weft.privacy.noise_tails import BITS, CONTEXT, as_bits
from weft.schema import Schema
from weft.synthesis import statement
from weft.synthesis.synthesizer import Synthesizer

from .test_noise import Scripted, near_thresholds

# The mechanism: all that a file in weft/privacy/mechanisms would hold.


class StaircaseLaw(Law):
    """P(K = k) proportional to exp(-ceil(|k| / 2) / scale)."""

    def invert(self, p):
        """Invert the tail, which falls from step to step as that of geometric noise does, and halfway linearly.

        In units y = -scale ln(p (1 + 3 b) / 2), step j begins at y = j, and its second integer at j + h.
        """
        log = -np.log(p)
        b = math.exp(-1 / self.scale)
        y = self.scale * (log - math.log((1 + 3 * b) / 2))
        h = -self.scale * math.log1p(math.expm1(-1 / self.scale) / 2)
        j = np.floor(y)
        part = y - j
        x = 2 * j - 1 + np.where(part < h, part / h, 1 + (part - h) / (1 - h))
        return np.where(y < 0, np.maximum(1 + y, 0.5), x), 2 / min(h, 1 - h) * compute_margin(self.scale, log)

    def tail(self, k):
        """Return P(K >= k): 2 b^j / (1 + 3 b) at the first integer of step j, b^j (1 + b) / (1 + 3 b) at the second."""
        with decimal.localcontext(CONTEXT):
            b = (-1 / Decimal(self.scale)).exp()
            j = -(-k // 2)
            return as_bits((-j / Decimal(self.scale)).exp() * (2 if k % 2 else 1 + b) / (1 + 3 * b))

    def reach(self):
        """Return twice that of geometric noise: steps are twice as wide."""
        return 2 * super().reach()


class Staircase(CountNoise):
    """Staircase noise: sensitivity / scale is the epsilon, for an L1 sensitivity.

    Moving a cell by d changes ceil(|k| / 2) by at most ceil(|d| / 2) <= |d|, and moves of several cells add up. For
    tables this is the price of geometric noise; that of a single number could be half of it.
    """

    name = "staircase"
    norm = "l1"
    title = "staircase"
    # At an epsilon of 2 for a table the standard deviation goes with epsilon^-1.242: a power of its own.
    allocation_exponent = 1 / 2.242

    def law(self, scale):
        return StaircaseLaw(float(scale))

    def epsilons(self, charge):
        return [moved / scale for moved, scale in zip(charge.sensitivities, charge.scales, strict=True)]

    def scale_for_epsilon(self, epsilon, sensitivity):
        return sensitivity / epsilon

    def scale_for_rho(self, rho, sensitivity):
        return sensitivity / math.sqrt(2 * rho)

    def variance(self, scale):
        b, less = math.exp(-1 / scale), -math.expm1(-1 / scale)
        return 2 * b / (1 + 3 * b) * (8 * (1 + b) / less**2 - 4 / less + 1)

    def cdf(self, k, scale):
        above = np.where(k < 0, -k, k + 1)
        b = math.exp(-1 / scale)
        tail = np.exp(-np.ceil(above / 2) / scale) * np.where(above % 2, 2, 1 + b) / (1 + 3 * b)
        return np.where(k < 0, tail, 1 - tail)


STAIRCASE = Staircase()
BY_STAIRS = replace(PURE, counts=STAIRCASE)


@pytest.fixture
def registered(monkeypatch):
    """Register the mechanism, and take it for all runs under pure accounting; both are undone after the test."""
    monkeypatch.setitem(MECHANISMS, STAIRCASE.name, STAIRCASE)
    monkeypatch.setitem(ACCOUNTINGS, PURE.name, BY_STAIRS)


def probabilities(scale, reach):
    k = np.arange(-reach, reach + 1)
    return STAIRCASE.cdf(k, scale) - STAIRCASE.cdf(k - 1, scale)


# Its own facts, by brute force.


@pytest.mark.parametrize("scale", [0.4, 1.0, 7.5])
def test_it_is_a_staircase_of_its_declared_variance_and_epsilon(scale):
    reach = math.ceil(90 * scale)
    p = probabilities(scale, reach)
    k = np.arange(-reach, reach + 1)
    middle = np.abs(k) < 20 * scale  # beyond, the difference of two numbers near 1 is rounding
    steps = p[reach] * np.exp(-np.ceil(np.abs(k) / 2) / scale)
    np.testing.assert_allclose(p[middle], steps[middle], rtol=1e-6)
    assert p.sum() == pytest.approx(1.0)
    assert (p * k**2).sum() == pytest.approx(STAIRCASE.variance(scale), rel=1e-6)
    logs = np.log(steps)
    for moves in [(1,), (2,), (3,), (1, 1), (2, 1)]:  # of one cell, or of two
        worst = sum(np.abs(logs[: -move or None] - logs[move:]).max() for move in moves)
        assert worst <= sum(moves) / scale + 1e-9


@pytest.mark.parametrize("scale", [0.8, 37.5, 1e6])
def test_draws_next_to_every_threshold_are_decided_exactly(scale):
    law, n = StaircaseLaw(scale), 500
    prefixes, high, low = near_thresholds(law, n, np.random.default_rng(8))
    for value, prefix in zip(Scripted(high, low).draw(law, n).tolist(), prefixes, strict=True):
        least = prefix << (BITS - 128)
        most = least | ((1 << (BITS - 128)) - 1)
        assert (value == 0 or least < law.tail(value)) and most >= law.tail(value + 1)
    assert law.tail(law.reach()) == 0
    assert law.tail(3) / 2**BITS == pytest.approx(float(1 - STAIRCASE.cdf(np.array(2.0), scale)), rel=1e-9)


# What everybody else asks of it.


class Rows:
    """An engine over records in memory that remembers whether it was asked."""

    def __init__(self, records):
        self.records, self.domain, self.asked = records, records.domain, 0

    def count(self, cliques):
        self.asked += 1
        return count_marginals(self.records, cliques)


def ask(release, adjacency, epsilon=1.0, rows=4000):
    domain = Domain(("a", "b"), (100, 100))
    rng = np.random.default_rng(1)
    engine = Rows(Records.of(domain, [rng.integers(0, size, rows) for size in domain.shape]))
    ledger = Ledger(Budget(epsilon=epsilon, delta=0.0), "pure", adjacency)
    return Curator(engine, ledger, release), engine, ledger


@pytest.mark.usefixtures("registered")
def test_a_query_is_charged_and_answered_with_it():
    curator, engine, ledger = ask(Mechanisms(Noise.seeded(0)), Adjacency("replace-one", rows_per_unit=3))
    exact = count_marginals(engine.records, [("a", "b")])[0]
    (noisy,) = curator.measure([("a", "b")], share=0.5)
    (entry,) = ledger.entries
    assert (entry.mechanism, entry.norm, entry.sensitivity, entry.draws) == ("staircase", "l1", 6.0, 10_000)
    assert entry.cost == pytest.approx(0.5, rel=1e-6) and entry.scales == pytest.approx((12.0,), rel=1e-6)
    assert entry.noise.startswith("staircase 12")
    assert noisy.sigma == math.sqrt(STAIRCASE.variance(entry.scales[0]))
    assert (noisy.table - exact).std() == pytest.approx(noisy.sigma, rel=0.05)
    assert curator.sigma_of(curator.rho(0.5)) == pytest.approx(noisy.sigma, rel=0.01)  # as if it were Gaussian
    assert math.isfinite(entry.rho) and math.isfinite(entry.gdp)
    with pytest.raises(BudgetError, match="Gaussian noise and selections only"):
        entry.price("gaussian")
    # What cannot be paid for is refused before a row is read; what is stated in L2 norm only, too.
    asked = engine.asked
    with pytest.raises(BudgetError, match="would cost"):
        curator.measure([("a",)], share=0.6)
    with pytest.raises(ValueError, match="Gaussian noise"):
        curator.interactions([("a", "b")], 2, share=0.1)
    assert engine.asked == asked and len(ledger.entries) == 1
    # The ledger is the same after it has been in a file.
    assert Ledger.from_dict(json.loads(json.dumps(ledger.to_dict()))).to_dict() == ledger.to_dict()
    assert ledger.to_dict()["accounting"] == "pure"


class Scaled(Mechanisms):
    """Draws noise of another scale than was charged."""

    def __init__(self, noise, factor):
        super().__init__(noise)
        self.factor = factor

    def __call__(self, charge, exact):
        return super().__call__(replace(charge, scale=tuple(s * self.factor for s in charge.scales)), exact)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("share", [0.02, 0.5])
def test_the_audit_accepts_its_law_and_no_other_scale(share):
    for factor in (1.0, 0.5, 2.0):
        recorder = Recorder(Scaled(Noise.seeded(2), factor))
        ask(recorder, Adjacency())[0].measure([("a", "b")], share=share)
        assert bool(wrong_law(recorder.tape)) == (factor != 1.0), factor
        assert bool(find_weak_noise(recorder.tape)) == (factor < 1.0), factor


@pytest.mark.usefixtures("registered")
def test_the_audit_tells_it_from_geometric_noise_of_its_variance():
    recorder = Recorder(Impostor(Noise.seeded(3)))
    ask(recorder, Adjacency(), epsilon=4.0)[0].measure([("a", "b")], share=0.5)
    assert wrong_law(recorder.tape)


class Impostor(Mechanisms):
    """Draws geometric noise instead, as large."""

    def __call__(self, charge, exact):
        scale = math.sqrt(STAIRCASE.variance(charge.scales[0]) / 2)
        other = Charge.geometric(charge.question, sensitivity=charge.sensitivity, scale=scale, draws=charge.draws)
        return super().__call__(other, exact)


@pytest.mark.usefixtures("registered")
def test_no_whole_run_with_it_leaks(tmp_path, monkeypatch):
    """Record and replay of the program from table to files; every artefact, the ledger among them."""
    monkeypatch.chdir(tmp_path)
    assert leaks(make_table(120), program=synthesise("independent", epsilon=1.0, delta=0.0)) == []


@pytest.mark.usefixtures("registered")
def test_statements_have_its_variance():
    made = Synthesizer(2.0, delta=0.0, method="weave", seed=1).fit(make_table(300), Schema.from_toml(SCHEMA))
    assert {entry.mechanism for entry in made.ledger_.entries} == {"staircase"}
    (total,) = (entry for entry in made.ledger_.entries if entry.purpose == "total")
    assert statement._get_total_sigma(made.fitted_) == pytest.approx(math.sqrt(STAIRCASE.variance(total.scales[0])))


@pytest.mark.usefixtures("registered")
def test_budgets_are_allocated_by_its_exponent():
    assert by_size([1, 64], "pure")[1] / by_size([1, 64], "pure")[0] == pytest.approx(64 ** (1 / 2.242))
    assert by_size([1, 64], "gaussian")[1] / by_size([1, 64], "gaussian")[0] == pytest.approx(16)
    step = 1e-5
    slope = (math.log(STAIRCASE.deviation(0.5 * (1 + step))) - math.log(STAIRCASE.deviation(0.5))) / step
    assert STAIRCASE.allocation_exponent == pytest.approx(1 / (1 + slope), rel=1e-3)


def test_it_is_gone_afterwards(monkeypatch):
    with monkeypatch.context() as patched:
        patched.setitem(MECHANISMS, STAIRCASE.name, STAIRCASE)
        ledger = Ledger(Budget(epsilon=1.0, delta=0.0), BY_STAIRS, Adjacency())
        ledger.charge(Charge.counts(STAIRCASE, "counts", sensitivity=1.0, scale=2.0, draws=3))
        held = ledger.to_dict()
        assert Ledger.from_dict(held).spent == 0.5
    assert STAIRCASE.name not in MECHANISMS and ACCOUNTINGS["pure"] is PURE
    with pytest.raises(ModelFileError, match="unknown mechanism 'staircase'"):
        Ledger.from_dict(held)
