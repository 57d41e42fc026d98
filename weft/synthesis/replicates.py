"""Replicates: the whole release repeated on simulated tables, at no privacy cost, for intervals that hold.

A parent table of the noisy size is drawn from the released model; the same method is fitted to it with the same budget
and fresh noise, and a replicate table is sampled from that fit. The error of a replicate against its own parent is
known, and its distribution estimates that of the release against the private table (a parametric bootstrap).

Privacy: parents are drawn from the released model, so everything here is post-processing of the release. The ledger of
a replicate counts charges against simulated rows; no private row is read, and no lifetime budget is charged.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weft.encoding import Codec
from weft.errors import DataError, WeftError
from weft.io.atomic_files import stage_files
from weft.io.table_files import write_table
from weft.privacy import Budget
from weft.progress import Listener, ignore_event, report_stage
from weft.synthesis.fit_request import FitRequest
from weft.synthesis.fitted import Fitted
from weft.synthesis.model_file import load_model, save_model
from weft.synthesis.statement import default_rows
from weft.synthesis.synthesizer import Synthesizer

MANIFEST = "replicates.json"
FORMAT = 1
DERIVED = (
    "Simulated tables, derived from a released model at no privacy cost: no private row was read to make them. They "
    "measure the error of the release and are not further releases of the private table."
)
MIN_REPLICATES = 5


@dataclass(frozen=True)
class Replicates:
    """Pairs of a parent table and its replicate, with what is known of the release they repeat."""

    facts: dict[str, Any]
    """The manifest."""
    pairs: tuple[tuple[pa.Table, pa.Table], ...]

    @property
    def codec(self) -> Codec:
        """The codec of the release."""
        return Codec.from_dict(self.facts["codec"])

    @classmethod
    def read(cls, folder: Path) -> Replicates:
        """Read a folder of replicates; DataError if it is none, or incomplete."""
        facts = _read_manifest(folder)
        if facts is None:
            raise DataError(f"{folder}: no replicates here ({MANIFEST}). Make them: weft replicates MODEL -o {folder}")
        found = [_files_of(folder, number) for number in range(1, facts["replicates"] + 1) if _is_done(folder, number)]
        if len(found) < facts["replicates"]:
            raise DataError(
                f"{folder}: {len(found)} of {facts['replicates']} replicates are complete. Run the same `weft "
                "replicates` command again: it continues"
            )
        return cls(facts, tuple((pq.read_table(parent), pq.read_table(made)) for parent, made in found))


def make_replicates(
    model: Path,
    folder: Path,
    n: int,
    *,
    seed: int = 0,
    rows: int | None = None,
    processes: int = 2,
    listener: Listener = ignore_event,
) -> list[int]:
    """Write n replicates of a model file to a folder, and return the numbers of those that were not there yet.

    Each replicate depends on the model, the seed and its number only, so an interrupted run continues where it ended.
    """
    fitted, known = load_model(model), _read_manifest(folder)
    facts = describe_replicates(fitted, n, seed, rows)
    if known is not None and known | {"replicates": n} != facts:
        raise DataError(f"{folder}: these are replicates of another model, seed or size. Name another folder (-o)")
    folder.mkdir(parents=True, exist_ok=True)
    with stage_files(folder / MANIFEST) as (draft,):
        most = max(n, known["replicates"] if known else 0)
        draft.write_text(json.dumps(facts | {"replicates": most}, indent=1) + "\n", encoding="utf-8")
    waiting = [number for number in range(1, n + 1) if not _is_done(folder, number)]
    with report_stage(listener, "repeat the release", len(waiting)) as work:
        if processes < 2:
            for number in waiting:
                _write_replicate(fitted, folder, number, seed, rows)
                work.advance()
        else:
            _run_workers([str(model), str(folder), str(seed), str(rows)], folder, waiting, processes, work.advance)
    return waiting


def _run_workers(
    arguments: list[str], folder: Path, waiting: Sequence[int], processes: int, advance: Callable[[int], None]
) -> None:
    """Make replicates in several processes, each of which takes every k-th; stop all of them if one fails."""
    command, workers, done = [sys.executable, "-m", "weft.synthesis.replicates", *arguments], [], 0
    with ExitStack() as held:
        for start in range(min(processes, len(waiting))):
            told = held.enter_context(tempfile.TemporaryFile())
            worker = subprocess.Popen([*command, *map(str, waiting[start::processes])], stderr=told)  # noqa: S603
            held.callback(worker.wait)
            held.callback(worker.terminate)
            workers.append((worker, told))
        while done < len(waiting):
            now = sum(_is_done(folder, number) for number in waiting)
            advance(now - done)
            done = now
            for worker, told in workers:
                if worker.poll():
                    told.seek(0)
                    why = told.read().decode(errors="replace").strip().splitlines() or ["its process ended"]
                    raise WeftError(f"a replicate could not be made: {why[-1]}")
            time.sleep(0.05)


def describe_replicates(fitted: Fitted, n: int, seed: int, rows: int | None) -> dict[str, Any]:
    """Return the manifest; WeftError if the model cannot be repeated."""
    if n < MIN_REPLICATES:
        raise WeftError(f"at least {MIN_REPLICATES} replicates are needed to estimate an error; 20 are usual")
    if fitted.model.fixed_records:
        raise WeftError(
            "this model holds records that were grown from private rows, which cannot be drawn again: replicates need "
            "a method that samples from a model"
        )
    parts = {name: fitted.codec.part_of(name) for name in fitted.codec.arrow_schema.names}
    facts = {
        "format": FORMAT,
        "replicates": n,
        "note": DERIVED,
        "privacy_cost": 0,
        "stamps": list(fitted.ledger.stamps),
        "fit": identify_fit(fitted.method, fitted.options, fitted.ledger.to_dict()),
        "seed": seed,
        "rows": rows,
        "expected_rows": default_rows(fitted) if rows is None else rows,
        "attributes": {name: [] if part is None else list(part.domain) for name, part in parts.items()},
        "measured": sorted({tuple(sorted(table.clique)) for table in fitted.measured if len(table.clique) > 1}),
        "codec": fitted.codec.to_dict(),
    }
    values: dict[str, Any] = json.loads(json.dumps(facts))
    return values


def identify_fit(method: str, options: Any, ledger: Any) -> str:
    """Return a hash of a fit, which its model file and the cards of its tables have in common."""
    return sha256(json.dumps([method, options, ledger], sort_keys=True).encode()).hexdigest()


def find_budget(fitted: Fitted) -> Budget:
    """Return the budget of a replicate: that of the release, without what discovery spent of it."""
    ledger = fitted.ledger
    spent = math.fsum(entry.cost for entry in ledger.entries if entry.purpose == "discovery")
    if not spent:
        return ledger.budget
    unit = "epsilon" if ledger.accounting.is_pure else "rho"
    return Budget(**{unit: ledger.capacity - spent}, delta=ledger.budget.delta, insecure=ledger.budget.insecure)


def draw_replicate(fitted: Fitted, number: int, seed: int, rows: int | None = None) -> tuple[pa.Table, pa.Table]:
    """Draw a parent table from the model, and release it again: the same method and budget, and fresh noise."""
    first, noise, last = map(int, np.random.SeedSequence([seed, number]).generate_state(3))
    rng, n = np.random.default_rng(first), default_rows(fitted)
    # Models sample with less than random variation; rows drawn with replacement vary like those of a real table.
    parent = fitted.rows(fitted.model.sample(n, rng).take(rng.integers(0, max(n, 1), n)), rng)
    request = FitRequest(
        source=parent,
        schema=fitted.schema,
        unit=None if fitted.schema.unit else False,
        budget=find_budget(fitted),
        method=fitted.method,
        options=fitted.options,
        neighbours=fitted.ledger.adjacency.relation,
        trust_data_for_schema=True,  # nothing private is read
        seed=first,
        noise_seed=noise,
    )
    return parent, Synthesizer.of_request(request).fit_request(request).sample(rows, seed=last)


def _write_replicate(fitted: Fitted, folder: Path, number: int, seed: int, rows: int | None) -> None:
    with stage_files(*_files_of(folder, number)) as drafts:
        for table, draft in zip(draw_replicate(fitted, number, seed, rows), drafts, strict=True):
            write_table([table], draft, ".parquet")


def _files_of(folder: Path, number: int) -> tuple[Path, Path]:
    return folder / f"parent-{number:03}.parquet", folder / f"replicate-{number:03}.parquet"


def _is_done(folder: Path, number: int) -> bool:
    return all(path.is_file() for path in _files_of(folder, number))


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    path = folder / MANIFEST
    try:
        facts: dict[str, Any] = json.loads(path.read_bytes())
        if facts["format"] == FORMAT:
            return facts
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, LookupError):
        pass
    raise DataError(f"{path}: damaged, or written by another version. Make the replicates again")


def make_for(
    fitted: Fitted, kept: Path | None, n: int, seed: int, processes: int, listener: Listener = ignore_event
) -> Replicates:
    """Return n replicates of a fit, and keep them in a folder if one is named."""
    with tempfile.TemporaryDirectory(prefix="weft-replicates-") as place:
        model, folder = Path(place) / "model.weft", kept or Path(place) / "replicates"
        save_model(fitted, model)
        make_replicates(model, folder, n, seed=seed, processes=processes, listener=listener)
        return Replicates.read(folder)


if __name__ == "__main__":
    place, target, first_seed, size, *numbers = sys.argv[1:]
    try:
        held, chosen = load_model(Path(place)), None if size == "None" else int(size)
        for each in numbers:
            _write_replicate(held, Path(target), int(each), int(first_seed), chosen)
    except WeftError as error:
        sys.exit(str(error))
