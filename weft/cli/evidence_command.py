"""`weft evidence`: write the evidence pack of a release."""

import json
from pathlib import Path
from typing import Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import UsageError, flatten_options, panel_option
from weft.progress import report_stage


@flatten_options
def evidence(
    release: Annotated[
        str,
        typer.Argument(metavar="RELEASE", help="A released table, its card, its model, or a folder of one release."),
    ],
    output: Annotated[
        str, panel_option(o.OUTPUT, "Folder of the pack.", "--output", "-o", metavar="FOLDER")
    ] = "evidence",
    audit: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Output of `weft audit --json` for this method and budget, to be included."),
    ] = None,
    overwrite: Annotated[bool, panel_option(o.OUTPUT, "Replace an earlier pack.", "--overwrite", metavar="")] = False,
    *,
    screen: o.Screen,
) -> None:
    """Write the evidence for a release: what it guarantees, checked and explained for a board and for a regulator.

    The pack has a page for a board, a statement in the order of NIST SP 800-226, a
    record for the OpenDP deployments registry, and all figures with the ledger. It is
    made from the card alone, after it passed verification. The privacy cost is
    computed by two independent accountants (pip install 'weft[evidence]').

    \b
    [bold]Examples[/bold]
      weft evidence synthetic.csv -o evidence
      weft evidence released --audit audit.json
      weft verify evidence
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        from weft.cli import summary
        from weft.privacy.conversions import at_most
        from weft.release.evidence import PACK, select_audit, write_evidence
        from weft.release.verification import read_verified_card

        folder = Path(output)
        if (folder / PACK).exists() and not overwrite:
            raise UsageError(f"{folder} has evidence already: name another folder (-o), or replace it (--overwrite)")
        with terminal.progress() as listener, report_stage(listener, "verify and compute"):
            card = read_verified_card(release)
            found = [] if audit is None else select_audit(_read_json(Path(audit)), card)
            made, files = write_evidence(card, folder, found)
        left = [item["what"] for section in made["statement"] for item in section["items"] if item["open"]]
        agrees = all(each["agrees"] for each in made["accountants"])
        shown = {key: value for key, value in made.items() if key != "card"}
        terminal.answer(shown | {"to_be_completed": left, "files": list(map(str, files))})
        terminal.warn_stamps(made["warnings"])
        facts = {
            "accountants": "two, which agree" if agrees else "two, which DISAGREE",
            "attacker": f"right about a protected unit at most {at_most(100 * made['meaning']['right_at_most'], 3)}% "
            "of the time (guessing: 50%)",
            "attacks tried": f"{len(found)} included" if found else "none is stored for this method and budget",
            "for the curator": f"{len(left)} statements to complete, and the open fields of registry.yaml",
        }
        terminal.show(
            *summary.render_stamps(made["warnings"]),
            summary.render_headline(f"Evidence for {made['release']}"),
            summary.render_facts(facts),
            *summary.render_files({path: PURPOSES[path.name] for path in files}),
        )
        if not agrees:
            terminal.fail("the accountants disagree: do not publish this release before it is explained")
            raise typer.Exit(1)


PURPOSES = {
    "registry.yaml": "record for the OpenDP deployments registry",
    "statement.md": "the guarantee in the order of NIST SP 800-226",
    "evidence.html": "the page for a board",
    "evidence.json": "all figures, and the card with its ledger",
}


def _read_json(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        raise UsageError(f"{path}: not a readable JSON file. Write one with `weft audit ... --json > {path}`") from None
