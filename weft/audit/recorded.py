"""What a program asked of its rows and what left, on record; and whether the noise between the two was paid for.

The tests here look at one run, or at two on the same table. They find noise that is too small, is not there, repeats
itself, or depends on what it is added to; record and replay (`weft.audit.replay`) finds the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2, gamma, kstest

from weft.marginals.marginal import Array
from weft.privacy import Charge
from weft.privacy.mechanisms import Release

Artefacts = Mapping[str, Any]
"""Everything that leaves a run, by name: files, printed text, warnings, events, the ledger, ..."""

Program = Callable[[Any, Release], Artefacts]
"""A run of the whole program on a table with the given release step."""

LONG = 5
"""Cells whose noise must differ between two tables; by chance they agree less than once in 10^5 at sigma 1."""

ACCIDENT = 1e-9
"""Probability below which what was seen is no accident."""

SIZES = {"nothing": (0, 0), "1 to 9": (1, 9), "10 or more": (10, math.inf)}
"""Cells by what they hold, between which noise must not differ."""


@dataclass(frozen=True)
class Answer:
    """One question as recorded: what was charged, what the rows said, and what left."""

    charge: Charge
    exact: tuple[Array, ...]
    released: tuple[Array, ...]


class Recorder:
    """Releases by real mechanisms and remembers all of it."""

    def __init__(self, mechanisms: Release) -> None:
        self._mechanisms = mechanisms
        self.private = mechanisms.private
        self.tape: list[Answer] = []
        self.findings: list[str] = []

    def __call__(self, charge: Charge, exact: Sequence[Array]) -> list[Array]:
        """Release and remember."""
        released = self._mechanisms(charge, exact)
        if any(answer.dtype.kind not in "iu" for answer in released):
            self.findings.append(f"{charge.question}: the released answers are not integers")
        self.tape.append(Answer(charge, tuple(a.copy() for a in exact), tuple(a.copy() for a in released)))
        return released


def weakness(tape: Sequence[Answer]) -> list[str]:
    """Return a finding if the noise that was added is smaller, on the whole, than the charges declare.

    Squares of Gaussian noise add up to a chi-square, sizes of geometric noise nearly to a gamma; a sum whose lower tail
    is that thin is no accident. Scales below 1 are left out: rounding dominates them.
    """
    findings = []
    for mechanism, power, law in [("gaussian", 2, chi2), ("geometric", 1, gamma)]:
        parts = [
            ((np.abs(released - exact) + 0.5) / scale).ravel() ** power  # rounding took away at most a half
            for answer in tape
            if answer.charge.mechanism == mechanism
            for exact, released, scale in zip(answer.exact, answer.released, answer.charge.scales, strict=True)
            if scale >= 1
        ]
        if parts:
            noise = np.concatenate(parts)
            if law.cdf(noise.sum(), noise.size) < ACCIDENT:
                findings.append(f"the {mechanism} noise is smaller than declared ({noise.mean():.2g} of it)")
    return findings


def wrong_law(tape: Sequence[Answer]) -> list[str]:
    """Return a finding for each sort of cells whose noise does not follow the law that was declared for it.

    A value k of a law F on the integers, put at a random place between F(k - 1) and F(k), is uniform on (0, 1),
    whatever the law and its scale: so cells of all tables can be tested together, by Kolmogorov and Smirnov. Noise that
    is not added to empty cells, or is rounded away from full ones, shows in the cells of that sort; in those of one
    table, or of all.
    """
    findings = []
    rng = np.random.default_rng(0)  # these numbers belong to a test that can be repeated, and to no release
    tables = [
        (answer.charge.question, np.abs(answer.exact[i]).ravel(), _uniforms(answer, i, rng))
        for answer in tape
        if answer.charge.mechanism in _LAWS
        for i in range(len(answer.exact))
    ]
    for sort, (low, high) in SIZES.items():
        chosen_of = [(question, uniform[(low <= sizes) & (sizes <= high)]) for question, sizes, uniform in tables]
        chosen_of.append(("all questions", np.concatenate([np.empty(0), *(chosen for _, chosen in chosen_of)])))
        for question, chosen in chosen_of:
            if chosen.size and kstest(chosen, "uniform", method="asymp").pvalue < ACCIDENT:
                findings.append(f"{question}: the noise on cells that hold {sort} is not of the law declared")
    return findings


def _uniforms(answer: Answer, i: int, rng: np.random.Generator) -> Array:
    """Return the noise on each cell of a table by its randomised probability integral transform."""
    noise = (answer.released[i] - answer.exact[i]).ravel().astype(np.float64)
    law, scale = _LAWS[answer.charge.mechanism], answer.charge.scales[i]
    below, upto = law(noise - 1, scale), law(noise, scale)
    return np.asarray(below + (upto - below) * rng.random(noise.size))


def _gaussian(k: Array, scale: float) -> Array:
    """P(K <= k) of rounded Gaussian noise."""
    return np.asarray(ndtr((k + 0.5) / scale))


def _geometric(k: Array, scale: float) -> Array:
    """P(K <= k) of two-sided geometric noise."""
    tail = np.exp(-np.where(k < 0, -k, k + 1) / scale) / (1 + np.exp(-1 / scale))
    return np.asarray(np.where(k < 0, tail, 1 - tail))


_LAWS: dict[str, Callable[[Array, float], Array]] = {"gaussian": _gaussian, "geometric": _geometric}

OTHER_LAWS = {
    "exponential": "choices: their chances are tested in tests/privacy and by the empirical audit",
    "partitions": "values: what is released is a list; its law is tested in tests/privacy and tests/discovery",
    "seeded": "records, not counts",
    "deniable": "records, not counts",
    "coins": "nothing leaves",
}
"""Mechanisms whose noise is not added to cells, and who looks at them instead. Every other one must have a law here."""


def fresh(program: Program, table: Any, mechanisms: Callable[[], Release], *, truncated: bool = False) -> list[str]:
    """Return signs that chance is not fresh: the same on two runs, or the same noise for two tables of one run.

    `truncated`: some units of this table have more rows than are kept. Which rows stay is chance too, and must not be
    known to anybody (`weft.engines.units`): two runs, also with one `seed`, must not count the same ones.
    """
    runs = [Recorder(mechanisms()), Recorder(mechanisms())]
    for recorder in runs:
        program(table, recorder)
    findings = []
    drawn = [[_noise(answer) for answer in recorder.tape if answer.charge.norm in ("l1", "l2")] for recorder in runs]
    for one, other in zip(*([a for a in r.tape if a.charge.mechanism == "coins"] for r in runs), strict=False):
        if len(one.released[0]) >= LONG and np.array_equal(one.released[0], other.released[0]):
            findings.append("two runs threw the same coins")
    if drawn[0] and all(np.array_equal(a, b) for a, b in zip(drawn[0], drawn[1], strict=False)):
        findings.append("two runs drew the same noise")
    counted = [[exact for answer in recorder.tape for exact in answer.exact] for recorder in runs]
    if truncated and all(map(np.array_equal, *counted)):
        findings.append("two runs kept the same rows of every unit")
    for answer in (answer for answer in runs[0].tape if answer.charge.norm in ("l1", "l2")):
        noise = [r.ravel() - e.ravel() for e, r in zip(answer.exact, answer.released, strict=True) if e.size >= LONG]
        prefixes = {tuple(n[:LONG].tolist()) for n in noise if n[:LONG].any()}
        if len(prefixes) < sum(bool(n[:LONG].any()) for n in noise):
            findings.append(f"{answer.charge.question}: two tables got the same noise")
    return findings


def _noise(answer: Answer) -> Array:
    return np.concatenate([(r - e).ravel() for e, r in zip(answer.exact, answer.released, strict=True)])
