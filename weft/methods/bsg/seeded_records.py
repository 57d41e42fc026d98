"""Records grown from seeds: the first attributes of private rows that passed a privacy test, completed by a model.

The model must be a network (`weft.models.bayesnet`), whose order says which attributes come first. What a record
keeps is released by the curator before the model sees it.
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
from weft.models.bayesnet import BayesNet, Family
from weft.privacy.deniability import Acceptance, PlausibleTest, plan_deniability
from weft.progress import Listener, ignore_event, report_stage

# Records that seeds were asked for, released: they are what was paid for, and there are no more of them.


@dataclass(frozen=True)
class SeededModel:
    """A fixed set of released records. They are handed out as they are, in a random order, at most all of them."""

    kind: ClassVar[str] = "seeded"
    fixed_records: ClassVar[bool] = True
    relates_columns: ClassVar[bool] = True

    records: Records
    deniable: bool = False
    """Whether these records are plausible to deny and no more: NOT differentially private."""

    @property
    def domain(self) -> Domain:
        """The attributes of the records."""
        return self.records.domain

    @property
    def total(self) -> float:
        """The number of records: as many as were asked for, which tells nothing of the table."""
        return float(len(self.records))

    def marginal(self, columns: Sequence[str]) -> Array:
        """Return the records' own counts."""
        (table,) = count_marginals(self.records, [make_clique(columns)])
        return table.astype(np.float64)

    def sample(self, n: int, rng: np.random.Generator, listener: Listener = ignore_event) -> Records:
        """Hand out n of the records."""
        if n > len(self.records):
            raise MethodError(
                f"there are {len(self.records):,} records, as many as were asked for when the model was fitted, and no "
                "more: ask for at most so many, fit again with a larger --rows (in Python, rows), or leave out omega, "
                "which draws as many as are wanted"
            )
        return self.records.take(rng.permutation(len(self.records))[:n])

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the columns."""
        meta = {"guarantee": "plausible deniability, not differential privacy"} if self.deniable else {}
        return meta, {f"column-{i}": column for i, column in enumerate(self.records.columns)}

    @classmethod
    def from_arrays(cls, domain: Domain, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Rebuild from the columns; codes outside the domain are refused."""
        try:
            columns = tuple(arrays[f"column-{i}"] for i in range(len(domain)))
            if any(
                column.ndim != 1 or column.dtype != code_dtype(size) or int(column.max(initial=0)) >= size
                for column, size in zip(columns, domain.shape, strict=True)
            ):
                raise ValueError("a column does not fit its attribute")
            if not len(columns[0]):
                raise ValueError("there are no records")
            return cls(Records(domain, columns), "guarantee" in meta)
        except (KeyError, ValueError) as error:
            raise ModelFileError(f"the model file's records are damaged ({error}); fit it again") from error


# Records grown from seeds with a number of drawn attributes that is not told: a model with a likelihood.


@dataclass(frozen=True)
class RandomOmega:
    """A network that completes seeds; rows and records have one column for each attribute of the network's order."""

    model: BayesNet
    omegas: Sequence[int]
    """Numbers of attributes that may be drawn."""

    @property
    def domain(self) -> Domain:
        """The attributes in the order in which they are kept and drawn."""
        return self.model.domain.project(self.model.order)

    def grow(self, seeds: Array, rng: np.random.Generator) -> Array:
        """Return a record for each seed, drawn independently."""
        records = np.array(seeds, np.int64)
        first = len(self.model.order) - rng.choice(np.asarray(self.omegas), len(records))
        for i, family in enumerate(self.model.families):
            ends = np.cumsum(family.table, axis=1)[self._group(family, records)]
            drawn = (ends < rng.random(len(records))[:, None] * ends[:, -1:]).sum(axis=1)
            records[:, i] = np.where(first <= i, drawn, records[:, i])
        return records

    def log_likelihood(self, records: Array, seeds: Array) -> Array:
        """Return the logarithm of each record's chance (lines) to come from each seed (columns)."""
        m = len(self.model.order)
        chances = [f.table[self._group(f, records), records[:, i]] for i, f in enumerate(self.model.families)]
        with np.errstate(divide="ignore"):
            # last[:, s]: the chance of all attributes from place s on, given those before.
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
        """Return the configuration of an attribute's parents in each record."""
        group = np.zeros(len(records), np.int64)
        for name in family.parents:
            codes = records[:, self.model.order.index(name)]
            seen = self.model.buckets[name][codes] if name in self.model.buckets else codes
            group = group * self.model.width(name) + seen
        return group


Kept = tuple[str, ...]
"""The attributes that a record has of its seed."""

MAX_RECORDS = 1_000_000
"""Most records grown from seeds in one fit: they are handed out as one block."""

LOOK = 0.05
"""Part of the seeds' budget that goes to a lower bound of how many seeds pass the test."""

