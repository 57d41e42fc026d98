"""Cover: its split of the budget, and marginals that tell every strong pair."""

from recipes import LINKS, assert_trace, assert_weighted_by_size, chained, run
from weft_lab.methods.cover import Cover


def test_columns_have_a_tenth_and_scores_a_twentieth():
    records = chained()
    made = run(Cover(max_ways=2), records, epsilon=8.0)
    assert_trace(made, [("marginals", 0.1), ("dependence", 0.05), ("marginals", 0.85)])
    assert_weighted_by_size(made, records.domain, first=4)


def test_dependent_pairs_are_inside_what_is_measured():
    made = run(Cover(), chained(), epsilon=8.0)
    for pair in LINKS:
        assert any(set(pair) <= set(c) for c in made.measured)


def test_larger_marginals_are_held_to_theta():
    widest = {theta: max(map(len, run(Cover(theta=theta), chained(), epsilon=8.0).measured)) for theta in (0.1, 1e6)}
    assert widest[1e6] <= 2 < widest[0.1]
