"""`weft resume`: finish a run that died after its last question."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.finding import keep_found
from weft.cli.fit import tell_fit
from weft.cli.fitting import check_files
from weft.cli.releasing import destination
from weft.cli.sets import spread
from weft.cli.wanted import Wanted
from weft.progress import stage


@spread
def resume(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="The file NAME-....checkpoint that lies beside the journal.")
    ],
    verbose: o.Verbose = False,
    *,
    screen: o.Screen,
) -> None:
    """Finish a run that died after its last question, from its noisy answers.

    Nothing is drawn a second time, nothing is charged, and no private row is
    read: the run goes on from the answers that it had, and writes what it was
    to write. A run that died before its last question, or before an answer was
    on record, must not be finished, and this says so.

    \b
    [bold]Example[/bold]
      weft resume made-1f2e3d4c.checkpoint
    """
    path = Path(checkpoint)
    terminal = screen.terminal()
    with guard(terminal) as rescue:
        with terminal.progress() as listener:
            with stage(listener, "load"):
                from weft.synthesizer.resume import finished, forget, read_unfinished

            run = read_unfinished(path)
            if not run.wanted:
                raise o.UsageError(f"{path} was written from Python: finish it there (weft.synthesizer.resume)")
            if "output" not in run.wanted:
                model, found = Path(run.wanted["model"]), run.wanted["found"]
                check_files({"the checkpoint": path}, {"the model": model})
                synthesizer = finished(run, listener)
                synthesizer.save(model)
                kept = keep_found(synthesizer, found and Path(found), str(run.header["source"]))
                forget(path)
            else:
                wanted = Wanted.from_dict(run.wanted)
                out = destination(wanted.output)
                wanted.check(out)
                check_files({"the checkpoint": path}, wanted.files(out))
                synthesizer = finished(run, listener)
                card = wanted.make(synthesizer, out, str(run.header["source"]), listener, rescue)
        if "output" not in run.wanted:
            tell_fit(terminal, synthesizer, model, Path(run.wanted["journal"]), kept, verbose)
            return
        wanted.tell(terminal, synthesizer, card, out, rescue, verbose)
        forget(path)
