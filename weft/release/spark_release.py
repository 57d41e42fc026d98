"""Write a release as a folder of Parquet files on Spark's executors, for tables too large for one machine.

The table is generated in blocks, one file each. A block depends only on the model, the seed and its number: the same
seed gives the same files on any number of executors, and a task that Spark repeats writes the same block again.

Privacy: post-processing; only the fitted model is sent to the executors.
"""

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import DataError, OutputError
from weft.file_names import sync_folder
from weft.io.atomic_files import hash_file, stage_files
from weft.io.formats import find_format
from weft.io.output_tables import Dataset
from weft.io.spark_source import explain_spark_errors, spark_session
from weft.io.table_files import write_table
from weft.progress import Listener, ignore_event, report_stage
from weft.release.card import card_json
from weft.release.publish import write_cards
from weft.synthesis import model_file as modelfile
from weft.synthesis.conditional_sampling import BLOCK_ROWS
from weft.synthesis.fitted import Fitted

PARTS = "parquet"
"""File format of the blocks."""


@dataclass(frozen=True)
class Write:
    """Task of an executor: write blocks and return their numbers."""

    model: Any
    """Bytes of the model file; on executors, a Spark broadcast of them."""
    rows: int
    seed: int
    folder: str
    block_rows: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the blocks with these numbers."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                self._write(number)
                yield pa.RecordBatch.from_pydict({"block": pa.array([number], pa.int64())})

    def _write(self, number: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.weft"
            path.write_bytes(self.model.value)
            fitted = modelfile.load_model(path)
        start = number * self.block_rows
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(number,)))
        records = fitted.model.sample(min(self.block_rows, self.rows - start), rng, ignore_event)
        table = fitted.rows(records, rng, start)
        name = Path(self.folder) / _name_part_file(number)
        draft = name.with_name(f".{name.name}.{secrets.token_hex(4)}")  # unique to this attempt
        try:
            write_table([table], draft, name.suffix, schema=fitted.schema)
            draft.replace(name)
        finally:
            draft.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def publish_dataset(
    model: Path,
    fitted: Fitted,
    rows: int,
    dataset: Dataset,
    seed: int | None,
    listener: Listener = ignore_event,
    block_rows: int = BLOCK_ROWS,
) -> dict[str, Any]:
    """Sample rows from a model file on Spark, and write them with their cards; the folder appears once complete."""
    dataset.check()
    seed = secrets.randbits(128) if seed is None else seed
    blocks = max(1, -(-rows // block_rows))
    folder = dataset.folder.resolve()
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
    with stage_files(dataset.card, dataset.card_json) as (card, card_as_json):
        try:
            draft.mkdir()
            with report_stage(listener, "sample on Spark"):
                _run_spark_job(Write(model.read_bytes(), rows, seed, str(draft), block_rows), blocks)
            if [path.name for path in parts_of(draft)] != [_name_part_file(number) for number in range(blocks)]:
                raise OutputError(
                    "the executors did not write to a folder that this machine can read. Use a folder that all of them "
                    "share."
                )
            facts = card_json(fitted, rows, name=folder.name, sha256=dataset_sha256(draft))
            write_cards(facts, card, card_as_json)
            sync_folder(draft)
            draft.rename(folder)
        finally:
            with suppress(OSError):
                if draft.exists():
                    shutil.rmtree(draft)
    return facts


def _run_spark_job(work: Write, blocks: int) -> None:
    try:
        session = spark_session()
        with explain_spark_errors("the sample"):
            sent = session.sparkContext.broadcast(work.model)
            numbers = session.range(0, blocks, 1, blocks)
            numbers.mapInArrow(
                Write(sent, work.rows, work.seed, work.folder, work.block_rows), "block bigint"
            ).collect()
    except DataError as fault:
        raise OutputError(f"sampling on Spark failed. {fault}") from None


def dataset_sha256(folder: Path) -> str:
    """Return the SHA-256 of the list of files: one line "hash  name" per file, sorted by name."""
    lines = [f"{hash_file(path)}  {path.name}\n" for path in parts_of(folder)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def parts_of(folder: Path) -> list[Path]:
    """Return the files of a dataset in row order."""
    return sorted(folder.glob(f"part-*{find_format(PARTS).endings[0]}"))


def _name_part_file(number: int) -> str:
    return f"part-{number:06d}{find_format(PARTS).endings[0]}"
