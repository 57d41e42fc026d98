"""How much a release gives away, as far as an attack on it can show: a lower bound on mu that holds with confidence.

The attack. D and D' differ in one privacy unit. Fit a program on each of them many times, reduce every release to a
few figures, and say from these which table it came from. A test that takes a release of D for one of D' with
probability a, and one of D' for one of D with probability b, shows that no claim holds which forbids such a test:

* mu-GDP (Dong, Roth and Su 2019) is exactly that for every test Phi^-1(1 - a) - Phi^-1(b) <= mu. So two upper limits,
  of a and of b, give a lower limit of mu (Nasr et al. 2023, "Tight auditing").
* At its best, where a = b, that reads: a test is right with probability at most Phi(mu / 2) when both tables are
  equally likely. This needs one limit, of one number, and is the tighter bound for noise that is nearly Gaussian. The
  other sees leaks that show in few runs, but surely.

Both are taken, each with half of the error allowed. Nothing is assumed of the figures. What to look at (the weights of
the figures, and the thresholds) is learned from the first runs, and tried on the others, which are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from weft.marginals.marginal import Array
from weft.privacy import Accounting, Budget

TRAINING = 4
"""One run in so many serves to learn the test, the others to try it."""

FLAT = 1e-3
"""Directions in which standardised figures vary less than this, beside the widest, are rounding and left out."""


@dataclass(frozen=True)
class Claim:
    """What a budget says about every test between neighbouring tables."""

    mu: float
    """The test that is right most often is right with probability at most Phi(mu / 2)."""
    every_test: bool
    """Whether mu-GDP follows, that is Phi^-1(1 - a) - Phi^-1(b) <= mu for the rates a and b of every test."""

    @property
    def accuracy(self) -> float:
        """How often a test may be right, if both tables are equally likely."""
        return float(ndtr(self.mu / 2))


def claim(budget: Budget, accounting: Accounting) -> Claim:
    """Return what a budget says of tests, in the unit mu.

    Gaussian: the capacity is rho = mu^2 / 2, and mu-GDP is what is claimed.

    Pure: with odds of at most e^epsilon no test is right with a probability above e^epsilon / (1 + e^epsilon), which is
    Phi(mu / 2) for the mu returned. And mu-GDP follows: its trade-off curve is convex, begins at (0, 1) and passes
    through the corner of epsilon's, which has straight lines on either side, and so lies below all of it.

    zCDP: no mu-GDP follows, but the divergence of Kullback and Leibler is at most rho (orders above 1, to the limit).
    A test's advantage is at most the total variation distance, at most sqrt(rho / 2) by Pinsker's inequality and
    sqrt(1 - e^-rho) by that of Bretagnolle and Huber. It is right with probability (1 + advantage) / 2.

    >>> round(claim(Budget(mu=1.0), "gaussian").mu, 6), round(claim(Budget(epsilon=4.0, delta=0.0), "pure").mu, 3)
    (1.0, 4.194)
    """
    capacity = budget.capacity(accounting)
    if accounting == "gaussian":
        return Claim(math.sqrt(2 * capacity), every_test=True)
    if accounting == "pure":
        return Claim(-2 * float(ndtri(1 / (1 + math.exp(capacity)))), every_test=True)
    advantage = min(math.sqrt(capacity / 2), math.sqrt(-math.expm1(-capacity)))
    return Claim(-2 * float(ndtri((1 - advantage) / 2)), every_test=False)


def upper_limit(successes: int, trials: int, error: float) -> float:
    """Return the Clopper-Pearson limit: a probability below this fails to be, in at most `error` of all cases.

    >>> round(upper_limit(0, 100, 0.05), 4), upper_limit(7, 7, 0.05)
    (0.0295, 1.0)
    """
    if successes >= trials:
        return 1.0
    return float(betaincinv(successes + 1, trials - successes, 1 - error))


def accuracy_bound(wrong: int, trials: int, error: float) -> float:
    """Return a mu that a test with so many wrong answers shows, half of the trials being on each table.

    The answers are independent, with one chance of being wrong on D and another on D'. Their sum is less spread than
    a binomial number of the same mean (Hoeffding 1956), so its limit holds for the mean of the two.
    """
    return max(0.0, -2 * float(ndtri(upper_limit(wrong, trials, error))))


def trade_off_bound(false_positives: int, false_negatives: int, trials: int, error: float) -> float:
    """Return a mu that a test with these errors, of so many trials on each table, shows: half of `error` a rate."""
    rates = [upper_limit(found, trials, error / 2) for found in (false_positives, false_negatives)]
    return max(0.0, -float(ndtri(rates).sum())) if max(rates) < 1 else 0.0


@dataclass(frozen=True)
class Evidence:
    """How often the guesses of an attack were wrong, and what that shows."""

    trials: int
    """Releases of each table that were guessed at."""
    wrong: int
    """Wrong guesses of the test that was right most often while it was learned, of twice as many trials."""
    rates: tuple[int, int] | None
    """False positives and false negatives of the test that showed most by both; None: the claim is not one on these."""
    confidence: float

    @property
    def mu(self) -> float:
        """At least this much is given away, with confidence."""
        return self.bound(self.confidence)

    def bound(self, confidence: float) -> float:
        """Return the mu that was shown with another confidence."""
        if self.rates is None:
            return accuracy_bound(self.wrong, 2 * self.trials, 1 - confidence)
        half = (1 - confidence) / 2
        return max(accuracy_bound(self.wrong, 2 * self.trials, half), trade_off_bound(*self.rates, self.trials, half))

    @property
    def accuracy(self) -> float:
        """How often the guess was right."""
        return 1 - self.wrong / (2 * self.trials)

    @property
    def estimate(self) -> float:
        """The mu at which the best test is right as often as this one was: a guess, with no confidence in it."""
        # No wrong guess at all counts as half of one: it does not show a mu without end.
        return max(0.0, -2 * float(ndtri(max(self.wrong, 0.5) / (2 * self.trials))))


def attack(without: Array, canary: Array, confidence: float, *, every_test: bool = True) -> Evidence:
    """Learn to tell releases of D from those of D', a row of figures each; then count how often that is wrong.

    `every_test`: whether the claim in question is one about the rates of all tests (`Claim.every_test`).
    """
    runs = len(without)
    if len(canary) != runs or runs < 2 * TRAINING:
        raise ValueError(f"an attack needs as many releases of one table as of the other, at least {2 * TRAINING}")
    few = runs // TRAINING
    weights = discriminant(without[:few], canary[:few])
    negative, positive = without @ weights, canary @ weights
    middle = (negative[:few].mean() + positive[:few].mean()) / 2
    wrong = sum(_errors(negative[few:], positive[few:], middle))
    rates = None
    if every_test:
        far = _threshold(negative[:few], positive[:few], (1 - confidence) / 2)
        rates = _errors(negative[few:], positive[few:], far)
    return Evidence(runs - few, wrong, rates, confidence)


def _errors(negative: Array, positive: Array, threshold: float) -> tuple[int, int]:
    """Return how many scores of each group are on the wrong side."""
    return int((negative >= threshold).sum()), int((positive < threshold).sum())


def discriminant(without: Array, canary: Array) -> Array:
    """Return weights of the figures that tell the two groups apart best, if both are spread alike (Fisher 1936).

    Found as the regression of the group on the figures, which is the same up to a factor.
    """
    together = np.concatenate([without, canary]).astype(np.float64)
    spread = together.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    group = np.repeat([-0.5, 0.5], [len(without), len(canary)])
    weights = np.linalg.lstsq((together - together.mean(axis=0)) / spread, group, rcond=FLAT)[0]
    return np.asarray(weights / spread)


def _threshold(without: Array, canary: Array, error: float) -> float:
    """Return the threshold whose trade-off shows most on these scores."""
    candidates = np.unique(np.concatenate([without, canary]))
    positives = len(without) - np.searchsorted(np.sort(without), candidates)
    negatives = np.searchsorted(np.sort(canary), candidates)
    shown = [
        trade_off_bound(int(fp), int(fn), len(without), error) for fp, fn in zip(positives, negatives, strict=True)
    ]
    return float(candidates[int(np.argmax(shown))])
