"""How results look in a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weft.words import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.privacy import Ledger
    from weft.release.modelfile import Fitted
    from weft.schema import Schema


WHOLE = 0.9999
"""Share of a budget past which it counts as used up."""


def headline(text: str) -> RenderableType:
    """Say that it is done."""
    return Padding(Text.assemble(("✓ ", "bold green"), (text, "bold")), (1, 0, 0, 0), expand=False)


def stamps(texts: Iterable[str]) -> list[RenderableType]:
    """Show warnings that go with a release so that nobody can miss them."""
    return [
        Padding(Panel(Text(text, style="bold red"), border_style="red", box=box.HEAVY), (1, 0, 0, 0), expand=False)
        for text in texts
    ]


def facts(rows: Mapping[str, str]) -> RenderableType:
    """Show a few named facts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, fact in rows.items():
        table.add_row(name, Text(fact))
    return Padding(table, (1, 0, 0, 2), expand=False)


def spending(fitted: Fitted) -> dict[str, str]:
    """Say in words who is protected, what was spent and on what, and what that means."""
    from weft.release.statement import lifetime, meaning, seeds

    ledger = fitted.ledger
    grown = seeds(fitted)
    on = purposes(ledger)
    return {
        "protected": protected(ledger, fitted.schema.unit),
        "spent": spent(ledger) + (f": {on}" if on else ""),
        **({"seeds": grown} if grown else {}),
        "meaning": meaning(fitted),
        "lifetime": lifetime(ledger.lifetime),
    }


def protected(ledger: Ledger, unit: str | None) -> str:
    """Say who is protected."""
    hidden = "whether it is there" if ledger.adjacency.relation == "add-remove" else "what it says"
    if unit is None:
        return f"each row of the private table: {hidden}"
    rows = ledger.adjacency.rows_per_unit
    used = "the one row" if rows == 1 else f"at most {rows} rows"
    return f'everything of one "{unit}", of which {used} used: {hidden}'


PURPOSES = {
    "discovery": "finding out what the columns hold",
    "units": "how many rows people have",
    "total": "the number of rows",
    "marginals": "counts of columns, alone and together",
    "scores": "choosing what to count",
    "dependence": "choosing what to count",
    "choice": "choosing what to count",
    "seeds": "seeds",
    "": "other questions",
}
"""What answers are for, in the words of somebody who has to sign for them."""


def purposes(ledger: Ledger) -> str:
    """Say what the budget went to, the largest part first."""
    if ledger.deniable or ledger.parts:
        return ""
    shares: dict[str, float] = {}
    for entry in ledger.entries:
        words = PURPOSES["seeds"] if entry.mechanism == "seeded" else PURPOSES[entry.purpose]
        shares[words] = shares.get(words, 0.0) + entry.cost / ledger.to_dict()["capacity"]
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{share:.0%} on {words}" if share >= 0.005 else f"the rest on {words}" for words, share in ranked)


def points(fitted: Fitted) -> list[RenderableType]:
    """Show what the table is best and worst at."""
    from weft.report.points import points as of

    found = of(fitted)
    lines = [Text.assemble(("  + ", "bold green"), line) for line in found.best]
    lines += [Text.assemble(("  - ", "bold yellow"), line) for line in found.worst]
    return [heading("What to rely on, and what to be careful with"), *lines] if lines else []


def spent(ledger: Ledger) -> str:
    """Say what a ledger has spent of its budget."""
    from weft.privacy import at_most

    share = min(ledger.used, 1.0)
    part = "the whole budget" if share > WHOLE else f"{share:.1%} of the budget"
    if ledger.deniable:
        return f"{part}, all of it to learn the model; no epsilon holds for the records"
    if ledger.parts:
        part = f"{part}, on the part of the rows that was asked most"
    if share <= WHOLE:
        part = f"{part}; the guarantee is stated for all of it: {ledger.budget}"
    delta = "delta 0" if ledger.accounting == "pure" else f"delta {ledger.budget.delta:g}"
    return f"epsilon {at_most(ledger.spent_epsilon())} at {delta}, {part}"


def entries(ledger: Ledger) -> RenderableType:
    """Show what was asked of the rows, what each question cost, and what model, seeds and all together did."""
    from weft.release.statement import costs, priced

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("asked of the private rows")
    table.add_column("noise")
    table.add_column("share of budget", justify="right")
    for entry in ledger.entries:
        # Seeds are as private as a count with this much Gaussian noise; a coin costs nothing.
        noise = entry.noise.replace("seeded", "as if gaussian") if entry.mechanism == "seeded" else entry.noise
        table.add_row(escape(entry.question), noise, "" if entry.mechanism == "coins" else ledger.share(entry, 1))
    if not ledger.entries:
        table.add_row("nothing", "", "0.0%")
    table.add_section()
    for name, share in costs(ledger).items():
        table.add_row(name, "", priced(share), style="bold")
    return Padding(table, (1, 0, 0, 2), expand=False)


def known(schema: Schema, broken: Mapping[str, int]) -> list[RenderableType]:
    """Say what the schema knew of every row, and how many synthetic rows break it."""
    told = {}
    for column in schema.columns:
        after, formula = getattr(column, "after", None), getattr(column, "formula", None)
        if after is not None:
            told[column.name] = f"never before {after}: the difference is learned, not the column"
        elif formula is not None:
            told[column.name] = f"{formula}: computed, never measured"
    for rule, rows in broken.items():
        number, _, words = rule.partition(": ")
        told[number] = f"{words}: broken in {counted(rows, 'synthetic row')}"
    return [heading("What was known beforehand, at no cost"), facts(told)] if told else []


def relations(fitted: Fitted) -> list[RenderableType]:
    """Say if no relation between columns was learned, or some of a public table."""
    from weft.release import statement

    return [note(each) for each in statement.relations(fitted)]


def files(named: Mapping[Path, str] | Mapping[Path | str, str]) -> list[RenderableType]:
    """List files with what they are for."""
    if not named:
        return []
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(style="dim")
    for path, purpose in named.items():
        table.add_row(escape(str(path)), purpose)
    return [heading("Files"), Padding(table, (0, 0, 0, 2), expand=False)]


def note(text: str) -> RenderableType:
    """Show a paragraph."""
    return Padding(Text(text), (1, 0, 0, 2), expand=False)


def warnings(texts: Iterable[str]) -> list[RenderableType]:
    """Show what a person should think about."""
    return [
        Padding(Text.assemble(("! ", "bold yellow"), (text, "yellow")), (1, 0, 0, 0), expand=False) for text in texts
    ]


def heading(text: str) -> RenderableType:
    """Begin a part."""
    return Padding(Text(text, style="bold"), (1, 0, 0, 0), expand=False)


def commands(*lines: str) -> RenderableType:
    """Show what one could run next."""
    return Text("\n".join(f"  {line}" for line in lines) + "\n", style="cyan")


def comparison(figures: Mapping[str, Sequence[float]], shares: Sequence[str]) -> RenderableType:
    """Set figures of the private table beside those of the synthetic one; `shares` are shown in per cent."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    table.add_column("private", justify="right")
    table.add_column("synthetic", justify="right")
    for name, pair in figures.items():
        shown = [f"{figure:.1%}" if name in shares else f"{figure:,.1f}" for figure in pair]
        table.add_row(name, *shown)
    return Padding(table, (0, 0, 0, 2), expand=False)
