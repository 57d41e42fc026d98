"""`weft query`, `weft ledger` and `weft verify`: commands on models, journals and releases."""

from __future__ import annotations

import csv
import io
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import check_files
from weft.cli.shared_options import flatten_options, panel_option
from weft.cli.terminal import Terminal, hang_up
from weft.progress import report_stage

if TYPE_CHECKING:
    from rich.console import RenderableType

    from weft.evaluation.query_counts import Counts
    from weft.privacy import Ledger
    from weft.release.verification import Findings


SHOWN = 60
"""Maximum cells on the screen; CSV and JSON contain all."""
BAR = 20


@flatten_options
def query(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file made by `weft fit`, or by `weft synth --model`.")
    ],
    columns: Annotated[
        list[str] | None,
        typer.Argument(metavar="[COLUMN]...", help="Columns to count by. Default: count all rows together."),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Count only rows that meet a condition, for example sex=F, age>=65 or ward=a|b; repeatable. As in "
            "`weft sample`.",
        ),
    ] = None,
    bins: Annotated[
        int, typer.Option("--bins", min=2, metavar="N", help="Maximum number of bins of a numeric or date column.")
    ] = 20,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="TABLE",
            help="Of a model of related tables: the table whose rows are counted, by its columns and those of tables "
            "above it, such as patients.sex. Default: the root.",
        ),
    ] = None,
    as_csv: Annotated[
        str | None, panel_option(o.OUTPUT, "Write the counts to a file; - for stdout.", "--csv", metavar="FILE")
    ] = None,
    *,
    screen: o.Screen,
) -> None:
    """Estimate counts by columns from a model, with a 95% range for each. Spends no budget.

    If a measured marginal covers the columns, the counts are estimated from it,
    otherwise from the model. A note below the counts states which, and what the
    range covers.

    \b
    [bold]Examples[/bold]
      weft query stays.weft
      weft query stays.weft age sex
      weft query stays.weft ward --where "age>=65"
      weft query stays.weft cost --bins 8 --csv cost.csv
      weft query hospital.weft --table stays ward patients.sex
    """
    out = None if as_csv in (None, "-") else Path(str(as_csv))
    terminal = screen.terminal(data_on_stdout=as_csv == "-")
    with guard_command(terminal):
        if screen.as_json and as_csv == "-":
            raise o.UsageError("--json and --csv - both write to stdout: give one of them")
        check_files({"the model": Path(model)}, {} if out is None else {"the counts": out})
        o.check_model_file(Path(model))
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft.synthesis.synthesizer import load

                synthesizer = load(model)
            with report_stage(listener, "count"):
                found = synthesizer.query(*(columns or []), where=where or None, bins=bins, table=table)
        terminal.warn_stamps(found.stamps, always=as_csv == "-")  # before the rows, which `head` may cut off
        if as_csv is not None:
            _write_counts(found, out)
        terminal.answer(found.to_dict() | {"files": [str(out)] if out else []})
        if as_csv != "-":
            terminal.show(*_render_counts(found, out))


def _write_counts(found: Counts, out: Path | None) -> None:
    """Write the counts as CSV; a file is written atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    table = found.table
    writer.writerow(table.column_names)
    writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if out is None:
        try:
            sys.stdout.write(text.getvalue())
            sys.stdout.flush()
        except BrokenPipeError:
            hang_up(sys.stdout)
        return
    from weft.io.atomic_files import stage_files

    with stage_files(out) as (draft,):
        draft.write_text(text.getvalue(), encoding="utf-8")


def _render_counts(found: Counts, out: Path | None) -> list[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from weft.cli import summary
    from weft.evaluation.query_counts import FREE
    from weft.synthesis.statement import VOID, is_void

    heads, rows = [*(found.columns or ("",)), "rows", "±", "95% range", ""], []
    top = max(float(found.count.max()), 1e-300)
    for cell in islice(found, SHOWN):
        bar, spread = "█" * round(BAR * cell.count / top) or "▏", f"{cell.low:,.0f} to {cell.high:,.0f}"
        values = cell.values or ("all rows",)
        rows.append((*values, f"{cell.count:,.0f}", f"{cell.standard_error:,.0f}", spread, bar))
    grid = summary.make_table(heads, rows, right=range(len(heads) - 4, len(heads) - 1), lined=False)
    parts: list[RenderableType] = [Padding(Text(text, style="bold red"), 0) for text in found.stamps]
    if found.where or found.counted:
        head = f"Rows of {found.counted}" if found.counted else "Rows"
        parts.append(Padding(Text(f"{head} with {' and '.join(found.where)}" if found.where else head), 0))
    parts.append(grid)
    if len(found) > SHOWN:
        parts.append(Text(f"... and {len(found) - SHOWN:,} more; --csv FILE writes all of them."))
    free = f"{VOID} {FREE}" if is_void(found.stamps) else FREE
    parts += ["", Padding(Text(found.meaning), 0), Padding(Text(free), 0)]
    return [*parts, Text(f"The counts: {out}")] if out else parts


def ledger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model file, or a journal (NAME.ledger.jsonl).")],
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Show what was spent: every query, its noise and its cost.

    A journal may contain several runs; the costs of runs on one table add up.

    \b
    [bold]Examples[/bold]
      weft ledger stays.weft
      weft ledger synthetic.ledger.jsonl
      weft ledger stays.weft --json
    """
    terminal = Terminal(as_json, debug=debug)
    with guard_command(terminal):
        path = Path(file)
        ledgers = _read_ledgers(path)
        terminal.answer({"runs": [_describe_ledger(each) for each in ledgers]})
        if as_json:
            return
        from weft.cli import summary
        from weft.synthesis.statement import describe_joint_cost

        for number, each in enumerate(ledgers, 1):
            spent = {
                "spent": summary.describe_spent(each),
                "neighbours": str(each.adjacency),
                "accounting": each.accounting.name,
            }
            if len(ledgers) > 1:
                terminal.show(summary.render_heading(f"Run {number} of {len(ledgers)}"))
            terminal.show(
                *summary.render_stamps(each.stamps), summary.render_facts(spent), summary.render_ledger_entries(each)
            )
        spent_together = describe_joint_cost(ledgers)
        if spent_together is not None:
            terminal.show(summary.render_note(f"This ledger holds {spent_together}."))


