"""`weft demo`: a complete release of a fictional table, in half a minute."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.fit_options import DEFAULT_METHOD, check_request, checkpoint_beside, fit_table, journal_beside
from weft.cli.output_files import file_purposes, release_files
from weft.cli.shared_options import flatten_options, panel_option
from weft.cli.terminal import Terminal
from weft.errors import OutputError
from weft.progress import Listener, report_stage
from weft.synthesis.fit_request import FitRequest

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.synthesis.fitted import Fitted

PRIVATE = "hospital.csv"
SCHEMA = "hospital.toml"
SHARES = ("emergencies", "nothing billed", "insurance not known", "no creatinine test")
"""Figures of the comparison that are shares of rows."""


@flatten_options
def demo(
    folder: Annotated[str, panel_option(o.OUTPUT, "Folder for the files.")] = "weft-demo",
    epsilon: o.Epsilon = 1.0,
    rows: Annotated[int, typer.Option(min=1, help="Number of rows (hospital stays) in the fictional table.")] = 20_000,
    method: o.Method = None,
    related: Annotated[
        bool, typer.Option("--related", metavar="", help="Three related tables instead: patients, stays and drugs.")
    ] = False,
    *,
    screen: o.Screen,
) -> None:
    """Try Weft on a fictional hospital: create a table, release a private synthetic copy, compare the two.

    \b
    [bold]Examples[/bold]
      weft demo
      weft demo --epsilon 0.1 --folder noisier
      weft demo --related
    """
    terminal = screen.terminal()
    home = Path(folder)
    if related:
        _release_database(home / "database", epsilon, terminal)
        return
    released = home / "released"
    journal = home / "synthetic.ledger.jsonl"  # PRIVATE: not in the folder that is released
    out, model = released / "synthetic.csv", released / "model.weft"
    with guard_command(terminal, journal, model) as rescue:
        _make_folders(released)
        request = FitRequest(
            source=str(home / PRIVATE),
            schema=str(home / SCHEMA),
            epsilon=epsilon,
            delta=1e-5,
            journal=journal,
            checkpoint=checkpoint_beside(journal),
            method=DEFAULT_METHOD if method is None else method,
        )
        _check_own(home / PRIVATE)
        check_request(request, terminal, release_files(out) | {"the model": model})
        with terminal.progress() as listener:
            with report_stage(listener, "make a hospital"):
                real = _write_inputs(home, rows)
            synthesizer = fit_table(request, None, listener, rescue.hold)
            synthesizer.save(model)
            rescue.safe()
            from weft.release.publish import Files, publish

            synthetic = synthesizer.sample(listener=listener)
            card = publish(synthesizer.fitted_, [synthetic], Files.of(out), listener=listener)
            closeness = _compare_tables(synthesizer.fitted_, real, synthetic)
            reports = _write_reports(synthesizer.fitted_, home / PRIVATE, out, home, listener)
        files = {home / PRIVATE: "the PRIVATE table (fictional)"}
        files |= {home / SCHEMA: "public facts about its columns"} | file_purposes(out, journal, model) | reports
        terminal.answer(card | {"comparison": closeness, "files": [str(path) for path in files]})
        terminal.warn_stamps(card["stamps"])
        if not (screen.as_json or screen.quiet):
            _print_demo(terminal, synthesizer.fitted_, rows, card, closeness, files)


def _release_database(home: Path, epsilon: float, terminal: Terminal) -> None:
    """Release three related tables by the command that a user would run."""
    from weft.cli.database_commands import synth_tables
    from weft.hospital import hospital_database, hospital_database_schema
    from weft.io.atomic_files import stage_files
    from weft.io.table_files import write_table

    made, schema = hospital_database(), home / "hospital-database.toml"
    paths = {name: home / f"{name}.csv" for name in made}
    with guard_command(terminal):
        _make_folders(home)
        with stage_files(*paths.values(), schema) as drafts:
            for table, draft in zip(made.values(), drafts, strict=False):
                write_table([table], draft, ".csv")
            drafts[-1].write_text(hospital_database_schema(), encoding="utf-8")
    named = " ".join(map(str, paths.values()))
    terminal.show(f"weft synth {named} --schema {schema} --epsilon {epsilon:g} -o {home / 'released'}")
    journal = journal_beside(home / "released", None)
    request = FitRequest(
        source=[str(path) for path in paths.values()], schema=str(schema), epsilon=epsilon, journal=journal
    )
    synth_tables(request, home / "released", terminal, None, None, True)


def _make_folders(released: Path) -> None:
    try:
        released.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot create the folder {released}: {error.strerror}.") from None


def _check_own(private: Path) -> None:
    """Raise OutputError rather than replace a table that the demo did not create, judged by its first line."""
    from weft.hospital import hospital

    if not private.is_file():
        return
    names = ",".join(f'"{name}"' for name in hospital(1).column_names)
    with private.open("rb") as file:
        if file.readline(1 << 16).decode("utf-8", "replace").strip() != names:
            raise OutputError(f"cannot write {private}: the existing file is not the demo's. Choose another --folder.")


def _write_inputs(home: Path, rows: int) -> pa.Table:
    from weft.hospital import hospital, hospital_schema
    from weft.io.atomic_files import stage_files
    from weft.io.table_files import write_table

    table = hospital(rows)
    with stage_files(home / PRIVATE, home / SCHEMA) as (private, schema):
        write_table([table], private)
        schema.write_text(hospital_schema(), encoding="utf-8")
    return table


def _compare_tables(fitted: Fitted, real: pa.Table, synthetic: pa.Table) -> dict[str, Any]:
    """Compare with the private table, which may be published only because it is fictional."""
    from weft.encoding import count_broken_rows
    from weft.evaluation.metrics import k_way

    codec, after = fitted.codec, _compute_figures(synthetic)
    coded, made = codec.encode(real.cast(codec.arrow_schema)), codec.encode(synthetic)
    return {
        "columns_alike": 1 - k_way(coded, made, 1).tvd,
        "pairs_alike": 1 - k_way(coded, made, 2).tvd,
        "broken_rules": count_broken_rows(synthetic, fitted.schema),
        "figures": {name: [figure, after[name]] for name, figure in _compute_figures(real).items()},
    }


def _write_reports(fitted: Fitted, private: Path, released: Path, home: Path, listener: Listener) -> dict[Path, str]:
    """Write both editions of the report if jinja2 is installed; return their pages."""
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        return {}
    from weft.evaluation.report import private_report, releasable_report, write

    with report_stage(listener, "report"):
        ours, _ = write(private_report(private, released, fitted=fitted), home / "report.html")
        theirs, _ = write(releasable_report(fitted, released), released.parent / "report.html")
    return {
        theirs: "the report for data users; it may be published",
        ours: "the report: open it in a browser (PRIVATE: it compares with the private table)",
    }


def _compute_figures(table: pa.Table) -> dict[str, float]:
    """Compute a few figures of a table of the demo."""
    import pyarrow.compute as pc

    def mean(column: Any) -> float:
        return float(pc.mean(pc.cast(column, "float64")).as_py() or 0.0)

    nights, severity = table["length_of_stay"], table["severity"]
    means = {"mean age": mean(table["age"]), "mean cost": mean(table["cost"]), "mean nights": mean(nights)}
    means |= {f"  of {kind} cases": mean(nights.filter(pc.equal(severity, kind))) for kind in ("minor", "extreme")}
    tests = (
        table["emergency"],
        pc.equal(table["cost"], 0.0),
        table["insurance"].is_null(),
        table["creatinine"].is_null(),
    )
    return means | dict(zip(SHARES, map(mean, tests), strict=True))


def _print_demo(
    terminal: Terminal,
    fitted: Fitted,
    rows: int,
    card: dict[str, Any],
    closeness: dict[str, Any],
    files: dict[Path, str],
) -> None:
    from weft.cli import summary

    made, answers = card["table"]["rows"], sum(len(entry.scales) for entry in fitted.ledger.entries)
    steps = {
        "1. a private table": f"{rows:,} stays in a hospital that does not exist",
        "2. noisy answers": f"{answers} noisy measurements of it, within a budget of {fitted.ledger.budget}",
        "3. a public table": f"{made:,} rows generated from these measurements alone, by method {fitted.method}",
    }
    private, schema, _, card_file, _, model, *_ = files
    terminal.show(
        summary.render_headline("The private table now has a synthetic copy that can be shared"),
        summary.render_facts(steps),
        *summary.render_stamps(card["stamps"]),
        summary.render_heading("What it cost"),
        summary.render_facts(summary.describe_spending(fitted)),
        summary.render_ledger_entries(fitted.ledger),
        summary.render_heading("How close it is"),
        summary.render_comparison(closeness["figures"], SHARES),
        summary.render_facts(
            {
                "single columns": f"{closeness['columns_alike']:.1%} similar on average (100% is identical)",
                "pairs of columns": f"{closeness['pairs_alike']:.1%} similar on average",
            }
        ),
        *summary.describe_learned_relations(fitted),
        *summary.describe_known_facts(fitted.schema, closeness["broken_rules"]),
        summary.render_note(
            "Publish such a comparison only for fictional data: it is computed from private rows without noise."
        ),
        *summary.render_files(files),
        summary.render_heading("Try next"),
        summary.render_commands(
            f"less {card_file}",
            f"weft ledger {model}",
            f"weft sample {model} -n 5 -o -",
            f"weft synth {private} --schema {schema} --epsilon 0.1 -o noisier.csv",
            "weft schema draft YOUR.csv -o YOUR.toml",
        ),
    )
