"""PB-PGM: PrivBayes' families, cut to what a junction tree holds, and one field for all of them."""

import numpy as np
import pytest
from recipes import assert_trace, chained, counts, random_rows, run
from weft_lab.methods.comparison_steps import narrow_families
from weft_lab.methods.pb_pgm import PbPgm
from weft_lab.methods.privbayes import PrivBayes

from weft.curator import Curator
from weft.engines import MemoryEngine
from weft.errors import MethodError
from weft.privacy import Adjacency, Budget, Ledger, Noise
from weft.privacy.mechanisms import Mechanisms
from weft.progress import ignore_event


@pytest.mark.parametrize("accounting", ["pure", "zcdp"])
def test_three_tenths_for_the_structure_and_the_rest_for_the_families(accounting):
    made = run(PbPgm(accounting=accounting), chained(), delta=0.0 if accounting == "pure" else 1e-6)
    assert_trace(made, [("total", 0.01), *[("choice", 0.1)] * 3, ("marginals", 0.69)])
    assert len(made.sigmas) == 4
    assert made.sigmas == pytest.approx([made.sigmas[0]] * 4)  # evenly


@pytest.mark.parametrize("share", [0.1, 0.8])
def test_a_share_for_the_structure_is_that_of_this_recipe_alone(share):
    made = run(PbPgm(share_structure=share), chained(), delta=0.0)
    assert sum(part for purpose, part in made.trace if purpose == "choice") == pytest.approx(share)
    with pytest.raises(MethodError, match="share_total, share_structure take the whole budget"):
        PbPgm(share_structure=0.99).check(chained().domain)


@pytest.mark.parametrize("seed", range(5))
def test_its_families_are_those_of_privbayes(seed):
    records = random_rows(seed)
    made = run(PbPgm(), records, delta=0.0, seed=seed)
    ledger = Ledger(Budget(epsilon=2.0, delta=0.0), "pure", Adjacency())
    curator = Curator(MemoryEngine(records), ledger, Mechanisms(Noise.seeded(seed)))
    recipe = PrivBayes(share_structure=0.3, theta=4.0)
    _, families = recipe.choose(curator, np.random.default_rng(seed), ignore_event)
    assert made.measured == families


def test_without_noise_the_field_has_the_families_tables():
    records = chained()
    made = run(PbPgm(theta=0.5), records, epsilon=8.0, delta=0.0, exact=True)
    assert max(map(len, made.measured)) > 2
    for c in made.measured:
        assert np.abs(made.model.marginal(c) - counts(records, c)).sum() < 0.02 * len(records)


def test_families_that_make_the_tree_too_large_give_up_their_widest_parents():
    made = run(PbPgm(theta=0.5, max_cells=24), chained(), epsilon=8.0, delta=0.0)
    assert max(made.model.tree.sizes) <= 24
    wide = run(PbPgm(theta=0.5), chained(), epsilon=8.0, delta=0.0)
    for narrow, whole in zip(made.measured, wide.measured, strict=True):
        assert set(narrow) <= set(whole)
    assert made.measured != wide.measured
    domain = chained().domain
    families = [("a",), ("a", "b"), ("a", "b", "c")]
    assert narrow_families(domain, families, 12, 10**6) == [("a",), ("a", "b"), ("a", "c")]  # b is the widest
