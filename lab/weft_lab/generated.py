"""Tables that are made, not found: the same rows for the same seed, of sizes that no public table has."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.records import Records, code_dtype
from weft_lab.methods.bayesnet import BayesNet, Family

ACS_SIZES = {
    "age": 80, "workclass": 8, "education": 24, "marital": 5, "occupation": 25, "relationship": 18, "race": 5, "sex": 2,
    "hours": 100, "birthplace": 8, "income": 2,
}  # fmt: skip
"""Cardinalities of table 1 of the plausible-deniability paper."""


def latent_class(
    n: int,
    d: int,
    rng: np.random.Generator,
    classes: int = 20,
    weakest: float = 1.0,
    sizes: tuple[int, int] = (2, 60),
    scatter: float = 0.5,
) -> Records:
    """Make a latent-class population: d columns, each drawn given the record's hidden class.

    Numbers of values are log-uniform between the two `sizes`. A class draws a column from its own perturbation of the
    column's common distribution, so all pairs of columns depend on each other, some strongly and most weakly. With
    `weakest` above 1, columns differ in how much they follow the class: the perturbations of the weakest are that
    much more concentrated. The less `scatter`, the fewer values a class has.
    """
    widths = np.rint(np.exp(rng.uniform(math.log(sizes[0]), math.log(sizes[1]), d))).astype(int)
    hidden = rng.choice(classes, n, p=rng.dirichlet(np.full(classes, 2.0)))
    members = [np.flatnonzero(hidden == k) for k in range(classes)]
    columns = []
    for size in widths:
        common = rng.dirichlet(np.ones(size))
        held = weakest ** rng.random() if weakest > 1 else 1.0
        column = np.empty(n, code_dtype(size))
        for rows, chance in zip(members, rng.dirichlet(held * (scatter * size * common + 0.02), classes), strict=True):
            drawn = np.searchsorted(np.cumsum(chance), rng.random(len(rows)), side="right")
            column[rows] = np.minimum(drawn, size - 1)
        columns.append(column)
    return Records.of(Domain(tuple(f"c{j:03}" for j in range(d)), tuple(widths.tolist())), columns)


def acs_like(n: int) -> Records:
    """Make rows of eleven attributes in which each follows two before it, with skewed distributions."""
    rng = np.random.default_rng(0)
    domain = Domain(tuple(ACS_SIZES), tuple(ACS_SIZES.values()))
    families = []
    for i, name in enumerate(domain.names):
        parents = domain.names[max(0, i - 2) : i]
        families.append(Family(name, parents, rng.dirichlet(np.full(domain.size(name), 0.3), domain.cells(parents))))
    return BayesNet(domain, float(n), tuple(families)).sample(n, rng)


def wide_large() -> Records:
    """Make 662,000 x 97, the size of the largest table of the PrivSyn paper."""
    return latent_class(662_000, 97, np.random.default_rng(0), weakest=1e5)


SCATTER = {"strongly": 0.005, "moderately": 0.05, "weakly": 0.5}
"""How few values a class has, by how strongly columns then depend on each other."""


def sparse(strength: str) -> Records:
    """Make 40,000 rows of 50 columns with 100 values each: few rows for such domains."""
    return latent_class(40_000, 50, np.random.default_rng(0), sizes=(100, 100), scatter=SCATTER[strength])


FEW = {"few_many": (19_000, 110), "few_rows": (1_300, 12)}
"""Rows and columns of tables that have few rows, for their columns or at all."""


def few(name: str) -> Records:
    """Make a table of few rows, whose columns have up to 30 values."""
    return latent_class(*FEW[name], np.random.default_rng(0), sizes=(2, 30))


@dataclass(frozen=True)
class Generated:
    """A table that `weft bench data make` writes."""

    about: str
    make: Callable[[], Records]


GENERATED: Mapping[str, Generated] = {
    "latent_small": Generated(
        "2,000 x 8, latent classes; to try things on", lambda: latent_class(2_000, 8, np.random.default_rng(0))
    ),
    "latent_15": Generated("45,000 x 15, latent classes", lambda: latent_class(45_000, 15, np.random.default_rng(0))),
    "wide_large": Generated("662,000 x 97, latent classes, most columns weakly dependent", wide_large),
    **{
        f"sparse_{strength}": Generated(
            f"40,000 x 50, 100 values a column, {strength} dependent", partial(sparse, strength)
        )
        for strength in SCATTER
    },
    **{
        name: Generated(f"{rows:,} x {columns}, up to 30 values a column", partial(few, name))
        for name, (rows, columns) in FEW.items()
    },
    "acs_like": Generated("700,000 x 11, the sizes of the plausible-deniability paper", lambda: acs_like(700_000)),
}
"""Every generated table by name."""
