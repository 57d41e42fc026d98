"""The options that several commands share, each described once."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import typer

from weft.errors import WeftError

PRIVACY = "Privacy"
OUTPUT = "Output"
RUN = "Run"

Input = Annotated[
    str, typer.Argument(metavar="INPUT", help="The private table: a CSV or Parquet file, or a duckdb: source.")
]
SchemaFile = Annotated[
    str | None,
    typer.Option(
        "--schema", "-s", metavar="FILE", help="What is publicly known of the columns: TOML, or domain JSON. Needed."
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
        help="Accept a schema with facts read from the private table; stamped on everything released.",
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
Method = Annotated[str | None, typer.Option("--method", "-m", help="The recipe; `weft methods` lists them.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the method; may be given several times."),
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
Out = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE", help="NAME.csv or NAME.parquet; - for CSV to stdout.", rich_help_panel=OUTPUT
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
AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object on stdout, for machines.", rich_help_panel=OUTPUT)
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress, no summary; warnings remain.", rich_help_panel=OUTPUT)
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="WEFT_DEBUG",
        help="Show the traceback of a bug. It may quote private values: do not pass it on.",
        rich_help_panel=RUN,
    ),
]


class UsageError(WeftError):
    """The command line itself is wrong."""

    exit_code = 2


def parse_options(pairs: list[str] | None) -> dict[str, Any]:
    """Read `key=value` pairs; values are JSON where they can be, else plain text.

    >>> parse_options(["accounting=pure", "degree=3", "fast=true"])
    {'accounting': 'pure', 'degree': 3, 'fast': True}
    """
    options = {}
    for pair in pairs or []:
        key, separator, value = pair.partition("=")
        if not separator or not key.isidentifier():
            raise UsageError(f"--option {pair}: write it as KEY=VALUE")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    return options
