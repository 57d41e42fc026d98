"""What a paper says of its own experiment: orderings, bounds and printed figures, as `papers.toml` has them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import combinations, product
from typing import Any, Literal

Kind = Literal["better", "close", "rises", "most", "least"]

_NEEDS: Mapping[Kind, frozenset[str]] = {
    "better": frozenset({"better", "worse"}),
    "close": frozenset({"close"}),
    "rises": frozenset({"rises"}),
    "most": frozenset({"line", "most"}),
    "least": frozenset({"line", "least"}),
}
"""By kind of statement, the keys that it is written with."""
_MAY = frozenset({"where", "measures", "tables", "from", "below", "overall"})


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a paper."""

    where: str
    """Section, figure or table, page where known; and what it says, in our words."""
    kind: Kind
    pairs: Sequence[tuple[str, str]]
    """Labels of two lines, the better one first. A statement of one line has it twice."""
    measures: Sequence[str] | None = None
    """Figures that it is about; None: all that depend on the line."""
    tables: Sequence[str] | None = None
    """Tables of the paper that it is about; None: all."""
    least_epsilon: float = 0.0
    below_epsilon: float = float("inf")
    overall: bool = False
    """It is about the mean over budgets, not about each."""
    bound: float = 0.0
    """What a figure is at most, or at least."""

    @property
    def lines(self) -> set[str]:
        """The labels that it names."""
        return {line for pair in self.pairs for line in pair}

    def covers(self, epsilon: float) -> bool:
        """Whether it is about this budget."""
        return self.least_epsilon <= epsilon < self.below_epsilon


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Numbers that a paper prints."""

    where: str
    values: Mapping[tuple[str, str], float]
    """By line and measure, in our units."""

    @property
    def lines(self) -> list[str]:
        """The labels of its lines, in its order."""
        return list(dict.fromkeys(line for line, _ in self.values))


@dataclass(frozen=True, kw_only=True)
class Paper:
    """All that is known of one experiment as it was published."""

    on: str
    """The tables it was run on there."""
    tables: Sequence[str]
    """Of these, the names of those that can be had, or come nearest."""
    copies: Mapping[str, int] = field(default_factory=dict)
    """How often the rows of a table are copied, to have as many as the paper's; judged on their own."""
    missing: Sequence[str]
    """What of it is not run here, and why."""
    figures: Figures | None
    says: Sequence[Claim]
    why: str = ""
    """What we think of cells that disagree."""


@cache
def papers() -> Mapping[str, Paper]:
    """Return what is typed in from the papers, by the name of the experiment."""
    raw = tomllib.loads(files("weft_lab").joinpath("papers.toml").read_text(encoding="utf-8"))
    return {
        name: Paper(
            on=found["on"],
            tables=found["tables"],
            copies=found.get("copies", {}),
            missing=found.get("missing", ()),
            figures=_figures(found["figures"]) if "figures" in found else None,
            says=[_claim(said) for said in found.get("says", ())],
            why=found.get("why", ""),
        )
        for name, found in raw.items()
    }


def _figures(found: Mapping[str, Any]) -> Figures:
    values = {
        (line, measure): float(value)
        for line, printed in found.items()
        if line not in ("where", "measures")
        for measure, value in zip(found["measures"], printed, strict=True)
    }
    return Figures(where=found["where"], values=values)


def _claim(said: Mapping[str, Any]) -> Claim:
    """Read one statement.

    >>> made = _claim({"where": "p. 1", "better": ["a"], "worse": ["b", "c"], "below": 1.0})
    >>> made.pairs, made.covers(0.5), made.covers(1.0)
    ([('a', 'b'), ('a', 'c')], True, False)
    """
    kinds = [kind for kind, keys in _NEEDS.items() if keys <= set(said) <= keys | _MAY]
    if len(kinds) != 1:
        raise ValueError(f"papers.toml, {said.get('where', '(no where)')!r}: no kind of statement has these keys")
    kind = kinds[0]
    if kind == "better":
        pairs = list(product(said["better"], said["worse"]))
    elif kind == "close":
        pairs = list(combinations(said["close"], 2))
    else:
        pairs = [(line, line) for line in said.get("rises", [said.get("line")])]
    return Claim(
        where=said["where"],
        kind=kind,
        pairs=pairs,
        measures=said.get("measures"),
        tables=said.get("tables"),
        least_epsilon=said.get("from", 0.0),
        below_epsilon=said.get("below", float("inf")),
        overall=said.get("overall", False),
        bound=said.get(kind, 0.0) if kind in ("most", "least") else 0.0,
    )