SLACK = 0.1
"""Part of delta that pays for what the accounting of seeds leaves out."""


def parse_omegas(given: int | str | Sequence[int] | None, domain: Domain) -> list[int]:
    """Return the numbers of attributes that may be drawn; none if every record has all of them drawn.

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
            f"option omega: draw between 1 and {len(domain)} columns, a number or a range such as 1-{len(domain)}, "
            "or leave it out to draw all"
        )
    return [] if low == len(domain) else list(range(low, high + 1))


def check_split(split: Sequence[float] | None, grown: bool, published: Sequence[float]) -> None:
    """Refuse chances of rows to serve for seeds, structure and parameters that cannot be, or leave one without rows.

    Rows for seeds that nothing is grown from would serve nobody, so they are refused too; the published division is
    taken as it is, for whoever asks for the paper's settings alone has not asked for them.
    """
    if split is None:
        return
    if len(split) != 3 or not all(0 <= p < 1 for p in split) or not sum(split) <= 1 + 1e-9:
        raise MethodError(
            "option split: three chances, for seeds, structure and parameters, of at most 1 together, such as "
            "[0.5, 0.25, 0.25]"
        )
    idle = not grown and split[0] > 0 and tuple(split) != tuple(published)
    if not min(split[1:]) > 0 or (grown and not split[0] > 0) or idle:
        raise MethodError(
            "option split: structure and parameters need rows, and seeds need some exactly if omega is given"
        )


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
    """Grow records, each with one of these numbers of attributes drawn; where no seed can be had, with all of them.

    With an `Acceptance`, or None to choose one, the records are differentially private together; with a
    `PlausibleTest` each is deniable and no more. `served` is the share of the model's rows that are seeds. How many
    records have which number drawn is chance alone, and tells nothing of the rows.
    """
    numbers = rng.multinomial(rows, np.full(len(drawn), 1 / len(drawn))).tolist()
    wanted = {model.order[: len(model.domain) - omega]: n for omega, n in zip(drawn, numbers, strict=True) if n}
    seeded = {kept: n for kept, n in wanted.items() if kept}
    with report_stage(listener, "test seeds", len(seeded)) as work:
        if isinstance(test, PlausibleTest):
            prefixes = {kept: curator.deniable_release(kept, test, n) for kept, n in seeded.items()}
        else:
            prefixes = _release_kept_attributes(curator, model, seeded, test, served, rng)
        work.advance(len(prefixes))
    pieces = []
    for kept, n in wanted.items():
        found = prefixes.get(kept)
        known = {} if found is None else dict(zip(kept, found.columns, strict=True))
        pieces.append(model.complete(known, n, rng, listener))
    # As the ledger has it: where chance had every record drawn whole, no seed was asked and nothing has to be denied.
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
    """Try once for each record, with a number of drawn attributes that is not told; draw whole what did not pass.

    The test is the paper's by classes of likelihood (`weft.privacy.deniability`): a row that shares more of a record is
    a likelier seed of it, and gamma says how much likelier one may be and still vouch for another.
    """
    with report_stage(listener, "test seeds", 1) as work:
        grown = curator.plausible_release(RandomOmega(model, drawn), test, rows)
        work.advance()
    left = rows - (0 if grown is None else len(grown))
    pieces = [model.sample(left, rng, listener)] if left else []
    if grown is not None:
        pieces.append(Records.of(model.domain, [grown.column(name) for name in model.domain]))
    made = Records.concatenate(pieces)
    order = rng.permutation(rows)
    # As the ledger has it, also where none passed: that is told by the rows, without noise.
    return SeededModel(Records.of(model.domain, [column[order] for column in made.columns]), deniable=True)


def _release_kept_attributes(
    curator: Curator,
    model: BayesNet,
    wanted: Mapping[Kept, int],
    given: Acceptance | None,
    served: float,
    rng: np.random.Generator,
) -> dict[Kept, Records | None]:
    """Release kept attributes of rows that passed, within the budget; None where that costs too much.

    Each omega has its own even part of budget and slack: given how many records it has, which is chance alone, the
    releases compose.
    """
    parts = len(wanted) or 1
    look, slack = LOOK * curator.left / parts, curator.slack(SLACK) / parts
    share = curator.left_with(parts * slack) / parts - look
    prefixes: dict[Kept, Records | None] = {}
    if given is None:
        # What the model expects, not the rows: choosing a test costs nothing.
        expected = model.sample(min(round(model.total * served), MAX_RECORDS), rng)
    for kept, n in wanted.items():
        test = given
        if test is None:
            _, counts = np.unique(np.column_stack([expected.column(name) for name in kept]), axis=0, return_counts=True)
            test = plan_deniability(math.sqrt(2 * curator.rho(share)), n, counts, slack / 2)
        prefixes[kept] = (
            None if test is None else curator.seeded_release(kept, test, n, look=look, share=share, slack=slack)
        )
    return prefixes
