"""`weft ledger`: what was asked of private rows, and what it cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard, ledger_of
from weft.cli.terminal import Terminal

if TYPE_CHECKING:
    from weft.privacy import Ledger


def ledger(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A model file, or a journal (NAME.ledger.jsonl).")],
    as_json: o.AsJson = False,
    debug: o.Debug = False,
) -> None:
    """Show what was spent: every question, its noise and its price.

    A journal may hold several runs; what they spend on one table adds up.

    \b
    [bold]Examples[/bold]
      weft ledger stays.weft
      weft ledger synthetic.ledger.jsonl
      weft ledger stays.weft --json
    """
    terminal = Terminal(as_json, debug=debug)
    with guard(terminal):
        path = Path(file)
        ledgers = _read(path)
        terminal.answer({"runs": [_facts(each) for each in ledgers]})
        if as_json:
            return
        from weft.cli import summary
        from weft.release.statement import together

        for number, each in enumerate(ledgers, 1):
            spent = {"spent": summary.spent(each), "neighbours": str(each.adjacency), "accounting": each.accounting}
            if len(ledgers) > 1:
                terminal.show(summary.heading(f"Run {number} of {len(ledgers)}"))
            terminal.show(*summary.stamps(each.stamps), summary.facts(spent), summary.entries(each))
        spent_together = together(ledgers)
        if spent_together is not None:
            terminal.show(summary.note(f"This ledger holds {spent_together}."))


def _facts(ledger: Ledger) -> dict[str, object]:
    from weft.release.statement import costs

    facts: dict[str, object] = {"epsilon": None, "delta": None}
    if not ledger.deniable:
        statement = ledger.spend_statement()
        facts = {"epsilon": statement.epsilon, "delta": statement.delta}
    return facts | {"costs": costs(ledger)} | ledger.to_dict()


def _read(path: Path) -> list[Ledger]:
    """Read a model's ledger, or the ledgers of a journal's runs."""
    from weft.privacy import read_journal
    from weft.release import modelfile

    if _is_journal(path):
        return [ledger_of(run) for run in read_journal(path)]
    o.check_model_file(path, "neither a model file nor a journal (NAME.ledger.jsonl)")
    return [modelfile.load(path).ledger]


def _is_journal(path: Path) -> bool:
    """Whether a file begins as a journal does, with an object of JSON; one that cannot be read does not."""
    try:
        with path.open("rb") as file:
            return file.read(1) in (b"{", b"\n")
    except OSError:
        return False
