"""`weft bench all`: every experiment of the papers, one after another."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.failure import guard_command
from weft.cli.shared_options import UsageError, flatten_options
from weft.display import format_count
from weft.errors import OutputError
from weft.progress import report_stage
from weft_lab.commands import listing, papers

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.runner import Outcome

Quick = Annotated[
    bool,
    typer.Option(
        "--quick",
        metavar="",
        help="A short form: 2,000 rows, 12 columns, three runs, the first and the last budget.",
        rich_help_panel=papers.WHAT,
    ),
]
Names = Annotated[
    str | None, typer.Option("--only", metavar="A,B", help="Some experiments only.", rich_help_panel=papers.WHAT)
]
Seeds = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Runs of each. Default: 5.", rich_help_panel=papers.WHAT)
]
Budgets = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="So many of each experiment's budgets, the ends first.", rich_help_panel=papers.WHAT
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write the page here, too, its figures in figures/ beside it. Sections that are not run now are kept.",
        rich_help_panel=o.OUTPUT,
    ),
]


Kept = Annotated[
    bool,
    typer.Option(
        "--kept", metavar="", help="Run nothing: the page of what FOLDER holds already.", rich_help_panel=papers.WHAT
    ),
]


KEPT = "weft bench all --kept --page FILE"


@flatten_options
def every(
    quick: Quick = False,
    data: papers.Data = None,
    only: Names = None,
    kept: Kept = False,
    seeds: Seeds = None,
    budgets: Budgets = None,
    rows: papers.Rows = None,
    columns: papers.Columns = None,
    data_folder: listing.DataFolder = None,
    output: papers.Folder = "bench",
    page: Page = None,
    *,
    screen: o.Screen,
) -> None:
    """Run all experiments of the papers, each on its paper's tables that are at hand or on others, into one page.

    The page, FOLDER/all.md, has our figures beside the papers', and says which of their orderings hold. Interrupted
    runs go on where they stopped.

    \b
    [bold]Examples[/bold]
      weft bench all --quick
      weft bench all --data adult.parquet --only privsyn-figure4,privmrf-figure4
      weft bench all --quick --seeds 3 --page docs/reproduced.md
    """
    terminal = screen.terminal()
    with guard_command(terminal):
        sized = {"seeds": seeds, "budgets": budgets, "rows": rows, "columns": columns}
        given = {name: value for name, value in sized.items() if value is not None}
        if kept and (idle := [*(["quick"] if quick else []), *(["data"] if data else []), *given]):
            raise UsageError(f"--kept runs nothing: leave --{idle[0]} out.")
        outcomes: list[Outcome] = []
        figures: dict[str, list[str]] = {}
        with terminal.progress() as listener:
            with report_stage(listener, "load"):
                from weft_lab.page import page as written_page

                folder = papers.folder_of(Path(output))
                listed = [part for one in data for part in one.split(",")] if data else None
                wanted = _Wanted(quick, given, listed, only, data_folder)
                command, made = wanted.kept(folder) if kept else wanted.run(folder, listener)
            for outcome in made:
                outcomes.append(outcome)
                drawn = papers.written(outcome, folder)[1]
                figures[outcome.experiment.name] = [path.name for path in drawn if path.suffix == ".svg"]
                # After each experiment: an interrupted run leaves the page of those that are done.
                (folder / "all.md").write_text(written_page(outcomes, figures, command), encoding="utf-8")
        if page is not None:
            beside = {name: _copied(files, folder, page) for name, files in figures.items()}
            before = page.read_text(encoding="utf-8") if page.is_file() else ""
            page.write_text(written_page(outcomes, beside, command, before, _dates(folder, figures)), encoding="utf-8")
        _tell(outcomes, page or folder / "all.md", screen)


@dataclass(frozen=True)
class _Wanted:
    """What was asked for: which experiments, and how much of each."""

    quick: bool
    given: dict[str, int]
    """Sizes that replace those of the form."""
    data: list[str] | None
    only: str | None
    data_folder: str | None

    def names(self) -> list[str]:
        """Return the experiments."""
        from weft_lab.catalogue import EXPERIMENTS, experiment

        if self.only is None:
            return list(EXPERIMENTS)
        names = [experiment(name).name for name in listing.words(self.only)]
        if not names:
            raise UsageError("--only names no experiment. See weft bench --list.")
        return names

    def kept(self, folder: Path) -> tuple[str, Iterator[Outcome]]:
        """Return the command, and what the folder holds."""
        from weft_lab.every import kept

        return KEPT, kept(self.names(), folder)

    def run(self, folder: Path, listener: Listener) -> tuple[str, Iterator[Outcome]]:
        """Return the command that has the page made again, and what it gives, one experiment after another."""
        from weft_lab.every import QUICK, WHOLE, at_hand, every

        form = replace(QUICK if self.quick else WHOLE, **self.given)
        names = self.names()
        sources = at_hand(names, self.data_folder) if self.data is None else dict.fromkeys(names, self.data)
        sizes = {"rows": form.rows, "columns": form.columns, "seeds": form.seeds, "budgets": form.budgets}
        words = [f"--{name} {value}" for name, value in sizes.items() if value is not None]
        words += [f"--data {','.join(Path(one).name for one in self.data)}"] if self.data else []
        command = " ".join(["weft bench all", *words, *([f"--only {self.only}"] if self.only else [])])
        return command, every(sources, folder, form, self.data_folder, listener)


def _dates(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the day on which the last run of each experiment was written."""
    files = {name: folder / f"{name}.jsonl" for name in names}
    return {
        name: datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
        for name, file in files.items()
        if file.is_file()
    }


def _copied(files: list[str], folder: Path, page: Path) -> list[str]:
    """Put figures beside a page; return what the page calls them."""
    beside = page.parent / "figures" / page.stem
    try:
        beside.mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(folder / file, beside / file)
    except OSError as error:
        raise OutputError(f"cannot write in {beside}: {error.strerror}. Choose another --page.") from None
    return [f"figures/{page.stem}/{file}" for file in files]


def _tell(outcomes: list[Outcome], page: Path, screen: o.Screen) -> None:
    from weft.cli import summary
    from weft_lab.beside import judged, share
    from weft_lab.verdicts import HOW

    terminal = screen.terminal()
    known = [one for one in map(judged, outcomes) if one is not None]
    tally = share(known)
    disagreeing = [(one.name, str(cell)) for one in known for cell in one.disagreeing]
    terminal.answer(
        {
            "experiments": [made.experiment.name for made in outcomes],
            "page": str(page),
            "orderings": {"hold": tally.holds, "level": tally.level, "disagree": tally.disagrees},
            "disagreeing": [f"{name}: {cell}" for name, cell in disagreeing],
        }
    )
    terminal.show(summary.render_headline(f"What the papers say: {tally}"), summary.render_note(HOW))
    for name, cell in disagreeing:
        terminal.show(summary.render_note(f"Disagrees, {name}: {cell}"))
    terminal.show(summary.render_note("Computed from real rows: PRIVATE, unless the tables are public."))
    terminal.show(*summary.render_files({page: f"tables and figures of {format_count(len(outcomes), 'experiment')}"}))
    for reason in dict.fromkeys(reason for made in outcomes for reason in made.refused):
        terminal.warn(f"left out: {reason}")
