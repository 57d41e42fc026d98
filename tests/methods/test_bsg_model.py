"""BSG's model: what is asked for its structure, and how noisy counts become distributions."""

import numpy as np
import pytest

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.marginals.domain import Domain
from weft.marginals.records import Records
from weft.methods.bsg import Bsg
from weft.methods.steps.entropy_network import posterior
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.progress import silence

DOMAIN = Domain(("age", "group", "label", "wide"), (40, 4, 2, 100))


def rows(n, seed=0):
    """The group is the age's decade; the wide column has only two of its codes, one for each label."""
    rng = np.random.default_rng(seed)
    age, label = rng.integers(0, 40, n), rng.integers(0, 2, n)
    return Records.of(DOMAIN, [age, age // 10, label, np.where(label == 1, 70, 20)])


def ask(records, epsilon=1.0, seed=0, **options):
    recipe = Bsg(**options)
    ledger = Ledger(Budget(epsilon=epsilon, delta=1e-6), recipe.accounting, Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(seed)))
    return recipe.fit(curator, np.random.default_rng(seed), silence), ledger


@pytest.mark.parametrize("buckets", [{}, {"age": 10}, {"age": 10, "wide": 50}])
def test_every_attribute_and_pair_is_asked_for_once_whatever_the_buckets(buckets):
    _, ledger = ask(rows(1000), buckets=buckets)
    (asked,) = [entry for entry in ledger.entries if "entropies" in entry.question]
    assert asked.draws == 4 + 6
    assert ledger.spent == pytest.approx(ledger.capacity)


def test_buckets_show_what_depends_on_what():
    model, _ = ask(rows(20_000), buckets={"age": 10})
    found = {frozenset((family.child, parent)) for family in model.families for parent in family.parents}
    assert {frozenset(("age", "group")), frozenset(("label", "wide"))} <= found


def test_little_is_left_of_the_noise_on_empty_cells():
    """Cut at zero, each of the 98 codes that nobody has would keep 0.4 deviations of noise."""
    model, ledger = ask(rows(4000), epsilon=0.5)
    made = model.marginal(["wide"])
    cut = 98 * 0.4 * max(ledger.entries[-1].scales) / 4000
    assert cut > 0.1
    assert 1 - made[[20, 70]].sum() / made.sum() < cut / 2


def test_few_rows_are_smoothed_towards_all_rows_as_far_as_noise_goes():
    counts = np.array([[900.0, 100.0], [0.0, 0.0], [0.0, 50.0]])
    overall = (counts.sum(axis=0) + 1) / (counts.sum() + 2)
    quiet, noisy = (posterior(counts, sigma, 2.0) for sigma in (0.0, 20.0))
    for found in (quiet, noisy):
        np.testing.assert_allclose(found.sum(axis=1), 1)
        np.testing.assert_allclose(found[1], overall)  # nothing known but the prior
    np.testing.assert_allclose(quiet, (counts + overall) / (counts.sum(axis=1, keepdims=True) + 1))
    assert quiet[2, 1] > 0.98
    assert overall[1] < noisy[2, 1] < 0.7
    weight = 1 + 2 * 20 * np.sqrt(2)
    np.testing.assert_allclose(noisy[2], (counts[2] + weight * overall) / (50 + weight))
