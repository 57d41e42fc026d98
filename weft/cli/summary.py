"""Terminal output of results."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.markup import escape
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from weft.display import format_count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.privacy import Ledger
    from weft.schema import Schema
    from weft.synthesis.fitted import Fitted


WHOLE = 0.9999
"""Share above which a budget counts as spent."""


def render_headline(text: str) -> RenderableType:
    """Show the result of a command in one line."""
    return Padding(Text.assemble(("✓ ", "bold green"), (text, "bold")), (1, 0, 0, 0), expand=False)


def render_stamps(texts: Iterable[str]) -> list[RenderableType]:
    """Show the warnings of a release prominently."""
    return [
        Padding(Panel(Text(text, style="bold red"), border_style="red", box=box.HEAVY), (1, 0, 0, 0), expand=False)
        for text in texts
    ]


def render_facts(rows: Mapping[str, str]) -> RenderableType:
    """Show a few named facts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, fact in rows.items():
        table.add_row(name, Text(fact))
    return Padding(table, (1, 0, 0, 2), expand=False)


def make_table(
    heads: Iterable[str], rows: Iterable[Iterable[str | Text]] = (), right: Collection[int] = (), lined: bool = True
) -> Table:
    """Return a table of texts; columns at the places `right` are numbers, and the first one is not wrapped."""
    table = Table(box=box.SIMPLE_HEAD if lined else None, show_edge=False, pad_edge=False, header_style="bold")
    for place, head in enumerate(heads):
        table.add_column(Text(head), justify="right" if place in right else "left", no_wrap=place == 0)
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def describe_spending(fitted: Fitted) -> dict[str, str]:
    """Describe the privacy unit, what was spent and for which purpose, and the guarantee."""
    from weft.synthesis.statement import describe_lifetime, describe_seeds, explain_guarantee

    ledger = fitted.ledger
    grown = describe_seeds(fitted)
    on = describe_purposes(ledger)
    return {
        "protected": describe_protection(ledger, fitted.schema.unit),
        "spent": describe_spent(ledger) + (f": {on}" if on else ""),
        **({"seeds": grown} if grown else {}),
        "meaning": explain_guarantee(fitted),
        "lifetime": describe_lifetime(ledger.lifetime),
    }


def describe_protection(ledger: Ledger, unit: str | None) -> str:
    """Describe the privacy unit and what is protected of it."""
    added = ledger.adjacency.relation == "add-remove"
    if unit is None:
        return f"each row: {'whether the private table contains it' if added else 'its values'}"
    bound = format_count(ledger.adjacency.rows_per_unit, "row")
    hidden = "whether the private table contains them" if added else "their values"
    return f'all rows of one "{unit}" (contribution bound: {bound}): {hidden}'


PURPOSES = {
    "discovery": "schema discovery",
    "units": "rows per person",
    "total": "the number of rows",
    "marginals": "noisy counts",
    "scores": "choosing what to count",
    "dependence": "choosing what to count",
    "choice": "choosing what to count",
    "seeds": "seeds",
    "": "other queries",
}
"""Purposes of charges, as the summary names them."""


