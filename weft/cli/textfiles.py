"""The options that say how a text file is written, shared by every command that reads a private table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weft.reading.dialect import Dialect

TEXT = "Text files"

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

_SPELLED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


def dialect_of(
    separator: str | None,
    encoding: str | None,
    decimal: str | None,
    quote: str | None,
    header: bool | None,
    missing: list[str] | None,
) -> Dialect:
    """Return the dialect that options of a command declare."""
    from weft.reading.dialect import Dialect, markers_of

    return Dialect(
        separator=None if separator is None else _SPELLED.get(separator, separator),
        encoding=encoding or "utf-8",
        decimal=decimal or ".",
        quote='"' if quote is None else "" if quote == "none" else quote,
        header=header,
        missing=markers_of(missing),
    )
