"""Generated tables to measure on."""

import numpy as np

from weft.marginals.domain import Domain
from weft.marginals.records import Records, code_dtype


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
    widths = np.rint(np.exp(rng.uniform(*np.log(sizes), d))).astype(int)
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
