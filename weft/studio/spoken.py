"""What a page does, said as a command and in Python: the same words that the studio itself runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from weft.studio.desk import LIFETIME, SCHEMA, Facts, Table

Words = tuple[str, ...]

SYNTHETIC, MODEL, PRIVATE_REPORT, PUBLIC_REPORT = "synthetic.csv", "model.weft", "report-PRIVATE.html", "report.html"
FOUND, FOUND_BY_RUN = "found.toml", "synthetic.schema.toml"
BUDGET = LIFETIME


@dataclass(frozen=True)
class Spoken:
    """One thing that is done: as commands, and in Python."""

    words: tuple[Words, ...]
    python: str = ""

    @property
    def commands(self) -> str:
        """The commands as a person types them, in the table's folder."""
        return "\n".join(shlex.join(("weft", *without_json(each))) for each in self.words)


def without_json(words: Sequence[str]) -> Words:
    """Return a command that answers a person."""
    return tuple(word for word in words if word != "--json")


def who(facts: Facts) -> Words:
    """Return who is protected, as options."""
    if isinstance(facts.unit, str):
        return "--unit", facts.unit, "--rows-per-unit", str(facts.rows_per_unit)
    return ("--one-row-per-person",) if facts.unit is False else ()


def draft(table: Table) -> Spoken:
    """Read a schema from the rows, for review."""
    words = "schema", "draft", table.facts.source, "-o", SCHEMA, "--force"
    return Spoken((words,), f"import weft\n\ndraft = weft.Schema.draft({table.facts.source!r})\n")


def find(table: Table, epsilon: float) -> Spoken:
    """Find a schema privately, for a price."""
    facts = table.facts
    price = "--private", "--epsilon", f"{epsilon:g}", "--delta", f"{facts.delta:g}"
    words = "schema", "draft", facts.source, *price, *who(facts), *_budget(facts), "-o", FOUND, "--force"
    return Spoken((words,))


def plan(table: Table) -> Spoken:
    """Say what a budget would give."""
    facts = table.facts
    words = "plan", SCHEMA, "--rows", str(facts.rows), "--epsilon", f"{facts.epsilon:g}", "--delta", f"{facts.delta:g}"
    python = (
        "from weft.planning import plan\n\n"
        f'plan("{SCHEMA}", rows={facts.rows}, epsilon={facts.epsilon:g}, delta={facts.delta:g}'
        f"{_if(facts.method != 'auto', f', method={facts.method!r}')})\n"
    )
    return Spoken(((*words, *_method(facts), "--json"),), python)


def synth(table: Table, number: str) -> Spoken:
    """Make the synthetic table, and both editions of its report."""
    facts, folder = table.facts, f"runs/{number}"
    made, model = f"{folder}/{SYNTHETIC}", f"{folder}/{MODEL}"
    words = "synth", facts.source, "--schema", SCHEMA, "--epsilon", f"{facts.epsilon:g}", "--delta", f"{facts.delta:g}"
    run = (*words, *_method(facts), *_budget(facts), "--model", model, "-o", made, "--json")
    private = "report", facts.source, made, "--model", model, "-o", f"{folder}/{PRIVATE_REPORT}", "--json"
    public = "report", "--releasable", model, made, "-o", f"{folder}/{PUBLIC_REPORT}", "--json"
    python = (
        "import weft\n\n"
        f"synthesizer = weft.Synthesizer(epsilon={facts.epsilon:g}, delta={facts.delta:g}"
        f"{_if(facts.method != 'auto', f', method={facts.method!r}')}"
        f"{_if(bool(facts.budget), f', budget_file={facts.budget!r}')})\n"
        f'synthesizer.fit({facts.source!r}, "{SCHEMA}")\n'
        f"rows = synthesizer.sample()\n"
        f'synthesizer.save("{MODEL}")\n'
    )
    return Spoken((run, public, private), python)


def query(number: str, columns: Sequence[str], where: Sequence[str]) -> Spoken:
    """Count rows by columns."""
    words = "query", "--json", *_where(where), "--", f"runs/{number}/{MODEL}", *columns
    asked = [*map(repr, columns), *([f"where={list(where)!r}"] if where else [])]
    python = f'import weft\n\nprint(weft.load("{MODEL}").query({", ".join(asked)}))\n'
    return Spoken((words,), python)


def more(number: str, rows: int, where: Sequence[str], name: str) -> Spoken:
    """Make more rows of a model."""
    words = "sample", f"runs/{number}/{MODEL}", "-n", str(rows), *_where(where), "-o", f"runs/{number}/{name}", "--json"
    python = f'import weft\n\nweft.load("{MODEL}").sample({rows}{_if(bool(where), f", where={list(where)!r}")})\n'
    return Spoken((words,), python)


def lifetime(table: Table, epsilon: float, delta: float) -> Spoken:
    """Make a lifetime budget."""
    words = "budget", "create", BUDGET, "--epsilon", f"{epsilon:g}", "--delta", f"{delta:g}"
    return Spoken(((*words, "--table", table.facts.name, "--json"),))


def _where(conditions: Sequence[str]) -> Words:
    return tuple(f"--where={each}" for each in conditions)


def _method(facts: Facts) -> Words:
    return () if facts.method == "auto" else ("--method", facts.method)


def _budget(facts: Facts) -> Words:
    return ("--budget", facts.budget) if facts.budget else ()


def _if(holds: bool, text: str) -> str:
    return text if holds else ""
