"""Options that several commands share, and groups of options."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from weft.cli.terminal import Terminal
from weft.errors import ModelFileError, WeftError

if TYPE_CHECKING:
    from weft.io.dialect import Dialect


PRIVACY = "Privacy"
OUTPUT = "Output"
RUN = "Run"

Input = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="The private table: one or more files (CSV, Parquet, Excel and others: docs/files.md), a folder, - for "
        "CSV from stdin, or a database table, for example 'duckdb:h.duckdb?table=stays' or "
        "'postgresql://host/db?table=stays'.",
    ),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="Schema: public facts about the columns, as TOML or domain JSON. A fit discovers the rest privately.",
    ),
]
Epsilon = Annotated[
    float,
    typer.Option(
        "--epsilon", "-e", help="Maximum privacy loss of the run; 1 is a strong guarantee.", rich_help_panel=PRIVACY
    ),
]
Delta = Annotated[
    float,
    typer.Option(
        help="Probability that the epsilon bound fails. Choose less than 1 / number of people.", rich_help_panel=PRIVACY
    ),
]
Neighbours = Annotated[
    Literal["add-remove", "replace-one"],
    typer.Option(
        metavar="WHICH",
        help="What is protected: whether a person is in the table (add-remove), or the person's values (replace-one).",
        rich_help_panel=PRIVACY,
    ),
]
TrustDataForSchema = Annotated[
    bool,
    typer.Option(
        "--trust-data-for-schema",
        metavar="",
        help="Accept a schema that contains facts read from the private table. Everything released is stamped with it.",
        rich_help_panel=PRIVACY,
    ),
]
Discover = Annotated[
    float,
    typer.Option(
        "--discover",
        metavar="SHARE",
        help="Share of the budget for discovery: finding privately what no schema states, for example 0.2. 0 disables "
        "discovery.",
        rich_help_panel=PRIVACY,
    ),
]
FewRows = Annotated[
    bool,
    typer.Option(
        "--few-rows",
        metavar="",
        help="Continue even if the table has too few rows for discovery at this budget.",
        rich_help_panel=PRIVACY,
    ),
]
NoiseSeed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="K",
        help="For tests only: make the noise reproducible. Everything released is stamped NOT PRIVATE.",
        rich_help_panel=PRIVACY,
    ),
]
Method = Annotated[
    str | None, typer.Option("--method", "-m", metavar="NAME", help="Synthesis method; `weft methods` lists them.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="Option of the method, for example accounting=pure; repeatable. `weft methods NAME` explains them.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="paper: use the published settings of the method, if it has a paper. --option takes precedence. "
        "`weft methods NAME` shows both.",
    ),
]
Marginals = Annotated[
    str | None,
    typer.Option(
        "--marginals",
        metavar="FILE",
        help="Plan of marginals to measure and of public knowledge about the columns: TOML (docs/marginals.md).",
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="TABLE",
        help="Public table with the same columns, used as a prior for relations between columns where private "
        "measurements agree with it (docs/public.md). Its rows are not protected.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option(
        "--rows", "-n", min=0, metavar="N", help="Rows to generate. Default: the noisy number of private rows."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="K", help="Make sampling reproducible. Noise and privacy are unaffected.", rich_help_panel=RUN
    ),
]
Engine = Annotated[
    Literal["auto", "memory", "stream"],
    typer.Option(help="Hold the rows in memory, or stream them from the source.", rich_help_panel=RUN),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Memory limit, for example 4GB. The memory plan is made before any budget is spent.",
        rich_help_panel=RUN,
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="NAME.csv, .parquet, .csv.gz, .tsv, .jsonl, .arrow, .orc or .xlsx, with a card; - for CSV to stdout, "
        "without a card; or a new database table, for example 'sqlite:made.db?table=stays'.",
        rich_help_panel=OUTPUT,
    ),
]
Formulas = Annotated[
    Literal["keep", "escape"],
    typer.Option(
        help="CSV text that a spreadsheet would run as a formula (=...): keep it, or escape it with an apostrophe.",
        rich_help_panel=OUTPUT,
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        metavar="",
        help="Accept an epsilon above 20, only for public rows. Everything released is stamped with it.",
        rich_help_panel=PRIVACY,
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Write-ahead log of every charge. Default: NAME.ledger.jsonl, next to the output.",
        rich_help_panel=OUTPUT,
    ),
]
LifetimeBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="Lifetime budget of the table, shared by all runs on it. `weft budget create` creates one.",
        rich_help_panel=PRIVACY,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print one JSON object to stdout, for scripts.", rich_help_panel=OUTPUT),
]
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet", "-q", metavar="", help="Show no progress and no summary, only warnings.", rich_help_panel=OUTPUT
    ),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", metavar="", help="Also show every query and its noise.", rich_help_panel=OUTPUT),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        metavar="",
        envvar="WEFT_DEBUG",
        help="Show the traceback of a bug. It may contain private values: do not share it.",
        rich_help_panel=RUN,
    ),
]


class UsageError(WeftError):
    """The command line is invalid."""

    exit_code = 2


_ZIP = b"PK"  # first bytes of every model file
_SPELLED: dict[str, bool | None] = {"none": None, "null": None, "true": True, "false": False}


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """Parse `key=value` pairs; values are JSON, none/null/true/false in any case, or else plain text.

    >>> parse_options(["accounting=pure", "degree=3", "fast=True", "k=none"])
    {'accounting': 'pure', 'degree': 3, 'fast': True, 'k': None}
    """
    options = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.isidentifier():
            raise UsageError(f"--option {pair}: write it as KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except RecursionError:
            raise UsageError(f"--option {key}: the value is nested too deeply") from None
        except ValueError:
            options[key] = _SPELLED.get(value.lower(), value)
    return options


def with_preset(options: dict[str, Any], preset: str | None) -> dict[str, Any]:
    """Return the options with the preset added, if there is one."""
    if preset is None:
        return options
    if "preset" in options:
        raise UsageError("--preset and --option preset: give one of them")
    return {"preset": preset, **options}


def with_plan(options: dict[str, Any], marginals: str | None) -> dict[str, Any]:
    """Return the options with the plan of marginals added, if there is one."""
    if marginals is None:
        return options
    if "marginals" in options:
        raise UsageError("--marginals and --option marginals: give one of them")
    return options | {"marginals": Path(marginals)}


def with_public(options: dict[str, Any], public: str | None) -> dict[str, Any]:
    """Return the options with the public table added, if there is one."""
    if public is None:
        return options
    if not public or "public" in options:
        raise UsageError("--public names one table and cannot be combined with --option public: give one of them")
    return options | {"public": public}


def check_model_file(path: Path, what: str = "not a model file") -> None:
    """Raise ModelFileError if a file is unreadable or does not start like a model file."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    if start != _ZIP:
        raise ModelFileError(f"{path}: {what}. Create one with `weft fit` or `weft synth --model FILE`.")


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Options for what a command shows."""

    as_json: AsJson = False
    quiet: Quiet = False
    debug: Debug = False

    def terminal(self, *, data_on_stdout: bool = False) -> Terminal:
        """Return the terminal that the command prints to."""
        return Terminal(self.as_json, self.quiet, self.debug, data_on_stdout)


Flat = dict[str, inspect.Parameter]


def flatten_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with each option group (a dataclass whose fields are options) replaced by its options."""
    hints = get_type_hints(command, include_extras=True)
    flat: Flat = {}
    for name, parameter in inspect.signature(command).parameters.items():
        own = {name: _make_option(name, hints[name], parameter.default)}
        _add_options(flat, _spread_out(hints[name]) if is_dataclass(hints[name]) else own)

    @wraps(command)
    def run(**values: Any) -> None:
        command(**{name: _gather_options(name, hints[name], values) for name in hints if name != "return"})

    run.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return run


