"""The commands that the studio runs, as shown on its pages, and their equivalents in Python."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from weft.errors import WeftError
from weft.io.addresses import kind_of_address
from weft.schema import Schema
from weft.schema.database import Database
from weft.studio.workspace import LIFETIME, SCHEMA, Facts, Table

Words = tuple[str, ...]

SYNTHETIC, MODEL, PRIVATE_REPORT, PUBLIC_REPORT = "synthetic.csv", "model.weft", "report-PRIVATE.html", "report.html"
RELEASED, EVIDENCE, PRIVATE_PAGES = "released", "evidence", "report-PRIVATE"
RELATED_CARD, FOUND_WITH_TABLES = f"{RELEASED}/database.csv", f"{RELEASED}/database.schema.toml"
FOUND, FOUND_BY_RUN = "found.toml", "synthetic.schema.toml"
BUDGET = LIFETIME
HELPS = ("public", "marginals")
"""Files that improve a release: options of a run, and settings of the budget page."""


@dataclass(frozen=True)
class Spoken:
    """A step of the studio, as commands and in Python."""

    words: tuple[Words, ...]
    python: str = ""

    @property
    def commands(self) -> str:
        """The commands as typed in a shell, in the table's folder."""
        return "\n".join(shlex.join(("weft", *(word for word in each if word != "--json"))) for each in self.words)


def write_unit_options(facts: Facts) -> Words:
    """Return the options that declare the privacy unit."""
    if isinstance(facts.unit, str):
        return "--unit", facts.unit, "--rows-per-unit", str(facts.rows_per_unit)
    return ("--one-row-per-person",) if facts.unit is False else ()


def write_draft_command(table: Table) -> Spoken:
    """Return the command that drafts a schema from the rows."""
    words = "schema", "draft", table.facts.source, "-o", SCHEMA, "--force"
    return Spoken((words,), f"import weft\n\ndraft = weft.Schema.draft({table.facts.source!r})\n")


def write_discovery_command(table: Table, epsilon: float) -> Spoken:
    """Return the command that discovers a schema privately."""
    facts = table.facts
    price = "--private", "--epsilon", f"{epsilon:g}", "--delta", f"{facts.delta:g}"
    asked = (*price, *write_unit_options(facts), *_write_budget(facts))
    return Spoken((("schema", "draft", facts.source, *asked, "--few-rows", "-o", FOUND, "--force"),))


def write_plan_command(table: Table) -> Spoken:
    """Return the command that forecasts the error."""
    facts = table.facts
    words = "plan", SCHEMA, "--rows", str(facts.rows), "--epsilon", f"{facts.epsilon:g}", "--delta", f"{facts.delta:g}"
    python = (
        "from weft.evaluation.forecast import plan\n\n"
        f'plan("{SCHEMA}", rows={facts.rows}, epsilon={facts.epsilon:g}, delta={facts.delta:g}'
        f"{_include_if(facts.method != 'auto', f', method={facts.method!r}')})\n"
    )
    return Spoken(((*words, *_write_method(facts), "--json"),), python)


def write_synth_command(table: Table, number: str) -> Spoken:
    """Return the commands that create the synthetic tables and both editions of the report, if there is one."""
    facts, folder = table.facts, f"runs/{number}"
    made, model = f"{folder}/{RELEASED if facts.tables else SYNTHETIC}", f"{folder}/{MODEL}"
    words = "synth", facts.source, "--schema", SCHEMA, "--epsilon", f"{facts.epsilon:g}", "--delta", f"{facts.delta:g}"
    ordered = ("--time", facts.time) if facts.time else ()
    helped = [word for name in HELPS if (path := getattr(facts, name)) for word in (f"--{name}", path)]
    settings = (*ordered, *helped, *_write_method(facts), *_write_budget(facts), *_few_rows(table))
    run = (*words, *settings, "--model", model, "-o", made)
    time = _include_if(bool(facts.time), f", time={facts.time!r}")
    source = f"{{name: {facts.source!r} + f'/{{name}}.csv' for name in {list(facts.tables)}}}" if facts.tables else ""
    schema = f'weft.Database.load("{SCHEMA}")' if facts.tables else f'"{SCHEMA}"'
    python = (
        "import weft\n\n"
        f"synthesizer = weft.Synthesizer(epsilon={facts.epsilon:g}, delta={facts.delta:g}"
        f"{_include_if(facts.method != 'auto', f', method={facts.method!r}')}"
        f"{''.join(f', {name}={getattr(facts, name)!r}' for name in HELPS if getattr(facts, name))}"
        f"{_include_if(bool(facts.budget), f', budget_file={facts.budget!r}')})\n"
        f"synthesizer.fit({source or repr(facts.source)}, {schema}{time})\n"
        f"rows = synthesizer.sample()\n"
        f'synthesizer.save("{MODEL}")\n'
    )
    return Spoken(((*run, "--json"), *write_report_commands(table, number).words), python)


