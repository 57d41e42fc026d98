"""From the options of `synth`, `fit` and `demo` to a fitted synthesizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from weft.cli import shared_options as o
from weft.cli.shared_options import PRIVACY, TextFile, UsageError, panel_option
from weft.cli.terminal import Terminal
from weft.errors import BudgetError
from weft.io.atomic_files import check_appendable, check_writable
from weft.io.formats import replace_ending
from weft.io.output_paths import JOURNAL_ENDING, Source, check_apart
from weft.progress import Listener, report_stage
from weft.synthesis.fit_request import FitRequest

if TYPE_CHECKING:
    from weft.synthesis.synthesizer import Synthesizer


Unit = Annotated[
    str | None,
    panel_option(
        PRIVACY,
        "Column that identifies the person, if a person may have several rows. Either this or "
        "--one-row-per-person is required if no schema states who is protected.",
        "--unit",
        metavar="COLUMN",
    ),
]
OneRow = Annotated[
    bool, panel_option(PRIVACY, "Every row belongs to a different person.", "--one-row-per-person", metavar="")
]
RowsPerUnit = Annotated[
    int | None,
    panel_option(
        PRIVACY,
        "With --unit: contribution bound, the maximum number of rows used per person. Further rows are left out "
        "at random. Default: chosen privately, from a noisy distribution of rows per person.",
        "--rows-per-unit",
        min=1,
        metavar="N",
    ),
]


Time = Annotated[
    str | None,
    panel_option(
        PRIVACY,
        "With --unit: column that orders the rows of a person in time, such as a year or a date. The rows are "
        "released as histories: constants stay constant, and consecutive rows depend on each other.",
        "--time",
        metavar="COLUMN",
    ),
]


Root = Annotated[
    str | None,
    panel_option(
        PRIVACY,
        "Of several related tables: the one whose key identifies the person. Its tables are found by the names of "
        "the files; what --key and --link do not state is discovered privately.",
        "--root",
        metavar="TABLE",
    ),
]
Keys = Annotated[
    list[str] | None, panel_option(PRIVACY, "With --root: key of a table. Repeat it.", "--key", metavar="TABLE.COLUMN")
]
Links = Annotated[
    list[str] | None,
    panel_option(
        PRIVACY,
        "With --root: foreign key of a table, to the root, or to another table as in drugs.stay=stays.stay. Repeat it.",
        "--link",
        metavar="TABLE.COLUMN",
    ),
]


@dataclass(frozen=True, kw_only=True)
class KeyOptions:
    """Options that state the keys of related tables if no schema does."""

    root: Root = None
    key: Keys = None
    link: Links = None

    def describe(self, source: list[str]) -> dict[str, Any]:
        """Return the schema of several tables that these options state."""
        if len(source) == 1 and Path(source[0]).is_dir():
            source = [str(path) for path in sorted(Path(source[0]).iterdir()) if path.is_file()]
        tables: dict[str, dict[str, Any]] = {Path(path).name.split(".")[0]: {} for path in source}
        for option, texts in (("--key", self.key), ("--link", self.link)):
            for text in texts or ():
                place, _, target = text.partition("=")
                table, dot, column = place.partition(".")
                if not dot or not column or table not in tables:
                    raise UsageError(f"{option} {text}: name a table and a column, such as {next(iter(tables))}.id")
                if option == "--key":
                    tables[table]["key"] = column
                else:
                    key = tables.get(str(self.root), {}).get("key")
                    tables[table].setdefault("foreign_keys", {})[column] = target or f"{self.root}.{key}"
        if self.root not in tables:
            raise UsageError(f"--root {self.root}: there is no file of this name among the tables")
        return {"root": self.root, "tables": tables}


@dataclass(frozen=True)
class DeclaredUnit:
    """Privacy unit and contribution bound from the command line."""

    unit: str | Literal[False] | None = None
    rows_per_unit: int | None = None


@dataclass(frozen=True, kw_only=True)
class PrivacyUnitOptions:
    """Options that declare the privacy unit if no schema does."""

    unit: Unit = None
    one_row_per_person: OneRow = False
    rows_per_unit: RowsPerUnit = None
    time: Time = None

    def who(self, schema: str | None) -> DeclaredUnit:
        """Return the privacy unit; raise UsageError if options contradict each other or the schema declares it."""
        if self.unit is not None and self.one_row_per_person:
            raise UsageError("--unit and --one-row-per-person contradict each other: give one of them")
        if schema is not None and replace(self, time=None) != PrivacyUnitOptions() and _describes_all(schema):
            raise UsageError("with --schema, the schema states who is protected: set unit and rows_per_unit there")
        if self.rows_per_unit is not None and self.unit is None:
            raise UsageError("--rows-per-unit requires --unit COLUMN")
        if self.time is not None and self.unit is None and schema is None:
            raise UsageError("--time requires --unit COLUMN")
        return DeclaredUnit(False if self.one_row_per_person else self.unit, self.rows_per_unit)


def _describes_all(schema: str) -> bool:
    """Whether a schema declares who is protected: by a unit, or by describing all columns without one."""
    from weft.schema import Schema
    from weft.synthesis.discovery import states_person

    return states_person(Schema.load(schema))


DEFAULT_METHOD = "auto"

MAX_INSECURE_EPSILON = 1000.0
"""Maximum epsilon for public rows, with --insecure."""

WHO_IS_PROTECTED = (
    "state who is protected: --unit COLUMN if a column identifies the person and a person may have several rows, or "
    "--one-row-per-person if every row belongs to a different person"
)

LARGE_EPSILON = 10.0
"""Above this epsilon the guarantee is weak, and a warning is shown."""


def check_request(request: FitRequest, terminal: Terminal, targets: Mapping[str, Path]) -> None:
    """Validate files and epsilon before anything is read or spent; warn of a weak guarantee.

    `targets` maps the role of each output file to its path.
    """
    plan = request.options.get("marginals")
    assert request.journal is not None
    inputs: dict[str, Source | None] = {
        "the private table": request.source,
        "the schema": Path(request.schema) if isinstance(request.schema, str) else None,
        "the lifetime budget": None if request.budget_file is None else Path(request.budget_file),
        "the public table": request.options.get("public") or None,
        "the plan of marginals": plan if isinstance(plan, Path) else None,
    }
    check_files(inputs, targets, {"the journal": Path(request.journal)})
    from weft.privacy.budget import MAX_EPSILON

    if request.epsilon > MAX_EPSILON and not (request.insecure and request.epsilon <= MAX_INSECURE_EPSILON):
        remedy = f"up to {MAX_INSECURE_EPSILON:g} with --insecure, if the rows are public"
        raise BudgetError(f"epsilon {request.epsilon:g} protects nobody: choose at most {MAX_EPSILON:g}, or {remedy}.")
    if request.epsilon > LARGE_EPSILON:
        from weft.privacy.conversions import format_odds_growth

        terminal.warn(
            f"epsilon {request.epsilon:g} is a weak guarantee: in the worst case, an attacker's odds of guessing right "
            f"about a person rise by a factor of e^{request.epsilon:g}, which is nearly "
            f"{format_odds_growth(request.epsilon)}. "
            "1 is strong; values up to 10 are in use."
        )


def fit_table(
    request: FitRequest, rows: int | None, listener: Listener, hold: Callable[[Synthesizer], None]
) -> Synthesizer:
    """Fit the table; `hold` receives the synthesizer before any budget is spent.

    `rows` is the number of rows to be sampled, for methods that need it before the fit.
    """
    request, synthesizer = prepare_fit(request, listener, rows)
    hold(synthesizer)
    return synthesizer.fit_request(request, listener=listener)


def prepare_fit(request: FitRequest, listener: Listener, rows: int | None = None) -> tuple[FitRequest, Synthesizer]:
    """Return the request with the options of its method, and an unfitted synthesizer with its settings."""
    with report_stage(listener, "load"):  # importing libraries takes a second or two
        from weft.methods import takes_option
        from weft.synthesis.synthesizer import Synthesizer

    for name in request.options:
        if name in Synthesizer().get_params():
            raise UsageError(f"--option {name}: this is not an option of a method. See `weft synth --help`.")
    if "rows" in request.options:
        raise UsageError("--option rows: use --rows N instead")
    synthesizer = Synthesizer.of_request(request)
    if rows is not None and takes_option(request.method, "rows"):
        synthesizer.set_params(rows=rows)
    return replace(request, options=synthesizer.options), synthesizer


def is_incomplete(request: FitRequest) -> bool:
    """Whether the schema leaves anything to discovery."""
    schema = request.read_schema() if request.schema is not None else None
    return schema is None or schema.incomplete


def ask_who_is_protected(request: FitRequest, terminal: Terminal) -> FitRequest:
    """Return the request with a privacy unit; ask the user if neither options nor schema declare one.

    Raises UsageError, before the table is read, if the terminal is not interactive.
    """
    if request.unit is not None or (request.schema is not None and _describes_all(str(request.schema))):
        return request
    if not terminal.asks:
        raise UsageError(WHO_IS_PROTECTED)
    from weft.synthesis.discovery import possible_units

    terminal.say("Who is protected? Weft needs to know which rows belong to the same person.")
    if likely := possible_units(request.source, *([] if request.dialect is None else [request.dialect])):
        told = ", ".join(f'"{name}"' for name in likely)
        terminal.say(f"PRIVATE hint from the rows: {told} may identify a person with several rows (likeliest first).")
    if said := terminal.prompt("Column that identifies the person (empty: every row belongs to a different person)"):
        return replace(request, unit=said)
    if terminal.confirm("Does every row belong to a different person?"):
        return replace(request, unit=False)
    raise UsageError(WHO_IS_PROTECTED)


def check_size(request: FitRequest, terminal: Terminal, *, few_rows: bool, share: float | None = None) -> None:
    """Ask the user, or refuse, before anything is spent, if a table has too few rows for discovery.

    `few_rows` skips the check. `share` replaces the request's share of the budget for discovery.
    """
    share = request.discover if share is None else share
    incomplete = is_incomplete(request)
    if few_rows and not incomplete:
        raise UsageError("--few-rows has no effect, since the schema states all columns: leave it out")
    if few_rows or not incomplete or not share or request.delta <= 0 or request.source == "-":
        return
    from weft.curator import PrivateTable
    from weft.errors import DataError
    from weft.io.dialect import DEFAULT_DIALECT
    from weft.privacy import Adjacency
    from weft.synthesis.discovery import rows_needed

    table = PrivateTable(request.source, dialect=request.dialect or DEFAULT_DIALECT)
    bound = (request.rows_per_unit or 1) if request.unit else 1
    columns = len(table.column_names())
    needed = rows_needed(columns, request.read_budget(), Adjacency(request.neighbours, bound), share)
    if table.has_rows(needed):
        return
    told = (
        f"the table has too few rows for discovery at epsilon {request.epsilon:g}: with {columns} columns, about "
        f'{needed:,} are needed to find a value that half of the rows have. Values that are not found become "other"'
    )
    if not terminal.asks:
        raise DataError(f"{told}. State the columns in a schema, raise epsilon, or pass --few-rows to continue")
    terminal.say(f"PRIVATE: {told}.")
    if not terminal.confirm("Spend the budget anyway?"):
        raise UsageError("cancelled by the user; nothing was spent")


@dataclass(frozen=True, kw_only=True)
class FitOptions:
    """Options of a command that fits a private table."""

    source: o.Input
    epsilon: o.Epsilon
    schema: o.SchemaFile = None
    delta: o.Delta = 1e-5
    method: o.Method = None
    preset: o.Preset = None
    option: o.Options = None
    marginals: o.Marginals = None
    public: o.Public = None
    neighbours: o.Neighbours = "add-remove"
    discover: o.Discover = 0.1
    protected: PrivacyUnitOptions
    keys: KeyOptions
    journal: o.Journal = None
    budget: o.LifetimeBudget = None
    seed: o.Seed = None
    noise_seed: o.NoiseSeed = None
    engine: o.Engine = "auto"
    memory: o.Memory = None
    text: TextFile
    trust_data_for_schema: o.TrustDataForSchema = False
    few_rows: o.FewRows = False
    insecure: o.Insecure = False

    def request(self, journal: Path) -> FitRequest:
        """Return the fit request, with each option parsed and validated."""
        source, who = one_or_several(self.source), self.protected.who(self.schema)
        if self.keys.root is None and (self.keys.key or self.keys.link):
            raise UsageError("--key and --link require --root TABLE")
        if self.keys.root is not None and self.schema is not None:
            raise UsageError("--root, --key and --link have no effect with --schema: state the keys there")
        return FitRequest(
            source=source,
            schema=self.schema if self.keys.root is None else self.keys.describe(self.source),
            unit=who.unit,
            rows_per_unit=who.rows_per_unit,
            time=self.protected.time,
            epsilon=self.epsilon,
            delta=self.delta,
            insecure=self.insecure,
            method=DEFAULT_METHOD if self.method is None else self.method,
            options=o.with_public(
                o.with_plan(o.with_preset(o.parse_options(self.option), self.preset), self.marginals), self.public
            ),
            neighbours=self.neighbours,
            discover=self.discover,
            trust_data_for_schema=self.trust_data_for_schema,
            engine=self.engine,
            memory=self.memory,
            dialect=self.text.dialect,
            journal=journal,
            budget_file=None if self.budget is None else Path(self.budget),
            checkpoint=None if source == "-" else checkpoint_beside(journal),
            seed=self.seed,
            noise_seed=self.noise_seed,
        )


def one_or_several(source: list[str]) -> str | list[str]:
    """Return the name of the table, or the list of files that together form it."""
    return source if len(source) > 1 else source[0]


def check_files(
    inputs: Mapping[str, Source | None], outputs: Mapping[str, Path], records: Mapping[str, Path] | None = None
) -> None:
    """Raise OutputError for outputs that cannot be written or would overwrite inputs or records (`check_apart`)."""
    check_apart(inputs, outputs, records)
    for target in outputs.values():
        check_writable(target)
    for record in (records or {}).values():
        check_appendable(record)


def checkpoint_beside(journal: Path) -> Path:
    """Return the base name of a run's checkpoint, next to its journal."""
    return journal.with_name(journal.name.removesuffix(JOURNAL_ENDING) + ".checkpoint")


