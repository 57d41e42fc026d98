"""`weft audit`: attack a method, and compare the measured privacy loss with its claim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import UsageError, flatten_options
from weft.cli.terminal import Terminal
from weft.progress import report_stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from weft_lab.audit import AttackFinding

app = typer.Typer(add_completion=False)

ATTACK = "The attack"
BOTH: Any = "both"


Methods = Annotated[
    str, typer.Option("--method", "-m", metavar="A,B", help="Methods to audit, or all. `weft methods` lists them.")
]
Runs = Annotated[
    int,
    typer.Option(
        min=40, metavar="N", help="Fits per table; more fits give a tighter lower bound.", rich_help_panel=ATTACK
    ),
]
Relation = Annotated[
    Literal["add-remove", "replace-one", "both"],
    typer.Option(metavar="WHICH", help="Neighbours: add-remove, replace-one or both.", rich_help_panel=ATTACK),
]
Tables = Annotated[
    Literal["single", "related"],
    typer.Option(
        metavar="WHICH",
        help="single: tables of one and of two columns, which differ in one row. related: two related tables, which "
        "differ in one person and its rows (method weave).",
        rich_help_panel=ATTACK,
    ),
]
Holds = Annotated[
    Literal["model", "rows", "both"],
    typer.Option("--from", metavar="WHAT", help="What the attacker sees: model, rows or both.", rich_help_panel=ATTACK),
]
Confidence = Annotated[
    float, typer.Option(min=0.5, max=0.999999, help="Joint confidence of all bounds shown.", rich_help_panel=ATTACK)
]
Plot = Annotated[
    str | None, typer.Option(metavar="FILE.svg", help="Plot the bounds and the claim.", rich_help_panel=o.OUTPUT)
]


@app.command()
@flatten_options
def audit(
    method: Methods = "auto",
    option: o.Options = None,
    epsilon: o.Epsilon = 4.0,
    delta: o.Delta = 1e-5,
    runs: Runs = 500,
    tables: Tables = "single",
    neighbours: Relation = BOTH,
    source: Holds = BOTH,
    confidence: Confidence = 0.95,
    plot: Plot = None,
    *,
    screen: o.Screen,
) -> None:
    """Test empirically whether a method loses more privacy than it claims.

    Two artificial tables that differ in one row, or two databases that differ in
    one person, are released many times each, end to end, with real noise. An
    attacker guesses from each release which one it came from. The accuracy of the
    guesses gives a lower bound on the privacy loss mu, to compare with the claim of
    the budget: by the claim, the best guess is right with probability at most
    Phi(mu / 2).

    Exit code 1: the bound exceeds the claim, which indicates a fault. A bound below
    the claim is no proof of privacy: it only means that this attack found no fault.

    \b
    [bold]Examples[/bold]
      weft audit --method weave --epsilon 4 --runs 500
      weft audit -m independent,mst -e 4 --runs 2000 --from model --plot audit.svg
      weft audit -m privbayes -e 1 --delta 0 --json
      weft audit --tables related --runs 200 --from model
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        if plot is not None:
            _check_plot(Path(plot))
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft.methods import METHODS, resolve_method_name
                from weft.privacy import Budget
                from weft_lab.audit import RELATIONS, SOURCES, TABLES, Audit, run_attacks
                from weft_lab.audit_families import RELATED

                names = list(METHODS) if method == "all" else [resolve_method_name(name) for name in method.split(",")]
            if tables == "related" and set(names) != {"weave"}:
                raise UsageError("--tables related audits the method weave only: leave out --method")
            audits = [
                Audit(
                    method=name,
                    budget=Budget(epsilon=epsilon, delta=delta),
                    runs=runs,
                    relations=RELATIONS if neighbours == "both" else (neighbours,),
                    sources=SOURCES if source == "both" else (source,),
                    tables=(RELATED,) if tables == "related" else TABLES,
                    confidence=1 - (1 - confidence) / len(names),
                    options=o.parse_options(option),
                )
                for name in names
            ]
            for each in audits:
                each.claim  # noqa: B018 (validate methods and options before the first fit)
            findings = [finding for each in audits for finding in run_attacks(each, listener)]
        if plot is not None:
            _draw_findings(findings, Path(plot), epsilon, confidence)
        _print_findings(terminal, findings, epsilon, delta, confidence, plot)


def _check_plot(plot: Path) -> None:
    from weft.io.atomic_files import check_writable

    if plot.suffix.lower() != ".svg":
        raise UsageError(f"--plot {plot}: the name must end in .svg")
    check_writable(plot)


