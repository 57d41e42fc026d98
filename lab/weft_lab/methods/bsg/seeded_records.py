"""Records completed from seeds: the first attributes of private rows that passed a privacy test, and a model's rest.

The model must be a network (`weft_lab.methods.bayesnet`), whose order determines the first attributes. Privacy: the
kept attributes are released by the curator before the model sees them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from weft.curator import Curator
from weft.errors import MethodError, ModelFileError
from weft.marginals.counting import count_marginals
from weft.marginals.domain import Domain, make_clique
from weft.marginals.marginal import Array
from weft.marginals.records import Records, code_dtype
from weft.privacy.deniability import Acceptance, PlausibleTest
from weft.progress import Listener, ignore_event, report_stage
from weft_lab.methods.bayesnet import BayesNet, Family
from weft_lab.queries.plausible_seeds import plan_deniability
from weft_lab.queries.seed_queries import SeedQueries


@dataclass(frozen=True)
class SeededModel:
    """A fixed set of released records, sampled without replacement."""

    kind: ClassVar[str] = "seeded"
    fixed_records: ClassVar[bool] = True
    relates_columns: ClassVar[bool] = True

    records: Records
    deniable: bool = False
    """Whether these records are only plausibly deniable: NOT differentially private."""

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.records.domain

    @property
    def total(self) -> float:
        """The number of records. Privacy: it was requested, so it does not depend on the data."""
        return float(len(self.records))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Count the records."""
        (table,) = count_marginals(self.records, [make_clique(columns)])
        return table.astype(np.float64)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Return n of the records in random order."""
        if n > len(self.records):
            raise MethodError(
                f"the model has {len(self.records):,} records, as requested when it was fitted, and no more can be "
                "sampled. Request fewer, fit again with a larger --rows (in Python, rows), or fit without omega"
            )
        return self.records.take(rng.permutation(len(self.records))[:n])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the coded columns."""
        meta = {"guarantee": "plausible deniability, not differential privacy"} if self.deniable else {}
        return meta, {f"column-{i}": column for i, column in enumerate(self.records.columns)}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild from the columns; refuse codes outside the domain."""
        try:
            columns = tuple(arrays[f"column-{i}"] for i in range(len(domain)))
            if any(
                column.ndim != 1 or column.dtype != code_dtype(size) or int(column.max(initial=0)) >= size
                for column, size in zip(columns, domain.shape, strict=True)
            ):
                raise ValueError("a column does not match its attribute")
            if not len(columns[0]):
                raise ValueError("there are no records")
            return cls(Records(domain, columns), "guarantee" in meta)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"the records of the model file are damaged ({error}). Fit the model again") from error


@dataclass(frozen=True)
class RandomOmega:
    """A network that completes seeds with a secret omega; columns of rows and records are in the network's order.

    A record keeps the first attributes of its seed and has the last omega drawn, omega uniform on `omegas`. With m
    attributes, of which seed d shares the first s with record y, Pr{y = M(d)} is the mean over the omegas of the
    probability of y's last omega attributes where m - omega <= s, and of 0 elsewhere.
    """

    model: BayesNet
    omegas: Sequence[int]
    """Possible numbers of sampled attributes."""

    @property
    def domain(self) -> Domain:
        """The attributes in the order of the network."""
        return self.model.domain.project(self.model.order)

    def grow(self, seeds: Array, rng: np.random.Generator) -> Array:
        """Return one independent record for each seed."""
        records = np.array(seeds, np.int64)
        first = len(self.model.order) - rng.choice(np.asarray(self.omegas), len(records))
        for i, family in enumerate(self.model.families):
            ends = np.cumsum(family.table, axis=1)[self._group(family, records)]
            drawn = (ends < rng.random(len(records))[:, None] * ends[:, -1:]).sum(axis=1)
            records[:, i] = np.where(first <= i, drawn, records[:, i])
        return records

    def log_likelihood(self, records: Array, seeds: Array) -> Array:
        """Return the log-likelihood of each record (rows) given each seed (columns)."""
        m = len(self.model.order)
        chances = [f.table[self._group(f, records), records[:, i]] for i, f in enumerate(self.model.families)]
        with np.errstate(divide="ignore"):
            # last[:, s]: log-probability of all attributes from position s on, given those before.
            logs = np.log(np.column_stack([*chances, np.ones(len(records))]))
            last = np.cumsum(logs[:, ::-1], axis=1)[:, ::-1]
            places = [m - omega for omega in self.omegas]
            told = np.stack([np.exp(last[:, p, None]) * (np.arange(m + 1) >= p) for p in places]).mean(axis=0)
            told = np.log(told)
        shared = np.zeros((len(records), len(seeds)), np.int64)
        agree = np.ones(shared.shape, bool)
        for i in range(m):
            agree &= records[:, i, None] == seeds[None, :, i]
            shared += agree
        return np.asarray(np.take_along_axis(told, shared, axis=1))

    def _group(self, family: Family, records: Array) -> Array:
        """Return the configuration of a family's parents in each record."""
        group = np.zeros(len(records), np.int64)
        for name in family.parents:
            codes = records[:, self.model.order.index(name)]
            seen = self.model.buckets[name][codes] if name in self.model.buckets else codes
            group = group * self.model.width(name) + seen
        return group


