"""PriView's experiment: its baselines have the noise that their sensitivity asks for."""

import math

import numpy as np
import pytest
from weft_lab import priview as lab

from weft.marginals.counting import count_marginals


@pytest.fixture(scope="module")
def table():
    return lab.binary_table(2_000, 8)


@pytest.mark.parametrize("name", ["direct", "Fourier"])
def test_baselines_have_the_noise_they_say(table, name, monkeypatch):
    monkeypatch.setattr(lab, "project_to_simplex", lambda made, _: made)
    cliques = lab.random_cliques(table, 3, 40)
    exact = count_marginals(table.records, cliques)
    rng = np.random.default_rng(0)
    found = [lab.BASELINES[name](table, cliques, 1.0, rng) for _ in range(60)]
    spread = np.std([a - b for run in found for a, b in zip(run, exact, strict=True)])
    tables = math.comb(8, 3) if name == "direct" else sum(math.comb(8, i) for i in range(4)) / 8
    assert spread == pytest.approx(lab._sigma(1.0) * math.sqrt(tables), rel=0.1)


def test_a_fourier_coefficient_moves_by_one_a_row():
    """The sum of (-1)^(x . S) over rows: every row adds 1 or -1 to each, whatever it holds."""
    for row in np.ndindex(2, 2, 2):
        table = np.zeros((2, 2, 2))
        table[row] = 1
        signs = [table * np.array([1, -1]).reshape([-1 if i == axis else 1 for i in range(3)]) for axis in range(3)]
        assert all(abs(each.sum()) == 1 for each in signs)


def test_priview_is_compared_on_random_marginals(table):
    (sheet,) = lab.priview([table], [5.0], 1, ["priview"])
    assert [row[0] for row in sheet.rows] == ["priview", "direct", "Fourier"]
    errors = {row[0]: float(row[1]) for row in sheet.rows}
    assert errors["priview"] < errors["direct"]
