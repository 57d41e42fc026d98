"""The options that several commands share, each described once."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from weft.cli.terminal import Terminal
from weft.errors import ModelFileError, WeftError

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
Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="COLUMN",
        help="Without a schema: the column that tells whose row it is, where a person may have several.",
        rich_help_panel=PRIVACY,
    ),
]
OneRow = Annotated[
    bool,
    typer.Option(
        "--one-row-per-person",
        metavar="",
        help="Without a schema: every row is another person's.",
        rich_help_panel=PRIVACY,
    ),
]
RowsPerUnit = Annotated[
    int | None,
    typer.Option(
        "--rows-per-unit",
        min=1,
        metavar="N",
        help="With --unit: rows of one person that are used, the rest is left out at random. Default: 5.",
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
        help="NAME.csv, .parquet, .csv.gz, .tsv, .jsonl, .arrow or .xlsx, with a card; - for CSV to stdout, without "
        "one; a new table of a database, as in 'sqlite:made.db?table=stays'.",
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


@dataclass(frozen=True)
class Who:
    """Who is protected, as the command line says it where there is no schema."""

    unit: str | Literal[False] | None = None
    rows_per_unit: int | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """Return it as `Synthesizer.fit` takes it."""
        rows = {} if self.rows_per_unit is None else {"rows_per_unit": self.rows_per_unit}
        return {"unit": self.unit, **rows}


@dataclass(frozen=True, kw_only=True)
class Protected:
    """Whose rows they are, where no schema says it."""

    unit: Unit = None
    one_row_per_person: OneRow = False
    rows_per_unit: RowsPerUnit = None

    def who(self, schema: str | None) -> Who:
        """Return who is protected; refuse what contradicts itself, or a schema that says it already."""
        if self.unit is not None and self.one_row_per_person:
            raise UsageError("--unit and --one-row-per-person contradict one another: give one of them")
        if schema is not None and self != Protected():
            raise UsageError("with --schema, the schema says who is protected: set unit and rows_per_unit there")
        if self.rows_per_unit is not None and self.unit is None:
            raise UsageError("--rows-per-unit goes with --unit COLUMN")
        return Who(False if self.one_row_per_person else self.unit, self.rows_per_unit)
