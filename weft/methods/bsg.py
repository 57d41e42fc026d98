"""BSG, plausible deniability (Bindschaedler, Shokri, Gunter; PVLDB 2017): sections 3 and 5.

Noisy entropies tell which attributes to draw given which (correlation-based feature selection); noisy counts of
every family, smoothed by a Dirichlet prior, are the conditional tables. By default every attribute of a record is
drawn from this model. With `omega` and `records`, that many records are grown from seeds instead: each keeps the first
attributes of a row that passed the privacy test, and has only its last omega attributes drawn.

Where this differs from the paper:
- Entropies have their exact sensitivity, scaled so that it holds for every number of rows: no noisy n is trusted.
- Gaussian noise with exact accounting, instead of Laplace with advanced composition; all tables are drawn once.
- The seeds are paid for as a whole table of records; k and epsilon0 follow from the budget unless given. The paper's
  own guarantees, record by record (Test 2) or of k plausible seeds alone (Test 1), are not offered.
- Structure, parameters and seeds come from all rows, and their costs add up; rows are not split (docs/decisions/008).
- Which seeds are plausible is counted exactly: with omega fixed they are those with the same kept attributes, so gamma
  plays no part and nothing needs to be capped (the paper's max_plausible and max_check_plausible).
- Correlations between two parents are the mean of the two that were asked, so that every entropy used is paid for.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from weft.curator import Curator
from weft.domain import Domain, clique
from weft.errors import MethodError
from weft.marginal import Array, NoisyMarginal
from weft.models.bayesnet import BayesNet, Family
from weft.models.seeded import SeededModel
from weft.privacy import Accounting
from weft.privacy.deniability import Acceptance, plan
from weft.progress import Listener, silence, stage
from weft.records import Records
from weft.select.cfs import correlation_network, symmetric_uncertainty
from weft.select.useful import useful_cells

Edges = list[tuple[str, tuple[str, ...]]]

MOST_RECORDS = 1_000_000
"""Most records grown from seeds in one fit: they are handed out as one block."""

LOOK = 0.05
"""Part of the seeds' budget that goes to a lower bound of how many seeds pass the test."""

SLACK = 0.1
"""Part of delta that pays for what the accounting of seeds leaves out."""