def _describe_ledger(ledger: Ledger) -> dict[str, object]:
    from weft.synthesis.statement import compute_cost_shares

    facts: dict[str, object] = {"epsilon": None, "delta": None}
    if not ledger.deniable:
        statement = ledger.spend_statement()
        facts = {"epsilon": statement.epsilon, "delta": statement.delta}
    return facts | {"costs": compute_cost_shares(ledger)} | ledger.to_dict()


def _read_ledgers(path: Path) -> list[Ledger]:
    from weft.privacy import Ledger, read_journal
    from weft.synthesis import model_file as modelfile

    if _is_journal(path):
        return [Ledger.of_run(run) for run in read_journal(path)]
    o.check_model_file(path, "neither a model file nor a journal (NAME.ledger.jsonl)")
    return [modelfile.load_any_model(path).ledger]


def _is_journal(path: Path) -> bool:
    """Whether a file is readable and begins like a journal, with a JSON object."""
    try:
        with path.open("rb") as file:
            return file.read(1) in (b"{", b"\n")
    except OSError:
        return False


@flatten_options
def verify(
    place: Annotated[
        str, typer.Argument(metavar="PLACE", help="A folder of releases or of evidence, a released table, or a card.")
    ] = ".",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Lifetime budget of the table: check that it contains the charges of the releases."
        ),
    ] = None,
    second_accountant: Annotated[
        bool,
        typer.Option(
            "--second-accountant", metavar="", help="Also recompute epsilon with dp-accounting (weft[evidence])."
        ),
    ] = False,
    *,
    screen: o.Screen,
) -> None:
    """Check releases against their cards: hashes, columns, ledger, guarantee, warnings; and that models load.

    Every rule of a card is checked on the synthetic rows: values and ranges, formulas,
    values that are constant for a person, keys and all others. Rules that cannot be
    checked are listed.

    A release that was interrupted while its files were moved into place is completed first.
    No private data is needed or read. A card proves nothing about the private table:
    this detects damage, careless edits, and mixed files of different releases.

    \b
    [bold]Examples[/bold]
      weft verify released --second-accountant
      weft verify evidence
      weft verify synthetic.csv
      weft verify 'sqlite:made.sqlite?table=stays'
      weft verify released --budget clinic.budget
      weft verify released --json
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.release.verification import verify as checked

        found = checked(place, None if budget is None else Path(budget), second_accountant)
        terminal.answer(
            {
                "ok": not found.wrong,
                "checks": [
                    {
                        "file": c.file,
                        "what": c.what,
                        "ok": c.wrong is None and c.skipped is None,
                        "wrong": c.wrong,
                        "not_checked": c.skipped,
                    }
                    for c in found.checks
                ],
                "recovered": list(found.recovered),
                "unchecked": list(found.unchecked),
            }
        )
        if not (screen.as_json or screen.quiet):
            _print_verification(terminal, found)
        for check in found.wrong:
            terminal.fail(f"{check.file}: {check.wrong}")
        if found.wrong:
            raise typer.Exit(1)


def _print_verification(terminal: Terminal, found: Findings) -> None:
    from rich.text import Text

    from weft.cli import summary
    from weft.display import format_count

    rows = []
    for check in found.checks:
        holds = Text("yes", "green") if check.wrong is None else Text("NO", "bold red")
        rows.append((check.file, check.what, holds if check.skipped is None else Text("not checked", "yellow")))
    terminal.show(summary.make_table(("file", "what was checked", "holds"), rows))
    for did in found.recovered:
        terminal.show(summary.render_note(did))
    for name in found.unchecked:
        terminal.show(summary.render_note(f"{name}: no card describes it, so nothing was checked"))
    for check in found.skipped:
        terminal.show(summary.render_note(f"{check.file}: {check.what} was not checked: {check.skipped}"))
    if not found.wrong:
        left = f", {format_count(len(found.skipped), 'statement')} not checked" if found.skipped else ""
        terminal.show(summary.render_headline(f"all checks passed{left}"))