def _print_findings(
    terminal: Terminal,
    findings: Sequence[AttackFinding],
    epsilon: float,
    delta: float,
    confidence: float,
    plot: str | None,
) -> None:
    broken = list(dict.fromkeys(finding.method for finding in findings if finding.broken))
    terminal.answer(
        {
            "epsilon": epsilon,
            "delta": delta,
            "confidence": confidence,
            "findings": [_describe_finding(finding) for finding in findings],
            "broken": broken,
        }
    )
    from weft.cli import summary

    for name in dict.fromkeys(finding.method for finding in findings):
        own = [finding for finding in findings if finding.method == name]
        told = f"{name}, epsilon {epsilon:g} at delta {delta:g}"
        terminal.show(
            summary.render_heading(f"{told}: an attack exceeds the claim")
            if name in broken
            else summary.render_headline(f"{told}: no attack exceeds the claim"),
            _build_findings_table(own),
            summary.render_note(_explain_findings(own)),
        )
    terminal.show(
        summary.render_note(
            f"The shown mu is a lower bound on the privacy loss, with {confidence:.4g} confidence for all attacks "
            "together. More runs bring it closer to the best guess (a point estimate), and that closer to the truth. "
            "`share` is the shown mu as a share of the claimed mu."
        )
    )
    if plot is not None:
        terminal.show(*summary.render_files({Path(plot): "plot of the bounds and the claim"}))
    if broken:
        terminal.fail(
            f"{', '.join(broken)}: an attack exceeds the claim. At {confidence:.4g} confidence this happens by chance "
            f"in one of {1 / (1 - confidence):,.0f} audits: run it again with more --runs, and release nothing "
            "with this method until it is explained."
        )
        raise typer.Exit(1)


def _describe_finding(finding: AttackFinding) -> dict[str, Any]:
    evidence = finding.evidence
    return {
        "method": finding.method,
        "neighbours": finding.relation,
        "table": finding.table,
        "from": finding.source,
        "claimed_mu": finding.claim.mu,
        "mu_at_least": evidence.mu,
        "estimated_mu": evidence.estimate,
        "share_of_claim": finding.share,
        "claimed_accuracy": finding.claim.accuracy,
        "accuracy": evidence.accuracy,
        "trials": 2 * evidence.trials,
        "confidence": evidence.confidence,
        "above_claim": finding.broken,
    }


def _build_findings_table(findings: Sequence[AttackFinding]) -> RenderableType:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("neighbours", "tables", "seen"):
        table.add_column(name, no_wrap=True)
    for name in ("claimed mu", "shown mu", "best guess", "share"):
        table.add_column(name, justify="right")
    table.add_column("verdict", no_wrap=True)
    for finding in findings:
        evidence = finding.evidence
        table.add_row(
            finding.relation,
            finding.table,
            finding.source,
            f"{finding.claim.mu:.3f}",
            f"{evidence.mu:.3f}",
            f"{evidence.estimate:.3f}",
            f"{finding.share:.0%}",
            "[bold red]ABOVE" if finding.broken else "[green]holds",
        )
    return Padding(table, (1, 0, 0, 0), expand=False)


def _explain_findings(findings: Sequence[AttackFinding]) -> str:
    best = max(findings, key=lambda finding: finding.evidence.accuracy)
    return (
        "By the claim, an attacker who guesses which of two equally likely tables a release came from is right "
        f"at most {best.claim.accuracy:.1%} of the time. The best attack was right in {best.evidence.accuracy:.1%} of "
        f"{2 * best.evidence.trials:,} trials."
    )


def _draw_findings(findings: Sequence[AttackFinding], plot: Path, epsilon: float, confidence: float) -> None:
    from weft.io.atomic_files import stage_files
    from weft_lab.charts import Spread, draw_dots

    def dot(mu: float) -> Spread:
        return Spread(mu, 0.0, 1)

    rows = {
        f"{f.method}, {f.relation}, {f.table}, {f.source}": {
            "claimed": dot(f.claim.mu),
            "best guess": dot(f.evidence.estimate),
            f"shown at {confidence:.4g} confidence": dot(f.evidence.mu),
        }
        for f in findings
    }
    with stage_files(plot) as (file,):
        file.write_text(draw_dots(rows, f"mu, claimed and shown by attacks, epsilon {epsilon:g}"), encoding="utf-8")