Kept = tuple[str, ...]
"""The attributes that a record keeps from its seed."""

MAX_RECORDS = 1_000_000
"""Maximum records completed from seeds in one fit: they are released as one block."""

LOOK = 0.05
"""Part of the seeds' budget for a lower bound on the number of seeds that pass the test."""

SLACK = 0.1
"""Part of delta for what the accounting of seeds leaves out."""


def parse_omegas(given: int | str | Sequence[int] | None, domain: Domain) -> list[int]:
    """Return the possible numbers of sampled attributes; an empty list if all attributes are sampled.

    >>> parse_omegas("2-3", Domain(("a", "b", "c"), (2, 2, 2))), parse_omegas(3, Domain(("a", "b", "c"), (2, 2, 2)))
    ([2, 3], [])
    """
    if given is None:
        return []
    ends: list[Any] = [*given] if isinstance(given, list | tuple) else [given, given]
    if isinstance(given, str) and (found := re.fullmatch(r"(\d{1,9})-(\d{1,9})", given)):
        ends = [int(found[1]), int(found[2])]
    low, high = ends if len(ends) == 2 and all(type(end) is int for end in ends) else (0, 0)
    if not 1 <= low <= high <= len(domain):
        raise MethodError(
            f"option omega: expected 1 to {len(domain)} attributes, as a number or a range such as 1-{len(domain)}. "
            "Leave it out to sample all"
        )
    return [] if low == len(domain) else list(range(low, high + 1))


def check_split(split: Sequence[float] | None, grown: bool, published: Sequence[float]) -> None:
    """Validate `split`; refuse rows for seeds without omega, except in the published split, which a preset sets."""
    if split is None:
        return
    if len(split) != 3 or not all(0 <= p < 1 for p in split) or not sum(split) <= 1 + 1e-9:
        raise MethodError(
            "option split: expected three probabilities, for seeds, structure and parameters, with a sum of at most 1, "
            "such as [0.5, 0.25, 0.25]"
        )
    idle = not grown and split[0] > 0 and tuple(split) != tuple(published)
    if not min(split[1:]) > 0 or (grown and not split[0] > 0) or idle:
        raise MethodError("option split: structure and parameters need rows; seeds need rows exactly if omega is given")


