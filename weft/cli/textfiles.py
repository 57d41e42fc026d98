"""The options that say how a file is written, shared by every command that reads a private table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weft.reading.dialect import Dialect

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

_SPELLED = {"tab": "\t", r"\t": "\t", "comma": ",", "semicolon": ";", "space": " ", "pipe": "|"}


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
        from weft.reading.dialect import Dialect, markers_of

        return Dialect(
            separator=None if self.separator is None else _SPELLED.get(self.separator, self.separator),
            encoding=self.encoding or "utf-8",
            decimal=self.decimal or ".",
            quote='"' if self.quote is None else "" if self.quote == "none" else self.quote,
            header=self.header,
            missing=markers_of(self.missing),
            sheet=self.sheet,
        )
