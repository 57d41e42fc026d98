"""The options that several commands share, each described once."""

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
        help="The private table: CSV, Parquet, Excel and other files (docs/files.md), several of them, a folder, - for "
        "CSV from stdin, or a table of a database, as in 'duckdb:h.duckdb?table=stays' or "
        "'postgresql://host/db?table=stays'.",
    ),
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema",
        "-s",
        metavar="FILE",
        help="What is publicly known of the columns: TOML, or domain JSON. What it leaves out is found privately.",
    ),
]
Epsilon = Annotated[
    float,
    typer.Option("--epsilon", "-e", help="Privacy loss that the run may cost; 1 is strong.", rich_help_panel=PRIVACY),
]
Delta = Annotated[
    float,
    typer.Option(
        help="Chance that the epsilon bound fails; below one in the number of people.", rich_help_panel=PRIVACY
    ),
]
Neighbours = Annotated[
    Literal["add-remove", "replace-one"],
    typer.Option(
        metavar="WHICH",
        help="What is hidden: that somebody is in the table (add-remove), or what they are like (replace-one).",
        rich_help_panel=PRIVACY,
    ),
]
TrustDataForSchema = Annotated[
    bool,
    typer.Option(
        "--trust-data-for-schema",
        metavar="",
        help="Accept a schema with facts read from the private table; stamped on everything released.",
        rich_help_panel=PRIVACY,
    ),
]
Discover = Annotated[
    float,
    typer.Option(
        "--discover",
        metavar="SHARE",
        help="Share of the budget for finding privately what no schema states; 0 refuses to look.",
        rich_help_panel=PRIVACY,
    ),
]
FewRows = Annotated[
    bool,
    typer.Option(
        "--few-rows",
        metavar="",
        help="Go on where the table has too few rows for what is to be found in it at this budget.",
        rich_help_panel=PRIVACY,
    ),
]
NoiseSeed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="K",
        help="For tests only: repeatable noise. Everything is stamped NOT PRIVATE.",
        rich_help_panel=PRIVACY,
    ),
]
Method = Annotated[
    str | None, typer.Option("--method", "-m", metavar="NAME", help="The recipe; `weft methods` lists them.")
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="An option of the method; may be given several times. `weft methods NAME` explains them.",
    ),
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        metavar="NAME",
        help="paper: the method as published, where it has a paper; --option still wins. `weft methods NAME` has both.",
    ),
]
Marginals = Annotated[
    str | None,
    typer.Option(
        "--marginals",
        metavar="FILE",
        help="A plan of marginals to measure, and of what is known of the columns: TOML (docs/marginals.md).",
    ),
]
Public = Annotated[
    str | None,
    typer.Option(
        "--public",
        metavar="TABLE",
        help="A table of the same columns that anybody may see: what it says of how columns are related is used where "
        "private answers say that it is near (docs/public.md). Its rows are not protected.",
    ),
]
Rows = Annotated[
    int | None,
    typer.Option("--rows", "-n", min=0, metavar="N", help="Rows to make. Default: the noisy number of private rows."),
]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0, metavar="K", help="Repeatable sampling after the noise. Harmless to privacy.", rich_help_panel=RUN
    ),
]
Engine = Annotated[
    Literal["auto", "memory", "stream"],
    typer.Option(help="Where the rows are held while they are counted.", rich_help_panel=RUN),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="How much memory may be taken, as in 4GB: planned before anything is spent.",
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
        "without one; a new table of a database, as in 'sqlite:made.db?table=stays'.",
        rich_help_panel=OUTPUT,
    ),
]
Formulas = Annotated[
    Literal["keep", "escape"],
    typer.Option(
        help="CSV text that a spreadsheet would run (=...): keep it as it is, or escape it with an apostrophe.",
        rich_help_panel=OUTPUT,
    ),
]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure",
        metavar="",
        help="Accept an epsilon above 20, for rows that are public; stamped on everything released.",
        rich_help_panel=PRIVACY,
    ),
]
Journal = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Where spending is written down before the rows are asked. Default: beside the output.",
        rich_help_panel=OUTPUT,
    ),
]
LifetimeBudget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="FILE",
        help="The table's lifetime budget, which all runs on it draw from; `weft budget create` makes one.",
        rich_help_panel=PRIVACY,
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", metavar="", help="One JSON object on stdout, for machines.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", metavar="", help="No progress, no summary; warnings remain.", rich_help_panel=OUTPUT),
]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", metavar="", help="Show every question and its noise, too.", rich_help_panel=OUTPUT),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        metavar="",
        envvar="WEFT_DEBUG",
        help="Show the traceback of a bug. It may quote private values: do not pass it on.",
        rich_help_panel=RUN,
    ),
]