def describe_purposes(ledger: Ledger) -> str:
    """Describe how the budget was divided, largest share first."""
    if ledger.deniable or ledger.parts:
        return ""
    shares: dict[str, float] = {}
    for entry in ledger.entries:
        words = PURPOSES["seeds"] if entry.definition.grows_private_records else PURPOSES[entry.purpose]
        shares[words] = shares.get(words, 0.0) + entry.cost / ledger.to_dict()["capacity"]
    ranked = sorted(shares.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{share:.0%} on {words}" if share >= 0.005 else f"the rest on {words}" for words, share in ranked)


def render_noise_points(fitted: Fitted, of_table: str = "") -> list[RenderableType]:
    """Show the strengths and limitations of a release."""
    from weft.synthesis.verdicts import describe_points

    found = describe_points(fitted)
    lines = [Text.assemble(("  + ", "bold green"), line) for line in found.best]
    lines += [Text.assemble(("  - ", "bold yellow"), line) for line in found.worst]
    return [render_heading(f"Strengths and limitations{of_table}"), *lines] if lines else []


def describe_spent(ledger: Ledger) -> str:
    """Describe what was spent of the budget."""
    from weft.privacy import at_most

    share = min(ledger.used, 1.0)
    part = "the whole budget" if share > WHOLE else f"{share:.1%} of the budget"
    if ledger.deniable:
        return f"{part}, all of it for the model; no epsilon holds for the records"
    if ledger.parts:
        part = f"{part}, for the part of the rows with the largest cost"
    if share <= WHOLE:
        part = f"{part}; the guarantee is stated for the whole budget: {ledger.budget}"
    delta = f"delta {ledger.accounting.find_delta(ledger.budget.delta):g}"
    return f"epsilon {at_most(ledger.spent_epsilon())} at {delta}, {part}"


def render_ledger_entries(ledger: Ledger) -> RenderableType:
    """Show every query with its noise and its cost, and the cost of model and seeds."""
    from weft.synthesis.statement import compute_cost_shares, format_budget_share

    rows = []
    for entry in ledger.entries:
        # Seeds have the privacy of a count with this much Gaussian noise; a random split of rows costs nothing.
        mechanism = entry.definition
        noise = entry.noise.replace("seeded", "gaussian equivalent") if mechanism.grows_private_records else entry.noise
        rows.append((entry.question, noise, "" if mechanism.divides_rows else ledger.share(entry, 1)))
    table = make_table(("query", "noise", "share of the budget"), rows or [("none", "", "0.0%")], right=[2])
    table.columns[0].no_wrap = False
    table.add_section()
    for name, share in compute_cost_shares(ledger).items():
        table.add_row(name, "", format_budget_share(share), style="bold")
    return Padding(table, (1, 0, 0, 2), expand=False)


def describe_known_facts(schema: Schema, broken: Mapping[str, int]) -> list[RenderableType]:
    """Show the public rules of the schema, and how many synthetic rows break them."""
    told = {}
    for column in schema.columns:
        after, formula = getattr(column, "after", None), getattr(column, "formula", None)
        if after is not None:
            told[column.name] = f"never before {after}: the model learns the difference"
        elif formula is not None:
            told[column.name] = f"{formula}: computed, never measured"
    for rule, rows in broken.items():
        number, _, words = rule.partition(": ")
        told[number] = f"{words}: broken in {format_count(rows, 'synthetic row')}"
    return [render_heading("Public rules, used at no privacy cost"), render_facts(told)] if told else []


def describe_learned_relations(fitted: Fitted) -> list[RenderableType]:
    """State where relations between columns come from, if not from the private rows alone."""
    from weft.synthesis import statement

    return [render_note(each) for each in statement.describe_relation_sources(fitted)]


def render_files(named: Mapping[Path, str] | Mapping[Path | str, str]) -> list[RenderableType]:
    """List files with their purposes."""
    if not named:
        return []
    table = Table.grid(padding=(0, 2))
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(style="dim")
    for path, purpose in named.items():
        table.add_row(escape(str(path)), purpose)
    return [render_heading("Files"), Padding(table, (0, 0, 0, 2), expand=False)]


def render_note(text: str) -> RenderableType:
    """Show a paragraph."""
    return Padding(Text(text), (1, 0, 0, 2), expand=False)


def render_warnings(texts: Iterable[str]) -> list[RenderableType]:
    """Show warnings."""
    return [
        Padding(Text.assemble(("! ", "bold yellow"), (text, "yellow")), (1, 0, 0, 0), expand=False) for text in texts
    ]


def render_heading(text: str) -> RenderableType:
    """Show a heading."""
    return Padding(Text(text, style="bold"), (1, 0, 0, 0), expand=False)


def render_commands(*lines: str) -> RenderableType:
    """Show commands to run next."""
    return Text("\n".join(f"  {line}" for line in lines) + "\n", style="cyan")


def render_comparison(figures: Mapping[str, Sequence[float]], shares: Sequence[str]) -> RenderableType:
    """Compare figures of the private and the synthetic table; those named in `shares` are shown in per cent."""
    rows = [
        (name, *(f"{figure:.1%}" if name in shares else f"{figure:,.1f}" for figure in pair))
        for name, pair in figures.items()
    ]
    return Padding(make_table(("", "private", "synthetic"), rows, right=(1, 2)), (0, 0, 0, 2), expand=False)
