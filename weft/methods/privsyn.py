"""PrivSyn (Zhang, Wang, Li, Honorio, Backes, He, Chen, Zhang; USENIX Security 2021), Algorithm 3.

One-way marginals decide which rare values are merged; the InDif of all pairs decides which pairs are measured
(DenseMarg); overlapping pairs are merged into larger cliques; measurements are made consistent; GUM generates records.

DenseMarg (section 4.2, Algorithm 1) selects pairs while their dependence exceeds their noise. Leaving pair i out costs
its dependence phi_i (InDif: the L1 distance, in counts, between the pair's table and the product of its margins).
Measuring a set X with the optimal shares of rho costs T^1.5 / sqrt(pi rho) counts of L1 noise, T being the sum over X
of cells^(2/3). The greedy step is then one vectorised minimum: the paper's inner loop over all pairs reduces to
arithmetic on T, with the same selection.

Where the defaults differ from the paper (`preset="paper"`):
- `accounting` gaussian, published paper: exact Gaussian DP adds less noise than closed-form zCDP.
- `rare_values` neighbours, published one: by default, rare ordered values join their neighbours, and the code of rare
  values is kept even if its count is small.
- `gum` {}, published {"strategy": "half-duplicate", "iterations": 100, "alpha": 0.84, "length": 20,
  "fill_empty": false, "peel": "once", "tolerance": 0.0}: by default, each update considers all marginals ("guided";
  docs/decisions/005); published GUM has strategy S5, alpha multiplied by 0.84 every 20 of 100 iterations, and no early
  stopping. The text has alpha below 1 and no value; the authors' code begins at 1 and lets empty cells gain records.

With the preset as well:
- InDif noise follows Theorem 5, N(0, 8m/rho); the running text's N(0, m^2 rho^2) is a misprint.
- The number of records is estimated from noisy marginals and delta is an input; the paper uses n and 1/n^2.
- One-way marginals are charged once: after merging, they enter the consistency step and are not measured again. The
  authors' code measured them again without a charge.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from weft.bounds import Bounds, Cells, Deviations, Share
from weft.curator import Curator
from weft.errors import MethodError
from weft.marginals.domain import Clique, Domain, make_clique
from weft.marginals.marginal import Array, NoisyMarginal
from weft.marginals.noise_error import MEAN_ABS_NORMAL
from weft.marginals.pooling import common_total
from weft.marginals.reconciliation import reconcile
from weft.methods.common.allocation import allocate_to_required, by_size, check_emphasis, check_given
from weft.methods.common.budget_checks import check_marginals, check_noise, check_shares
from weft.methods.common.discretisation import measure_columns
from weft.methods.common.gum_options import GUM, check_gum
from weft.methods.common.indif_network import indif_families
from weft.methods.common.options import Published, get_published_settings, only_with, only_without, option
from weft.models.gum.gum_model import PRIVSYN, GumModel, GumOptions
from weft.models.recoded import RecodedModel
from weft.privacy import AccountingName
from weft.progress import Listener, ignore_event, report_stage


@dataclass(frozen=True)
class Trace:
    """A selection with the expected error after each step. Privacy: it depends on noisy scores only."""

    cliques: list[Clique]
    """The selection in order: required cliques, greedy ones, connecting ones."""
    errors: Array
    """Expected total L1 error in counts: before the first step, then after each clique."""


def noise_error(weight: float | Array, rho: float) -> Array:
    """Return the minimum expected L1 noise (counts) of marginals measured with `rho`; `weight` is sum cells^(2/3)."""
    return np.asarray(MEAN_ABS_NORMAL * np.asarray(weight, dtype=np.float64) ** 1.5 / math.sqrt(2 * rho))


def dense_marginals(
    dependence: Mapping[Clique, float],
    domain: Domain,
    rho: float,
    *,
    threshold: float = 0.0,
    must_include: Iterable[Clique] = (),
    connect: bool = False,
) -> Trace:
    """Return the pairs to measure with `rho`, in order of selection, with the expected error after each step.

    `dependence` has the noisy InDif of every candidate, in counts (the scale of the L1 noise of a table; scores may be
    negative). Selection stops when the best candidate lowers the expected error by no more than `threshold` counts.
    Cliques in `must_include` come first, regardless of their score. With `connect`, each attribute in no selected
    clique is joined to the others by its highest-scoring pair with a selected attribute.
    """
    if not rho > 0:
        raise ValueError("DenseMarg needs a positive rho for the marginals it selects")
    candidates = sorted(dependence)  # ties are broken by name
    phi = np.array([dependence[c] for c in candidates], dtype=np.float64)
    weight = np.array([domain.cells(c) for c in candidates], dtype=np.float64) ** (2 / 3)
    position = {c: i for i, c in enumerate(candidates)}
    free = np.ones(len(candidates), dtype=bool)
    chosen: list[Clique] = []
    errors = [float(phi.sum())]
    state = _State(0.0, errors[0])

    def take(c: Clique) -> None:
        nonlocal state
        i = position.get(c)
        score = float(phi[i]) if i is not None else 0.0
        if i is not None:
            free[i] = False
        state = _State(state.weight + domain.cells(c) ** (2 / 3), state.missed - score)
        chosen.append(c)
        errors.append(float(noise_error(state.weight, rho)) + state.missed)

    for c in dict.fromkeys(make_clique(names) for names in must_include):
        take(c)
    while free.any():
        after = np.where(free, noise_error(state.weight + weight, rho) + state.missed - phi, np.inf)
        best = int(after.argmin())
        if not errors[-1] - after[best] > threshold:
            break
        take(candidates[best])
    if connect:
        for c in _connect_attributes(candidates, phi, chosen, domain):
            take(c)
    return Trace(chosen, np.array(errors))


@dataclass(frozen=True)
class _State:
    weight: float
    """Sum of cells^(2/3) over the selected cliques."""
    missed: float
    """Sum of the scores of unselected cliques."""


def _connect_attributes(candidates: list[Clique], phi: Array, chosen: list[Clique], domain: Domain) -> list[Clique]:
    """Return pairs that join the uncovered attributes one at a time, highest score first."""
    pairs = [(i, c) for i, c in enumerate(candidates) if len(c) == 2]
    if not pairs:
        return []
    score = phi[[i for i, _ in pairs]]
    ends = np.array([[domain.index(name) for name in c] for _, c in pairs])
    inside = np.zeros(len(domain), dtype=bool)
    inside[[domain.index(name) for c in chosen for name in c]] = True
    if not inside.any():
        inside[ends[score.argmax(), 0]] = True  # nothing was selected: start from the highest score
    joined: list[Clique] = []
    while (crossing := inside[ends].sum(axis=1) == 1).any():
        best = int(np.where(crossing, score, -np.inf).argmax())
        inside[ends[best]] = True
        joined.append(pairs[best][1])
    return joined


_EFFORT = 200_000
"""Maximum search steps for one clique size; the search then continues with smaller cliques."""


def combine_cliques(
    pairs: Iterable[Clique], domain: Domain, *, max_cells: int = 5000, dependence: Mapping[Clique, float] | None = None
) -> list[Clique]:
    """Merge `pairs` into larger cliques (PrivSyn, section 4.2, Algorithm 2); return these first, then uncovered pairs.

    In the graph of the pairs, cliques of three or more attributes are visited from large to small. A clique is accepted
    if its table has at most `max_cells` cells and it shares at most two attributes with all accepted ones. Cliques of
    one size are visited in lexicographic order of their attributes, ranked by summed `dependence`, then by name.
    (Ordering whole cliques by their summed dependence would make each visit a heaviest-subgraph problem.)

    >>> abc = Domain(("a", "b", "c", "d"), (2, 2, 2, 9))
    >>> combine_cliques([("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")], abc)
    [('a', 'b', 'c'), ('c', 'd')]
    """
    given = list(dict.fromkeys(make_clique(names) for names in pairs))
    edges: list[Clique] = [c for c in given if len(c) == 2]
    search = _Search(edges, domain, max_cells, dependence or {})
    merged = [make_clique(members) for members in search.run()]
    inside = [set(c) for c in merged]
    return merged + [c for c in given if not any(m.issuperset(c) for m in inside)]


class _Search:
    """One depth-first pass for each clique size, over attributes numbered by rank; sets are bit masks."""

    def __init__(self, edges: list[Clique], domain: Domain, max_cells: int, dependence: Mapping[Clique, float]) -> None:
        strength = dict.fromkeys((name for edge in edges for name in edge), 0.0)
        for edge in edges:
            for name in edge:
                strength[name] += dependence.get(edge, 0.0)
        self.names = sorted(strength, key=lambda name: (-strength[name], name))
        rank = {name: i for i, name in enumerate(self.names)}
        self.sizes = [domain.size(name) for name in self.names]
        self.max_cells = max_cells
        self.near = [0] * len(self.names)
        for a, b in edges:
            self.near[rank[a]] |= 1 << rank[b]
            self.near[rank[b]] |= 1 << rank[a]
        by_size: dict[int, int] = {}
        for i, size in enumerate(self.sizes):
            by_size[size] = by_size.get(size, 0) | 1 << i
        self.by_size = sorted(by_size.items())
        self.covered = 0
        self.accepted: list[list[str]] = []
        self.effort = 0

    def run(self) -> list[list[str]]:
        """Return the accepted cliques, larger sizes first."""
        everything = (1 << len(self.names)) - 1
        widest = max((mask.bit_count() for mask in self.near), default=0) + 1
        for size in range(widest, 2, -1):
            self.effort = _EFFORT
            self._extend(0, everything, 1, size)
        return self.accepted

    def _extend(self, members: int, candidates: int, cells: int, need: int) -> None:
        """Visit in order the cliques of `members` and `need` of the candidates, which are all adjacent to them."""
        if need == 0:
            self.covered |= members
            self.accepted.append([name for i, name in enumerate(self.names) if members >> i & 1])
            return
        while self._possible(members, candidates, cells, need):
            self.effort -= 1
            bit = candidates & -candidates
            candidates ^= bit
            i = bit.bit_length() - 1
            # `covered` may have grown since the candidates were computed, so the overlap is checked again.
            if ((members | bit) & self.covered).bit_count() <= 2 and cells * self.sizes[i] <= self.max_cells:
                self._extend(members | bit, candidates & self.near[i], cells * self.sizes[i], need - 1)

    def _possible(self, members: int, candidates: int, cells: int, need: int) -> bool:
        """Return whether a clique may still be found, by bounds on overlap, cells and colours of the candidates."""
        spare = 2 - (members & self.covered).bit_count()
        if spare < 0 or self.effort <= 0:
            return False
        if spare == 0:
            candidates &= ~self.covered
        return self._fits(candidates, spare, cells, need) and (need < 3 or self._colours(candidates, need))

    def _fits(self, candidates: int, spare: int, cells: int, need: int) -> bool:
        """Return whether the `need` smallest candidates, at most `spare` of them covered, stay within `max_cells`."""
        for size, mask in self.by_size:
            fresh = (candidates & mask & ~self.covered).bit_count()
            used = min((candidates & mask & self.covered).bit_count(), spare, max(need - fresh, 0))
            count = min(fresh, need) + used
            spare -= used
            need -= count
            cells *= size**count
            if need == 0 or cells > self.max_cells:
                break
        return need == 0 and cells <= self.max_cells

    def _colours(self, candidates: int, need: int) -> bool:
        """Return whether greedy colouring needs `need` colours: with fewer, there is no clique of that size."""
        for _ in range(need - 1):
            apart = candidates
            while apart:
                bit = apart & -apart
                candidates ^= bit
                apart &= ~(bit | self.near[bit.bit_length() - 1])
            if not candidates:
                return False
        return True


_DENSE = (only_without("marginals"), only_with("selection", "dense"))


@dataclass(frozen=True)
class PrivSyn:
    """Many small marginals, selected by dependence, and records updated to match all of them (GUM)."""

    completes_seeds: ClassVar[bool] = False
    paper: ClassVar[Published | None] = get_published_settings(
        accounting="paper",
        share_columns=0.1,
        share_scores=0.1,
        rare=3.0,
        rare_values="one",
        selection="dense",
        connect=False,
        max_cells=5000,
        allocation="weighted",
        gum={**PRIVSYN, "tolerance": 0.0},
    )

    accounting: AccountingName = option(
        "gaussian", '"gaussian"; "paper", the published bound; "pure", geometric noise (Laplace in the paper).'
    )
    share_columns: Share = option(0.1, "Share of the budget for one-way marginals.")
    share_scores: Share = option(0.1, "Share for the InDif of all pairs.", only_without("marginals"))
    rare: Deviations = option(3.0, "Values whose noisy count is below this many standard deviations are merged.")
    rare_values: Literal["neighbours", "one"] = option(
        "neighbours",
        "Rare ordered values join their neighbours; or all rare values share one code, emptied if it is rare too.",
    )
    selection: Literal["dense", "privbayes-indif"] = option(
        "dense", "DenseMarg, or the sparse network that the paper compares with.", only_without("marginals")
    )
    marginals: Sequence[Sequence[str]] = option((), "Required marginals, measured instead of selected ones.")
    emphasis: Annotated[Sequence[float], Bounds(1e-6, 1e6, 100_000)] = option(
        (), "With marginals: factors on their parts of the budget. Empty: all 1."
    )
    exact: Sequence[Sequence[str]] = option((), "With marginals: those that records match exactly.")
    must_include: Sequence[Sequence[str]] = option((), "Marginals measured regardless of their InDif.", *_DENSE)
    connect: bool = option(False, "Join attributes in no selected pair to the others by their best pair.", *_DENSE)
    rare_rows: Annotated[float, Bounds(0.0, 1e12)] = option(0.0, "Values with a noisy count below this are merged too.")
    max_cells: Cells = option(5000, "Maximum cells of merged pairs (the paper's gamma).", *_DENSE)
    allocation: Literal["weighted", "equal"] = option(
        "weighted", "Divide the budget by cells^(2/3), if pure by cells^(1/2); or evenly."
    )
    gum: Mapping[str, Any] = option({}, 'GUM settings, e.g. {"iterations": 9}; see `gum_model.GumOptions`.', parts=GUM)

    def check(self, domain: Domain) -> None:
        """Validate shares, marginals and the settings of GUM."""
        check_shares(share_columns=self.share_columns, share_scores=self.share_scores)
        check_given(domain, self.marginals, self.emphasis)
        check_marginals(domain, [*self.exact, *self.must_include])
        if not {make_clique(names) for names in self.marginals}.issuperset(make_clique(names) for names in self.exact):
            raise MethodError("option exact: expected some of the marginals. Add them to marginals, too.")
        check_gum(self.gum)

    def fit(self, curator: Curator, rng: np.random.Generator, listener: Listener = ignore_event) -> RecodedModel:
        """Follow Algorithm 3; the numbers are its lines."""
        d = len(curator.domain)
        check_noise(curator, share_columns=(self.share_columns, d), share_scores=(self.share_scores, math.comb(d, 2)))
        check_emphasis(curator, self.marginals, self.emphasis, 1 - self.share_columns - self.share_scores)
        columns = measure_columns(  # 1-4: one-way marginals, rare values
            curator, self.share_columns, self.rare, listener, self.rare_rows, one_code=self.rare_values == "one"
        )
        merged = columns.curator
        with report_stage(listener, "choose marginals"):  # 5-7: InDif, DenseMarg, combine
            chosen = self._choose(merged, columns.tables) or [m.clique for m in columns.tables]
        with report_stage(listener, "measure marginals"):  # 8: weighted Gaussian
            measured = merged.measure(chosen, share=merged.left, weights=self._weights(merged.domain, chosen))
        with report_stage(listener, "reconcile"):  # 9: consistency under uneven budgets
            tables = reconcile([*columns.tables, *columns.emptied(measured)])
        # An attribute measured twice (if no pair was selected) has two consistent tables: keep one.
        different = {table.clique: table for table in tables.tables}
        exact = tuple(dict.fromkeys(make_clique(names) for names in self.exact))
        model = GumModel(merged.domain, tables.total, tuple(different.values()), GumOptions(**self.gum), exact)
        return columns.unfold(model)  # 10-12: GUM and decoding, when records are sampled

    def _choose(self, curator: Curator, alone: Sequence[NoisyMarginal]) -> list[Clique]:
        if self.marginals:
            return list(dict.fromkeys(make_clique(names) for names in self.marginals))
        dependence = curator.dependence(share=self.share_scores)
        if self.selection == "privbayes-indif":
            return indif_families(curator, dependence, common_total(alone)[0])
        trace = dense_marginals(
            dependence,
            curator.domain,
            curator.rho(curator.left),
            must_include=[make_clique(names) for names in self.must_include],
            connect=self.connect,
        )
        return combine_cliques(trace.cliques, curator.domain, max_cells=self.max_cells, dependence=dependence)

    def _weights(self, domain: Domain, cliques: Sequence[Clique]) -> list[float] | None:
        even = self.allocation == "equal"
        if self.marginals:
            return list(
                allocate_to_required(domain, self.marginals, self.emphasis, self.accounting, even=even).values()
            )
        return None if even else by_size([domain.cells(c) for c in cliques], self.accounting)
