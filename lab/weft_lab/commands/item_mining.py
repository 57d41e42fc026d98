"""`weft itemsets`: the most frequent item sets in private baskets."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files, journal_beside
from weft.cli.output_files import Overwrite, confirm_overwrite
from weft.cli.shared_options import flatten_options
from weft.cli.terminal import Terminal
from weft.errors import OutputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.progress import Listener
    from weft_lab.baskets.basket_queries import BasketForm
    from weft_lab.privbasis import Found

SHOWN = 25
"""Maximum item sets on the screen if a file contains all of them."""

app = typer.Typer(add_completion=False)

HOLDS = "How the table stores baskets"


@dataclass(frozen=True, kw_only=True)
class Holding:
    """Options for how the table stores baskets."""

    column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Column of lists, one basket per row. Default: the only one.", rich_help_panel=HOLDS
        ),
    ] = None
    basket: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One item per row: the column of the basket.", rich_help_panel=HOLDS),
    ] = None
    item: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One item per row: the column of the item.", rich_help_panel=HOLDS),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="One yes/no column per item: their names, or all.", rich_help_panel=HOLDS),
    ] = None

    def form(self, table: str) -> BasketForm:
        """Return the basket form; raise MethodError if the options or the table do not fit."""
        from weft_lab.privbasis import form_of

        named = None if self.columns is None else [name for name in self.columns.split(",") if name]
        return form_of(table, self.column, self.basket, self.item, named)


@dataclass(frozen=True, kw_only=True)
class Spending:
    """Options for the budget and where charges are recorded."""

    epsilon: o.Epsilon = 1.0
    delta: o.Delta = 1e-5
    budget: o.LifetimeBudget = None
    journal: o.Journal = None
    noise_seed: o.NoiseSeed = None


@app.command()
@flatten_options
def itemsets(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The private baskets: CSV, Parquet or another file.")],
    top: Annotated[int, typer.Option("--top", metavar="N", help="Number of item sets to find.")] = 100,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", metavar="SHARE", help="Of these, sets in at least this share of the baskets."),
    ] = None,
    items: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="List of all possible items, one per line, if it is public. Saves budget."),
    ] = None,
    most_items: Annotated[
        int, typer.Option("--most-items", metavar="N", help="Maximum items used per basket, chosen at random.")
    ] = 20,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write all item sets as CSV.", rich_help_panel=o.OUTPUT),
    ] = None,
    overwrite: Overwrite = False,
    *,
    holding: Holding,
    spending: Spending,
    screen: o.Screen,
) -> None:
    """Find the most frequent item sets in private baskets, with standard errors.

    The privacy unit is one basket: whether it is in the table, and its items. A
    person with several baskets is protected less.

    \b
    [bold]Examples[/bold]
      weft itemsets baskets.parquet --epsilon 1 --top 100 -o sets.csv
      weft itemsets lines.csv --basket order --item product -e 1 -o sets.csv
      weft itemsets survey.csv --columns all -e 0.5 --top 20
    """
    terminal = screen.terminal()
    out = None if output is None else Path(output)
    record = journal_beside(out, spending.journal)
    with guard_command(terminal, record):
        if screen.quiet and not screen.as_json and out is None:
            raise o.UsageError("--quiet shows no result, so that the paid result would be lost: add -o FILE or --json")
        if table == "-":
            raise o.UsageError("baskets are read more than once, standard input only once: save them to a file")
        listing = None if items is None else Path(items)
        _check_files(table, listing, spending, out, record)
        confirm_overwrite(terminal, {} if out is None else {"the sets": out}, overwrite)
        with terminal.progress() as listener:
            found = _find_itemsets(
                table, holding.form(table), spending, record, (top, threshold, most_items), listing, listener
            )
        written = out if _write_itemsets(terminal, found, out) else None
        terminal.warn_stamps(found.ledger.stamps)
        files = [str(path) for path in (written, record) if path is not None]
        terminal.answer(found.to_dict() | {"files": files, "spent": str(found.ledger.spend_statement())})
        terminal.show(*_render_itemsets(found, written, record))


def _check_files(table: str, listing: Path | None, spending: Spending, out: Path | None, record: Path) -> None:
    inputs = {
        "the private table": table,
        "the list of items": listing,
        "the lifetime budget": None if spending.budget is None else Path(spending.budget),
    }
    check_files(inputs, {} if out is None else {"the sets": out}, {"the journal": record})


def _find_itemsets(
    table: str,
    form: BasketForm,
    spending: Spending,
    record: Path,
    sizes: tuple[int, float | None, int],
    listing: Path | None,
    listener: Listener,
) -> Found:
    from weft_lab.privbasis import find_itemsets

    top, threshold, most_items = sizes
    return find_itemsets(
        table,
        form,
        spending.epsilon,
        spending.delta,
        top=top,
        items=None if listing is None else _read_item_list(listing),
        most_items=most_items,
        threshold=threshold,
        journal=record,
        budget_file=spending.budget,
        noise_seed=spending.noise_seed,
        listener=listener,
    )


def _read_item_list(path: Path) -> list[str]:
    from weft.errors import DataError

    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{path}: cannot be read as a list of items; write one item per line, in UTF-8") from None


def _write_itemsets(terminal: Terminal, found: Found, out: Path | None) -> bool:
    """Write the item sets; if that fails, print them to stderr, since their budget is spent."""
    if out is None:
        return False
    from weft.io.atomic_files import stage_files

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    stamps = ["; ".join(found.ledger.stamps)] if found.ledger.stamps else []
    writer.writerow(["items", "size", "count", "standard_error", "share", *(["stamps"] if stamps else [])])
    for one in found.to_dict()["sets"]:
        numbers = [one["count"], one["standard_error"], one["share"]]
        writer.writerow(
            [" | ".join(one["items"]), len(one["items"]), *(f"{number:.6g}" for number in numbers), *stamps]
        )
    try:
        with stage_files(out) as (draft,):
            draft.write_text(text.getvalue(), encoding="utf-8")
    except (OSError, OutputError):
        terminal.warn(f"{out} could not be written: the item sets follow here, since their budget is spent")
        terminal.err.print(text.getvalue(), markup=False, soft_wrap=True)
        return False
    return True


def _render_itemsets(found: Found, out: Path | None, record: Path) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("items")
    for head in ("baskets", "±", "share"):
        grid.add_column(head, justify="right")
    total = max(found.baskets, 1.0)
    for one in found.sets[: SHOWN if out else None]:
        share = f"{min(one.count / total, 1.0):.1%}"
        grid.add_row(Text(", ".join(one.items)), f"{one.count:,.0f}", f"{one.standard_error:,.0f}", share)
    parts: list[RenderableType] = [Padding(Text(text, style="bold red"), 0) for text in found.ledger.stamps]
    parts.append(Text(f"About {max(found.baskets, 0.0):,.0f} baskets (± {found.baskets_error:,.0f})", style="bold"))
    if not found.sets:
        parts.append(Text("No item is frequent enough to exceed the noise: raise epsilon, or pass a list of --items."))
    parts += [grid, ""]
    if out is not None and len(found) > SHOWN:
        parts.append(Text(f"... and {len(found) - SHOWN} more in {out}"))
    meaning = (
        "± is the standard error of the noise. Item sets are ranked by noisy counts, so the last ones may rank above "
        "more frequent sets that are not shown. Of baskets above the item limit, only a random choice is counted."
    )
    parts += [Padding(Text(meaning), 0), Padding(Text(str(found.ledger.spend_statement())), 0)]
    free = "" if found.ledger.stamps else " May be released."
    return [*parts, Text(f"The privacy unit is one basket.{free} Journal of all charges (PRIVATE): {record}")]
