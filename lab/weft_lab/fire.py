"""The fire calls of NIST's challenge, all 32 columns: methods with a plan of marginals and without one (DPSyn, 5.3).

Density and range scores are the challenge's (section 5.1): 1 is perfect. Columns of times, places and numbers are asked
for intervals, all others for sets of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from time import perf_counter
from typing import Any

import pyarrow as pa

from weft.encoding import Codec
from weft.progress import Listener, ignore_event, report_stage
from weft.schema import Schema
from weft.synthesis.marginal_plan import MarginalPlan
from weft.synthesis.synthesizer import Synthesizer
from weft_lab.datasets import datasets
from weft_lab.nist_scores import nist_density, nist_range
from weft_lab.sheet import Sheet
from weft_lab.tables import ORDERED_WORDS, find, read

DELTA = 1e-11
EPSILONS = (0.1, 1.0, 10.0)
MOST_SECONDS = 90
LINES: Mapping[str, tuple[str, bool]] = {
    "dpsyn, plan": ("dpsyn", True),
    "weave, plan": ("weave", True),
    "privsyn, plan": ("privsyn", True),
    "weave": ("weave", False),
    "privsyn": ("privsyn", False),
    "mst": ("mst", False),
    "dpsyn, random views": ("dpsyn", False),
}
"""Each line: the method, and whether it is given the plan."""

WIDE = {"Box": 2089, "Address": 17704}
"""Numbers of values of the two columns that the coded table of the AIM paper leaves out (table 1 of DPSyn)."""


@dataclass(frozen=True)
class Scores:
    """What one run is worth."""

    density: float
    range: float
    seconds: float

    @property
    def mean(self) -> float:
        """The challenge's score of its second round: the mean of both."""
        return (self.density + self.range) / 2


def fire_plan(columns: Sequence[str] | None = None) -> MarginalPlan:
    """Return the plan of the laboratory, without what it says of columns that a table lacks."""
    text = files("weft_lab").joinpath("plans/fire.toml").read_text(encoding="utf-8")
    plan = MarginalPlan.from_toml(text, "fire.toml")
    return plan if columns is None else plan.without([name for name in WIDE if name not in columns])


def fire(
    epsilons: Sequence[float] = EPSILONS,
    lines: Sequence[str] = tuple(LINES),
    runs: int = 1,
    *,
    folder: str | None = None,
    listener: Listener = ignore_event,
) -> Iterator[Sheet]:
    """Yield one sheet for each budget."""
    rows = read(find("fire", folder))
    sizes = {**datasets()["fire"].sizes, **WIDE}
    schema = Schema.from_domain({name: sizes[name] for name in rows.column_names})
    plan = fire_plan(rows.column_names)
    with report_stage(listener, "run", len(epsilons) * len(lines) * runs) as work:
        for epsilon in epsilons:
            found: dict[str, list[Scores]] = {}
            for line in lines:
                for _ in range(runs):
                    method, planned = LINES[line]
                    found.setdefault(line, []).append(
                        score(rows, schema, method, epsilon, {"marginals": plan} if planned else {})
                    )
                    work.advance(note=f"epsilon {epsilon:g}, {line}")
            yield _sheet(epsilon, len(rows.column_names), found)


def score(rows: pa.Table, schema: Schema, method: str, epsilon: float, options: Mapping[str, Any]) -> Scores:
    """Run a method once, from table to table, and score it."""
    begin = perf_counter()
    made = Synthesizer(epsilon, DELTA, method=method, journal=None, **options).fit(rows, schema).sample()
    seconds = perf_counter() - begin
    codec = Codec(schema, rows.schema)
    real, synth = codec.encode(rows), codec.encode(made)
    ordered = [name for name in real.domain if any(word in name for word in ORDERED_WORDS["fire"])]
    return Scores(nist_density(real, synth), nist_range(real, synth, ordered=ordered), seconds)


def _sheet(epsilon: float, columns: int, found: Mapping[str, Sequence[Scores]]) -> Sheet:
    means = {
        line: [sum(getattr(s, key) for s in made) / len(made) for key in ("density", "range", "mean", "seconds")]
        for line, made in found.items()
    }
    rows = [[line, *(f"{value:.4f}" for value in each[:3]), f"{each[3]:.0f}"] for line, each in means.items()]
    best = {
        planned: max((each[2], line) for line, each in means.items() if LINES[line][1] is planned)
        for planned in {LINES[line][1] for line in means}
    }
    notes = []
    if len(best) == 2:
        ahead = "above" if best[True][0] > best[False][0] else "NOT above"
        notes.append(f"The best with the plan ({best[True][1]}) is {ahead} the best without ({best[False][1]}).")
    slow = [line for line, each in means.items() if each[3] > MOST_SECONDS]
    notes.append(f"Over {MOST_SECONDS} seconds: {', '.join(slow)}." if slow else f"Each under {MOST_SECONDS} seconds.")
    title = f"fire, {columns} columns, epsilon {epsilon:g}, delta {DELTA:g}"
    return Sheet(title, ("", "density", "range", "mean", "seconds"), rows, notes)