def write_report_commands(table: Table, number: str) -> Spoken:
    """Return the commands that make a run's reports, at no privacy cost: both editions, or the private one.

    Related tables and histories have a private report only, and none if they are in a database.
    """
    facts, folder = table.facts, f"runs/{number}"
    made, model = f"{folder}/{SYNTHETIC}", f"{folder}/{MODEL}"
    if table.released_apart:
        schema = f"{folder}/{FOUND_WITH_TABLES}" if _needs_discovery(table) else SCHEMA
        known = (f"{folder}/{RELEASED}", "--schema", schema) if facts.tables else (made, "--model", model)
        words = "report", facts.source, *known, "-o", f"{folder}/{PRIVATE_PAGES}", "--json"
        return Spoken(() if kind_of_address(facts.source) else (words,))
    public = "report", "--releasable", model, made, "-o", f"{folder}/{PUBLIC_REPORT}", "--json"
    private = "report", table.facts.source, made, "--model", model, "-o", f"{folder}/{PRIVATE_REPORT}", "--json"
    return Spoken((public, private))


def write_evidence_command(table: Table, number: str) -> Spoken:
    """Return the command that writes the evidence pack of a run, from its card."""
    folder = f"runs/{number}"
    made = RELEASED if table.facts.tables else SYNTHETIC
    return Spoken((("evidence", f"{folder}/{made}", "-o", f"{folder}/{EVIDENCE}", "--overwrite", "--json"),))


def write_query_command(number: str, columns: Sequence[str], where: Sequence[str]) -> Spoken:
    """Return the command that estimates counts by columns."""
    words = "query", "--json", *_write_conditions(where), "--", f"runs/{number}/{MODEL}", *columns
    asked = [*map(repr, columns), *([f"where={list(where)!r}"] if where else [])]
    python = f'import weft\n\nprint(weft.load("{MODEL}").query({", ".join(asked)}))\n'
    return Spoken((words,), python)


def write_sample_command(number: str, rows: int, where: Sequence[str], name: str) -> Spoken:
    """Return the command that samples more rows from a model."""
    model, made = f"runs/{number}/{MODEL}", f"runs/{number}/{name}"
    words = "sample", model, "-n", str(rows), *_write_conditions(where), "-o", made, "--json"
    python = (
        f'import weft\n\nweft.load("{MODEL}").sample({rows}{_include_if(bool(where), f", where={list(where)!r}")})\n'
    )
    return Spoken((words,), python)


def _few_rows(table: Table) -> Words:
    """Return --few-rows if discovery is needed: the budget page has already shown how many rows it needs."""
    return ("--few-rows",) if not table.facts.tables and _needs_discovery(table) else ()


def _needs_discovery(table: Table) -> bool:
    try:
        return bool((Database.load if table.facts.tables else Schema.load)(table.schema).incomplete)
    except WeftError:
        return False


def _write_conditions(conditions: Sequence[str]) -> Words:
    return tuple(f"--where={each}" for each in conditions)


def _write_method(facts: Facts) -> Words:
    return () if facts.method == "auto" else ("--method", facts.method)


def _write_budget(facts: Facts) -> Words:
    return ("--budget", facts.budget) if facts.budget else ()


def _include_if(holds: bool, text: str) -> str:
    return text if holds else ""