def journal_beside(out: Path | None, asked: str | None) -> Path:
    """Return the path of the journal: as given, next to the output, or in the current folder."""
    if asked is not None:
        return Path(asked)
    if out is None or not out.name:  # a folder, which is refused later with a clearer message
        return Path(f"weft{JOURNAL_ENDING}")
    return replace_ending(out, JOURNAL_ENDING)


@dataclass(frozen=True, kw_only=True)
class Price:
    """Options of drafts, of schemas or plans of marginals, that query private rows for a price."""

    private: Annotated[
        bool,
        panel_option(o.PRIVACY, "Query the private table with noise, at a cost of --epsilon.", "--private", metavar=""),
    ] = False
    epsilon: Annotated[
        float | None, panel_option(o.PRIVACY, "With --private: maximum privacy loss.", "--epsilon", "-e")
    ] = None
    delta: o.Delta = 1e-5
    journal: o.Journal = None
    budget: o.LifetimeBudget = None

    def request(self, out: Path | None, **asked: Any) -> FitRequest:
        """Return a fit request with this budget; raise UsageError for missing options."""
        if not self.private or self.epsilon is None:
            raise o.UsageError("--private and --epsilon must be given together: queries on private rows spend budget")
        if out is None:
            raise o.UsageError("--private requires -o FILE, so that the paid result is not lost")
        return FitRequest(
            epsilon=self.epsilon,
            delta=self.delta,
            journal=journal_beside(out, self.journal),
            budget_file=None if self.budget is None else Path(self.budget),
            **asked,
        )
