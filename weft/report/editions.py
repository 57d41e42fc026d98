"""The two editions of a report, from the files of a release. Which table may be called a release is decided here."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from weft.errors import WeftError
from weft.progress import Listener, silence, stage
from weft.reading.dialect import PLAIN, Dialect
from weft.release.modelfile import Fitted
from weft.report.figures import Report
from weft.report.measure import SEED, measure_private, measure_releasable
from weft.report.provenance import check_release
from weft.report.reading import read_coded
from weft.schema import Schema

File = str | PathLike[str]


def private_report(
    real: File,
    synth: File,
    schema: Schema | None = None,
    *,
    fitted: Fitted | None = None,
    dialect: Dialect = PLAIN,
    listener: Listener = silence,
) -> Report:
    """Compare a synthetic table with the private one, for the curator's eyes.

    Any two tables that fit the schema will do. With `fitted`, whose schema is then the default, the report also states
    the guarantee, so the card beside `synth` must show that this model made it. `dialect` says how the private table is
    written, where it is a text file.
    """
    known = schema if schema is not None or fitted is None else fitted.schema
    if known is None:
        raise WeftError("a schema is needed to read the tables: pass schema, or fitted for its own")
    with stage(listener, "read"):
        if fitted is not None:
            _check(Path(synth), fitted)
        rows, made = read_coded(Path(real), known, dialect), read_coded(Path(synth), dialect.marking(known))
    tables = rows.table, made.table
    return measure_private(rows.records, made.records, rows.codec, fitted, tables=tables, listener=listener)


def releasable_report(fitted: Fitted, synth: File | None = None, *, listener: Listener = silence) -> Report:
    """Compare a released table with the model that made it: free, and may go out with the data.

    The card beside `synth` must show that this model made it. Rows in memory have no card, and a private table looks
    like any other: without a file, the report is on rows that it draws from the model itself.
    """
    if synth is None:
        rows, rng = max(round(fitted.model.total), 1), np.random.default_rng(SEED)
        made = fitted.model.sample(rows, rng, listener)
        table = fitted.rows(made, rng)
    else:
        with stage(listener, "read"):
            _check(Path(synth), fitted)
            found = read_coded(Path(synth), fitted.schema, codec=fitted.codec)
            made, table = found.records, found.table
    return measure_releasable(fitted, made, table=table, listener=listener)


def _check(synth: Path, fitted: Fitted) -> None:
    if synth.is_file():  # else reading it says best what is wrong
        check_release(synth, fitted)
