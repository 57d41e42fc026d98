"""`weft sample`: rows from a model, at no further cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options as o
from weft.cli.failure import guard
from weft.cli.fitting import check_files
from weft.cli.releasing import check_table, destination, release, release_files, report
from weft.cli.sets import spread
from weft.cli.terminal import Terminal
from weft.progress import stage

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only rows such as sex=F, age>=65, ward=a|b, ward!=c, income is missing; may be given several times. "
        "Without -n: those of a whole table that meet all.",
    ),
]

OnSpark = Annotated[
    bool,
    typer.Option(
        "--spark",
        metavar="",
        help="Make the rows on Spark's executors, as Parquet files in the new folder -o; the same files for the same "
        "seed on any number of executors.",
    ),
]


@spread
def sample(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model file made by `weft fit`, or by `weft synth --model`.")
    ],
    output: o.Out,
    rows: o.Rows = None,
    where: Where = None,
    seed: o.Seed = None,
    formulas: o.Formulas = "keep",
    spark: OnSpark = False,
    memory: o.Memory = None,
    *,
    screen: o.Screen,
) -> None:
    """Make synthetic rows from a model. Costs no budget, however often and however many.

    Rows are made and written in blocks, so the table may be larger than memory.

    \b
    [bold]Examples[/bold]
      weft sample stays.weft -o synthetic.csv
      weft sample stays.weft -n 50000000 -o synthetic.parquet
      weft sample stays.weft -n 10 --seed 1 -o -
      weft sample stays.weft -n 500 --where "sex=F" --where "age>=65" -o old.csv
      weft sample stays.weft --where "ward=surgery|medicine" -o wards.csv
      weft sample stays.weft -n 1000000000 --spark -o made/

    With --where every row meets all conditions, and the card says so: such a
    table is a part, and not the whole.
    """
    terminal = screen.terminal(data_on_stdout=output == "-")
    with guard(terminal):
        if spark:
            _on_spark(terminal, Path(model), output, rows, where, seed, formulas)
            return
        out = destination(output)
        check_files({"the model": Path(model)}, release_files(out))
        check_table(out)
        o.check_model_file(Path(model))
        with terminal.progress() as listener:
            with stage(listener, "load"):
                from weft.synthesizer import load

                synthesizer = load(model).set_params(memory=memory)
            if out is not None:
                card = release(synthesizer, out, rows, seed, formulas, listener, where)
        if out is None:
            card = release(synthesizer, None, rows, seed, formulas, where=where)
        report(terminal, synthesizer, card, out)


def _on_spark(
    terminal: Terminal,
    model: Path,
    output: str,
    rows: int | None,
    where: list[str] | None,
    seed: int | None,
    formulas: str,
) -> None:
    if where or formulas != "keep":
        raise o.UsageError("--spark makes whole tables, as Parquet files: leave out --where and --formulas")
    from weft.release.dataset import publish_dataset
    from weft.release.statement import default_rows
    from weft.release.tables import Dataset

    dataset = Dataset.of(output)
    check_files({"the model": model}, release_files(dataset))
    o.check_model_file(model)
    with terminal.progress() as listener:
        with stage(listener, "load"):
            from weft.synthesizer import load

            synthesizer = load(model)
        fitted = synthesizer.fitted_
        wanted = default_rows(fitted) if rows is None else rows
        card = publish_dataset(model, fitted, wanted, dataset, seed, listener)
    report(terminal, synthesizer, card, dataset)