@dataclass(frozen=True)
class Bsg:
    """A Bayesian network from noisy entropies; records may be grown from seeds that pass a privacy test."""

    accounting: Accounting = "gaussian"
    """"gaussian" for (epsilon, delta), "pure" for geometric noise and delta 0."""
    count: float = 0.01
    """Share of the budget for the number of rows."""
    structure: float = 0.3
    """Share for the entropies; the rest goes to the conditional tables."""
    theta: float = 4.0
    """A table may be so large that its average count is theta times the deviation of its noise."""
    buckets: Mapping[str, int | Sequence[int]] = field(default_factory=dict)
    """How children see an attribute: runs of so many codes as one bucket, or the bucket of each code."""
    prior: float = 1.0
    """Weight, in rows, of the uniform Dirichlet prior of each distribution."""
    parameters: Literal["mean", "draw"] = "mean"
    """The posterior mean of each distribution, or a draw from the posterior."""
    omega: int | None = None
    """How many attributes of a record are drawn, the others being a seed's; None: all, and no seeds are needed."""
    records: int | None = None
    """With omega: the number of records to grow from seeds. More cannot be had later."""
    k: int | None = None
    """Seeds that must be plausible; None: as the budget needs it."""
    epsilon0: float | None = None
    """Noise on k is Laplace of scale 1/epsilon0; None: as the budget needs it."""
    seeds: float = 0.5
    """With omega: share of the budget for the seeds; the model has the rest."""

    def check(self, domain: Domain) -> None:
        """Refuse shares that leave nothing for a step, seeds that cannot be had, and buckets that do not fit."""
        if not (self.count > 0 and self.structure > 0 and self.count + self.structure < 1):
            raise MethodError("options count and structure: shares above 0 that leave some budget for the tables")
        self._check_seeds(domain)
        for name, buckets in self.buckets.items():
            if name not in domain:
                raise MethodError(f"option buckets: there is no column {name!r}. Check its spelling.")
            if isinstance(buckets, int):
                fits = buckets >= 1
            else:
                fits = len(buckets) == domain.size(name) and set(buckets) == set(range(max(buckets) + 1))
            if not fits:
                raise MethodError(
                    f"option buckets: {name!r} needs a run length of 1 or more, or a bucket, counted from 0 without "
                    f"gaps, for each of its {domain.size(name)} codes"
                )

    def _check_seeds(self, domain: Domain) -> None:
        if self.omega is None:
            return
        if self.accounting not in ("gaussian", "zcdp"):
            raise MethodError(
                "option omega: seeds need a delta. Choose gaussian accounting, or leave it out to draw all"
            )
        if not 1 <= self.omega < len(domain):
            raise MethodError(
                f"option omega: draw between 1 and {len(domain) - 1} columns, or leave it out to draw all"
            )
        if self.records is None or not 1 <= self.records <= MOST_RECORDS:
            raise MethodError(f"option records: say how many to grow from seeds, 1 to {MOST_RECORDS:,}")
        if not 0 < self.seeds < 1:
            raise MethodError("option seeds: a share of the budget between 0 and 1, so that some is left for the model")
        if (self.k is None) != (self.epsilon0 is None):
            raise MethodError("options k and epsilon0: give both, or neither to have them chosen")
        self._given_test()

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = silence) -> BayesNet | SeededModel:
        """Learn the model, then grow records from seeds if asked to."""
        if self.omega is not None:
            curator.check_seeds()
        model = self._learn(curator, 0.0 if self.omega is None else self.seeds, rng, listener)
        if self.omega is None or self.records is None:
            return model
        kept = model.order[: len(model.domain) - self.omega]
        with stage(listener, "test seeds", 1) as work:
            prefixes = self._seeds(curator, model, kept, self.records, rng)
            work.advance(note="too few pass for the budget: all columns are drawn" if prefixes is None else "")
        known = {} if prefixes is None else dict(zip(kept, prefixes.columns, strict=True))
        return SeededModel(model.complete(known, self.records, rng, listener))

    def _seeds(
        self, curator: Curator, model: BayesNet, kept: tuple[str, ...], records: int, rng: np.random.Generator
    ) -> Records | None:
        """Release the kept attributes of rows that passed; None, so that all are drawn, if that costs too much."""
        look, slack = LOOK * curator.left, curator.slack(SLACK)
        share = curator.left_with(slack) - look
        test = self._given_test()
        if test is None:
            # What the model expects, not the rows: choosing a test costs nothing.
            expected = model.sample(min(round(model.total), MOST_RECORDS), rng)
            rows = np.column_stack([expected.column(name) for name in kept])
            _, counts = np.unique(rows, axis=0, return_counts=True)
            test = plan(math.sqrt(2 * curator.rho(share)), records, counts, slack / 2)
        if test is None:
            return None
        return curator.seeded_release(kept, test, records, look=look, share=share, slack=slack)

    def _given_test(self) -> Acceptance | None:
        if self.k is None or self.epsilon0 is None:
            return None
        return Acceptance(self.k, self.epsilon0)

    def _learn(self, curator: Curator, aside: float, rng: np.random.Generator, listener: Listener) -> BayesNet:
        """Learn the structure, then the parameters; leave a share aside."""
        domain = curator.domain
        seen = self._buckets(domain)
        with stage(listener, "count"):
            rows = curator.total((1 - aside) * self.count)
        with stage(listener, "entropies"):
            correlation = self._correlation(curator, rows, seen, (1 - aside) * self.structure)
        sigma = curator.sigma((curator.left - aside) / len(domain))
        widths = np.array([int(seen[name].max()) + 1 if name in seen else domain.size(name) for name in domain])
        edges = correlation_network(domain, widths, correlation, useful_cells(float(rows.table), sigma, self.theta))
        with stage(listener, "measure families"):
            families = self._families(curator, edges, seen, curator.left - aside, rng)
        return BayesNet(domain, max(float(rows.table), 1.0), families, seen)

    def _buckets(self, domain: Domain) -> dict[str, Array]:
        return {
            name: np.arange(domain.size(name)) // given if isinstance(given, int) else np.asarray(given, np.int64)
            for name, given in self.buckets.items()
        }

    def _correlation(self, curator: Curator, rows: NoisyMarginal, seen: Mapping[str, Array], share: float) -> Array:
        """Ask for H(x), H(bucketed x) and H(x, bucketed y) for all x and y; return their symmetric uncertainties."""
        domain = curator.domain
        whole = {name: (name, False) for name in domain}
        parent = {name: (name, name in seen) for name in domain}
        pairs = [frozenset({whole[x], parent[y]}) for x, y in itertools.permutations(domain, 2)]
        singles = [frozenset({view}) for view in (*whole.values(), *parent.values())]
        asked = list(dict.fromkeys([*singles, *pairs]))
        released = curator.entropies(
            [clique(name for name, _ in views) for views in asked],
            share,
            max(2, round(float(rows.table) - 2 * rows.sigma)),
            [{name: seen[name] for name, bucketed in views if bucketed} for views in asked],
        )
        entropy = dict(zip(asked, released.tolist(), strict=True))
        correlation = np.zeros((len(domain),) * 2)
        for x, y in itertools.permutations(domain, 2):
            correlation[domain.index(x), domain.index(y)] = symmetric_uncertainty(
                entropy[frozenset({whole[x], parent[y]})],
                entropy[frozenset({whole[x]})],
                entropy[frozenset({parent[y]})],
            )
        return correlation

    def _families(
        self, curator: Curator, edges: Edges, seen: Mapping[str, Array], share: float, rng: np.random.Generator
    ) -> tuple[Family, ...]:
        """Measure the table of every family with an equal share, and turn counts into distributions."""
        families = []
        for child, parents in edges:
            views = {name: (seen[name], int(seen[name].max()) + 1) for name in parents if name in seen}
            view = curator.recode(views) if views else curator
            (noisy,) = view.measure([clique([child, *parents])], share / len(edges))
            table = np.transpose(noisy.table, [noisy.clique.index(name) for name in (*parents, child)])
            families.append(Family(child, parents, self._posterior(table.reshape(-1, table.shape[-1]), rng)))
        return tuple(families)

    def _posterior(self, counts: Array, rng: np.random.Generator) -> Array:
        """Return a distribution for each row of noisy counts; the Dirichlet prior is spread evenly over the codes."""
        weight = np.maximum(counts, 0) + self.prior / counts.shape[1]
        if self.parameters == "draw":
            weight = np.maximum(rng.standard_gamma(weight), np.finfo(np.float64).tiny)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))