class UsageError(WeftError):
    """The command line itself is wrong."""

    exit_code = 2


_ZIP = b"PK"  # how every model file begins
_SPELLED: dict[str, bool | None] = {"none": None, "null": None, "true": True, "false": False}


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """Read `key=value` pairs; values are JSON where they can be, or as Python spells them, else plain text.

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
            raise UsageError(f"--option {key}: no option is nested so deep") from None
        except ValueError:
            options[key] = _SPELLED.get(value.lower(), value)
    return options


def with_preset(options: dict[str, Any], preset: str | None) -> dict[str, Any]:
    """Return the options with a preset among them, where one is named."""
    if preset is None:
        return options
    if "preset" in options:
        raise UsageError("--preset and --option preset: give one of them")
    return {"preset": preset, **options}


def with_plan(options: dict[str, Any], marginals: str | None) -> dict[str, Any]:
    """Return the options with a plan of marginals among them, where one is named."""
    if marginals is None:
        return options
    if "marginals" in options:
        raise UsageError("--marginals and --option marginals: give one of them")
    return options | {"marginals": Path(marginals)}


def with_public(options: dict[str, Any], public: str | None) -> dict[str, Any]:
    """Return the options with a public table among them, where one is named."""
    if public is None:
        return options
    if not public or "public" in options:
        raise UsageError("--public names one table, and there is no --option public beside it")
    return options | {"public": public}


def check_model_file(path: Path, what: str = "not a model file") -> None:
    """Say plainly why a file cannot be a model, before anything tries to read it as one."""
    try:
        with path.open("rb") as file:
            start = file.read(len(_ZIP))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    if start != _ZIP:
        raise ModelFileError(f"{path}: {what}. `weft fit` makes a model, and so does `weft synth --model FILE`.")


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What a command shows, and how."""

    as_json: AsJson = False
    quiet: Quiet = False
    debug: Debug = False

    def terminal(self, *, data_on_stdout: bool = False) -> Terminal:
        """Return the terminal that the command's words go to."""
        return Terminal(self.as_json, self.quiet, self.debug, data_on_stdout)


# Sets of options: a dataclass whose fields are options, which a command takes as one parameter.

Flat = dict[str, inspect.Parameter]


def flatten_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with the options of its sets in the place of the sets."""
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
    assert not flat.keys() & more.keys(), "two sets of a command have an option of the same name"
    flat.update(more)


def _gather_options(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    if not is_dataclass(hint):
        return values[name]
    hints = get_type_hints(hint, include_extras=True)
    made: Any = hint
    return made(**{field.name: _gather_options(field.name, hints[field.name], values) for field in fields(hint)})


# The options that say how a file is written, shared by every command that reads a private table.

TEXT = "Text files"
WORKBOOKS = "Workbooks"

Separator = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="What stands between fields, such as ';' or tab. Default: a comma.", rich_help_panel=TEXT
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Such as latin-1, cp1252 or utf-16. Default: utf-8.", rich_help_panel=TEXT),
]
Decimal = Annotated[
    str | None,
    typer.Option(metavar="SIGN", help="The decimal mark, a point or a comma. Default: a point.", rich_help_panel=TEXT),
]
Quote = Annotated[
    str | None,
    typer.Option(
        metavar="SIGN", help="What stands around fields, or none. Default: double quotes.", rich_help_panel=TEXT
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        metavar="",
        help="Whether the first line names the columns; if not, they are the schema's in its order.",
        show_default=False,
        rich_help_panel=TEXT,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MARKER",
        help="What stands for a missing value in every column, such as NA or -9; several with commas, or one by one.",
        rich_help_panel=TEXT,
    ),
]

Sheet = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The sheet that is read: its name, or its place counted from 1. Default: the first.",
        rich_help_panel=WORKBOOKS,
    ),
]

_SEPARATORS = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """How a file is written, as a command is told it."""

    separator: Separator = None
    encoding: Encoding = None
    decimal: Decimal = None
    quote: Quote = None
    header: Header = None
    missing: Missing = None
    sheet: Sheet = None

    @property
    def dialect(self) -> Dialect:
        """Return the dialect that the options declare."""
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