def grow_records(
    curator: Curator,
    model: BayesNet,
    drawn: Sequence[int],
    rows: int,
    test: Acceptance | PlausibleTest | None,
    served: float,
    rng: np.random.Generator,
    listener: Listener,
) -> SeededModel:
    """Complete `rows` records, each with a number of sampled attributes from `drawn`, or all if no seed is released.

    `served` is the share of the model's rows that are seeds.
    Privacy: with an `Acceptance`, or None to choose one, the records together are differentially private; with a
    `PlausibleTest`, each is only deniable. The numbers of records per omega are random and independent of the rows.
    """
    numbers = rng.multinomial(rows, np.full(len(drawn), 1 / len(drawn))).tolist()
    wanted = {model.order[: len(model.domain) - omega]: n for omega, n in zip(drawn, numbers, strict=True) if n}
    seeded = {kept: n for kept, n in wanted.items() if kept}
    with report_stage(listener, "test seeds", len(seeded)) as work:
        if isinstance(test, PlausibleTest):
            prefixes = {kept: SeedQueries.of(curator).deniable_release(kept, test, n) for kept, n in seeded.items()}
        else:
            prefixes = _release_kept_attributes(curator, model, seeded, test, served, rng)
        work.advance(len(prefixes))
    pieces = []
    for kept, n in wanted.items():
        found = prefixes.get(kept)
        known = {} if found is None else dict(zip(kept, found.columns, strict=True))
        pieces.append(model.complete(known, n, rng, listener))
    # As in the ledger: if by chance all records are sampled completely, no seed is queried and none has to be deniable.
    return SeededModel(Records.concatenate(pieces), deniable=bool(prefixes) and isinstance(test, PlausibleTest))


def grow_by_classes(
    curator: Curator,
    model: BayesNet,
    drawn: Sequence[int],
    rows: int,
    test: PlausibleTest,
    rng: np.random.Generator,
    listener: Listener,
) -> SeededModel:
    """Try one seed per record with a secret omega; sample the records that did not pass completely from the model.

    The test uses the paper's likelihood classes (`weft.privacy.deniability`): a row that shares more with a record is a
    likelier seed, and gamma bounds the likelihood ratio of seeds that are plausible for the same record.
    """
    with report_stage(listener, "test seeds", 1) as work:
        grown = SeedQueries.of(curator).plausible_release(RandomOmega(model, drawn), test, rows)
        work.advance()
    left = rows - (0 if grown is None else len(grown))
    pieces = [model.sample(left, rng, listener)] if left else []
    if grown is not None:
        pieces.append(Records.of(model.domain, [grown.column(name) for name in model.domain]))
    made = Records.concatenate(pieces)
    order = rng.permutation(rows)
    # As in the ledger, even if none passed: that too depends on the rows without noise.
    return SeededModel(Records.of(model.domain, [column[order] for column in made.columns]), deniable=True)


def _release_kept_attributes(
    curator: Curator,
    model: BayesNet,
    wanted: Mapping[Kept, int],
    given: Acceptance | None,
    served: float,
    rng: np.random.Generator,
) -> dict[Kept, Records | None]:
    """Release the kept attributes of rows that passed the test; None where the budget is too small.

    Privacy: each omega has an equal part of budget and slack, and the releases compose given the numbers of records per
    omega, which are independent of the rows.
    """
    parts = len(wanted) or 1
    look, slack = LOOK * curator.left / parts, curator.slack(SLACK) / parts
    share = curator.left_with(parts * slack) / parts - look
    prefixes: dict[Kept, Records | None] = {}
    if given is None:
        # The test is chosen on counts sampled from the model, not on the rows, so it is not charged.
        expected = model.sample(min(round(model.total * served), MAX_RECORDS), rng)
    for kept, n in wanted.items():
        test = given
        if test is None:
            _, counts = np.unique(np.column_stack([expected.column(name) for name in kept]), axis=0, return_counts=True)
            test = plan_deniability(math.sqrt(2 * curator.rho(share)), n, counts, slack / 2)
        prefixes[kept] = (
            None
            if test is None
            else SeedQueries.of(curator).seeded_release(kept, test, n, look=look, share=share, slack=slack)
        )
    return prefixes
