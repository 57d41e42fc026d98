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


def panel_option(panel: str, text: str, *names: str, **more: Any) -> Any:
    """Return an option that the help of a command shows in a panel, with a text."""
    return typer.Option(*names, help=text, rich_help_panel=panel, **more)


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
    float, panel_option(PRIVACY, "Maximum privacy loss of the run; 1 is a strong guarantee.", "--epsilon", "-e")
]
Delta = Annotated[
    float, panel_option(PRIVACY, "Small probability added to the epsilon bound. Choose less than 1 / number of people.")
]
Neighbours = Annotated[
    Literal["add-remove", "replace-one"],
    panel_option(
        PRIVACY,
        "What is protected: whether a person is in the table (add-remove), or the person's values (replace-one).",
        metavar="WHICH",
    ),
]
TrustDataForSchema = Annotated[
    bool,
    panel_option(
        PRIVACY,
        "Accept a schema that contains facts read from the private table. Everything released is stamped with it.",
        "--trust-data-for-schema",
        metavar="",
    ),
]
Discover = Annotated[
    float,
    panel_option(
        PRIVACY,
        "Share of the budget for discovery: finding privately what no schema states, for example 0.2. 0 disables "
        "discovery.",
        "--discover",
        metavar="SHARE",
    ),
]
FewRows = Annotated[
    bool,
    panel_option(
        PRIVACY, "Continue even if the table has too few rows for discovery at this budget.", "--few-rows", metavar=""
    ),
]
NoiseSeed = Annotated[
    int | None,
    panel_option(
        PRIVACY,
        "For tests only: make the noise reproducible. Everything released is stamped NOT PRIVATE.",
        min=0,
        metavar="K",
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
    int | None, panel_option(RUN, "Make sampling reproducible. Noise and privacy are unaffected.", min=0, metavar="K")
]
Engine = Annotated[
    Literal["auto", "memory", "stream"], panel_option(RUN, "Hold the rows in memory, or stream them from the source.")
]
Memory = Annotated[
    str | None,
    panel_option(
        RUN,
        "Memory limit, for example 4GB. The memory plan is made before any budget is spent.",
        "--memory",
        metavar="SIZE",
    ),
]
Out = Annotated[
    str,
    panel_option(
        OUTPUT,
        "NAME.csv, .parquet, .csv.gz, .tsv, .jsonl, .arrow, .orc or .xlsx, with a card; - for CSV to stdout, "
        "without a card; or a new database table, for example 'sqlite:made.db?table=stays'.",
        "--output",
        "-o",
        metavar="FILE",
    ),
]
Formulas = Annotated[
    Literal["keep", "escape"],
    panel_option(
        OUTPUT, "CSV text that a spreadsheet would run as a formula (=...): keep it, or escape it with an apostrophe."
    ),
]
Insecure = Annotated[
    bool,
    panel_option(
        PRIVACY,
        "Accept an epsilon above 20, only for public rows. Everything released is stamped with it.",
        "--insecure",
        metavar="",
    ),
]
Journal = Annotated[
    str | None,
    panel_option(
        OUTPUT, "Write-ahead log of every charge. Default: NAME.ledger.jsonl, next to the output.", metavar="FILE"
    ),
]
LifetimeBudget = Annotated[
    str | None,
    panel_option(
        PRIVACY,
        "Lifetime budget of the table, shared by all runs on it. `weft budget create` creates one.",
        "--budget",
        metavar="FILE",
    ),
]
AsJson = Annotated[bool, panel_option(OUTPUT, "Print one JSON object to stdout, for scripts.", "--json", metavar="")]
Quiet = Annotated[
    bool, panel_option(OUTPUT, "Show no progress and no summary, only warnings.", "--quiet", "-q", metavar="")
]
Verbose = Annotated[bool, panel_option(OUTPUT, "Also show every query and its noise.", "--verbose", "-v", metavar="")]
Debug = Annotated[
    bool,
    panel_option(
        RUN,
        "Show the traceback of a bug. It may contain private values: do not share it.",
        "--debug",
        metavar="",
        envvar="WEFT_DEBUG",
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
    str | None, panel_option(TEXT, "Field separator, for example ';' or tab. Default: a comma.", metavar="SIGN")
]
Encoding = Annotated[
    str | None,
    panel_option(TEXT, "Character encoding, for example latin-1, cp1252 or utf-16. Default: utf-8.", metavar="NAME"),
]
Decimal = Annotated[
    str | None, panel_option(TEXT, "Decimal mark: a point or a comma. Default: a point.", metavar="SIGN")
]
Quote = Annotated[str | None, panel_option(TEXT, "Quote character, or none. Default: a double quote.", metavar="SIGN")]
Header = Annotated[
    bool | None,
    panel_option(
        TEXT,
        "Whether the first line names the columns. If not, the schema's names are used, in its order.",
        "--header/--no-header",
        metavar="",
        show_default=False,
    ),
]
Missing = Annotated[
    list[str] | None,
    panel_option(
        TEXT,
        "Marker of missing values in all columns, for example NA or -9. Separate several by commas, or repeat.",
        metavar="MARKER",
    ),
]

Sheet = Annotated[
    str | None,
    panel_option(
        WORKBOOKS, "Sheet to read: its name, or its position counted from 1. Default: the first.", metavar="NAME"
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
