"""The laboratory's commands about plans of marginals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import shared_options as o
from weft.cli.shared_options import flatten_options
from weft_lab.commands.laboratory import Epsilons, Seeds
from weft_lab.commands.listing import WHAT, Lab, numbers, words

if TYPE_CHECKING:
    from weft.progress import Listener
    from weft_lab.sheet import Sheet


@flatten_options
def fire(
    epsilons: Epsilons = None,
    lines: Annotated[
        str | None,
        typer.Option(metavar="A;B", help='Some lines only, such as "weave, plan;mst".', rich_help_panel=WHAT),
    ] = None,
    seeds: Seeds = 1,
    *,
    lab: Lab,
) -> None:
    """NIST's density and range scores on the fire calls, with the plan of DPSyn's section 5.3 and without."""

    def made(listener: Listener) -> Iterator[Sheet]:
        from weft_lab import fire as experiment

        chosen = (
            list(experiment.LINES) if lines is None else [line.strip() for line in lines.split(";") if line.strip()]
        )
        for line in chosen:
            if line not in experiment.LINES:
                raise o.UsageError(f"--lines: there is no line {line!r}. There are: {'; '.join(experiment.LINES)}.")
        budgets = experiment.EPSILONS if epsilons is None else numbers(epsilons)
        return experiment.fire(budgets, chosen, seeds, folder=lab.data_folder, listener=listener)

    lab.tell("fire", made)


@flatten_options
def mechanisms(
    epsilons: Epsilons = None,
    deltas: Annotated[str | None, typer.Option(metavar="D,E", help="Their deltas.", rich_help_panel=WHAT)] = None,
    marginals: Annotated[
        str | None, typer.Option(metavar="K,L", help="Numbers of marginals.", rich_help_panel=WHAT)
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw them as SVG.", rich_help_panel=o.OUTPUT)
    ] = None,
    *,
    lab: Lab,
) -> None:
    """Noise of k marginals by Laplace and Gaussian noise and four ways to add costs up (DPSyn, figure 2)."""

    def made(_: Listener) -> Iterator[Sheet]:
        from weft.errors import OutputError
        from weft_lab import mechanisms as experiment

        settings = experiment.SETTINGS
        if epsilons is not None or deltas is not None:
            settings = tuple(
                (epsilon, delta)
                for epsilon in numbers(epsilons or "0.1,1")
                for delta in numbers(deltas or "1e-6", "--deltas")
            )
        if any(epsilon <= 0 or not 0 < delta < 1 for epsilon, delta in settings):
            raise o.UsageError("--epsilons must be above 0, and --deltas between 0 and 1")
        ks = experiment.MARGINALS if marginals is None else tuple(_whole(word) for word in words(marginals))
        yield from experiment.mechanisms(settings, ks)
        if figure is not None:
            try:
                figure.write_text(experiment.drawn(settings), encoding="utf-8")
            except OSError as error:
                raise OutputError(f"cannot write {figure}: {error.strerror}. Choose another file.") from None

    lab.tell("mechanisms", made, note="")


def _whole(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise o.UsageError(f"--marginals {word}: write whole numbers with commas, such as 1,10,100")
    return int(word)
