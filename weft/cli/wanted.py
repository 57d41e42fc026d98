"""What a command that learns a table is to write: noted in its checkpoint, so that a run that dies can be finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from weft.cli.finding import keep_found
from weft.cli.releasing import check_table, release, release_files, report
from weft.cli.rescue import Rescue
from weft.cli.terminal import Terminal
from weft.progress import Listener, silence
from weft.release.tables import DatabaseTable

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer


@dataclass(frozen=True)
class Wanted:
    """A synthetic table, and what lies beside it."""

    output: str
    rows: int | None
    seed: int | None
    formulas: Literal["keep", "escape"]
    model: str | None
    metadata: list[str]
    journal: str
    found: str | None
    """Where a schema is written that was found."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; files by their whole names, so that they are found from any folder."""
        named = {name: str(Path(at).resolve()) for name in ("model", "journal", "found") if (at := getattr(self, name))}
        output = (
            self.output if self.output == "-" or DatabaseTable.of(self.output) else str(Path(self.output).resolve())
        )
        return asdict(self) | named | {"output": output}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Wanted:
        """Rebuild from what `to_dict` gave."""
        return cls(**values)

    @property
    def kept(self) -> Path | None:
        """Where the model is kept."""
        return None if self.model is None else Path(self.model)

    def files(self, out: Path | DatabaseTable | None) -> dict[str, Path]:
        """Name everything that will be written."""
        named = {"the model": self.model, "the schema that is found": self.found}
        return release_files(out, self.metadata) | {what: Path(path) for what, path in named.items() if path}

    def check(self, out: Path | DatabaseTable | None) -> None:
        """Refuse a table of a database that cannot be made."""
        check_table(out, *self.files(out).values(), Path(self.journal))

    def make(
        self,
        synthesizer: Synthesizer,
        out: Path | DatabaseTable | None,
        source: str | list[str],
        listener: Listener,
        rescue: Rescue,
    ) -> dict[str, Any] | None:
        """Write the model, what was found, and the table with its card, which is returned; None for stdout."""
        if self.kept is not None:
            # Before the rows: what was paid for is then safe, whatever happens to them.
            synthesizer.save(self.kept)
            rescue.safe()
        keep_found(synthesizer, None if self.found is None else Path(self.found), source)
        if out is None:
            return None
        return release(synthesizer, out, self.rows, self.seed, self.formulas, listener, metadata=self.metadata)

    def tell(
        self,
        terminal: Terminal,
        synthesizer: Synthesizer,
        card: dict[str, Any] | None,
        out: Path | DatabaseTable | None,
        rescue: Rescue,
        verbose: bool,
    ) -> None:
        """Write the rows to stdout, if they go there, and say what was made."""
        card = card or release(synthesizer, None, self.rows, self.seed, self.formulas, silence)
        rescue.safe()
        found = Path(self.found) if self.found and hasattr(synthesizer, "discovered_") else None
        journal, metadata = Path(self.journal), self.metadata
        report(
            terminal, synthesizer, card, out, journal=journal, model=self.kept, found=found, verbose=verbose,
            metadata=metadata,
        )  # fmt: skip
