import numpy as np
import pytest
from weft_lab.methods.priview import apply_ripple


def literal(table, theta):
    """The wave, a cell at a time and all at once."""
    made = np.array(table, float)
    neighbours = sum(size - 1 for size in made.shape)
    for _ in range(1000):
        low = [place for place in np.ndindex(made.shape) if made[place] < -theta]
        if not low:
            break
        change = np.zeros(made.shape)
        for place in low:
            change[place] -= made[place]
            for axis, size in enumerate(made.shape):
                for other in range(size):
                    if other != place[axis]:
                        beside = (*place[:axis], other, *place[axis + 1 :])
                        change[beside] += made[place] / neighbours
        made += change
    return made


@pytest.mark.parametrize("shape", [(2, 2, 2), (3, 4), (5,)])
def test_ripple_is_the_wave_of_the_paper(shape):
    table = np.random.default_rng(0).normal(3, 4, shape)
    made = apply_ripple(table, 0.1)
    assert made == pytest.approx(literal(table, 0.1))
    assert made.sum() == pytest.approx(table.sum())
    assert made.min() >= -0.1


def test_a_table_below_zero_ends_too():
    assert apply_ripple(np.full((2, 2), -5.0), 0.1).sum() == pytest.approx(-20.0)