def _spread_out(options: Any) -> Flat:
    hints = get_type_hints(options, include_extras=True)
    flat: Flat = {}
    for field in fields(options):
        hint = hints[field.name]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        _add_options(
            flat, _spread_out(hint) if is_dataclass(hint) else {field.name: _make_option(field.name, hint, default)}
        )
    return flat


def _make_option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _add_options(flat: Flat, more: Flat) -> None:
    assert not flat.keys() & more.keys(), "two option groups of a command have an option of the same name"
    flat.update(more)


def _gather_options(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    if not is_dataclass(hint):
        return values[name]
    hints = get_type_hints(hint, include_extras=True)
    made: Any = hint
    return made(**{field.name: _gather_options(field.name, hints[field.name], values) for field in fields(hint)})


TEXT = "Text files"
WORKBOOKS = "Workbooks"

Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="Field separator, for example ';' or tab. Default: a comma.", rich_help_panel=TEXT
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Character encoding, for example latin-1, cp1252 or utf-16. Default: utf-8.",
        rich_help_panel=TEXT,
    ),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Decimal mark: a point or a comma. Default: a point.", rich_help_panel=TEXT),
]
Quote = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="Quote character, or none. Default: a double quote.", rich_help_panel=TEXT),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        metavar="",
        help="Whether the first line names the columns. If not, the schema's names are used, in its order.",
        show_default=False,
        rich_help_panel=TEXT,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MARKER",
        help="Marker of missing values in all columns, for example NA or -9. Separate several by commas, or repeat.",
        rich_help_panel=TEXT,
    ),
]

Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Sheet to read: its name, or its position counted from 1. Default: the first.",
        rich_help_panel=WORKBOOKS,
    ),
]

_SEPARATORS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """Options that describe the format of an input file."""

    separator: Separator = None
    encoding: Encoding = None
    decimal: Decimal = None
    quote: Quote = None
    header: Header = None
    missing: Missing = None
    sheet: Sheet = None

    @property
    def dialect(self) -> Dialect:
        """The dialect that the options declare."""
        from weft.io.dialect import Dialect, markers_of

        return Dialect(
            separator=None if self.separator is None else _SEPARATORS.get(self.separator, self.separator),
            encoding=self.encoding or "utf-8",
            decimal=self.decimal or ".",
            quote='"' if self.quote is None else "" if self.quote == "none" else self.quote,
            header=self.header,
            missing=markers_of(self.missing),
            sheet=self.sheet,
        )
