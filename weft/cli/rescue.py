"""What was paid for is kept, whatever happens to the place where it was asked for.

Between the last charge and the last file there is a model in memory that has cost its whole budget. A full disk, a
folder that went away, Ctrl-C while rows are drawn: a model that is then lost can only be bought again.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.finding import ENDING as FOUND
from weft.cli.finding import keep_found
from weft.release.paths import JOURNAL_ENDING

if TYPE_CHECKING:
    from weft.synthesizer import Synthesizer


class Rescue:
    """Holds what is being fitted until it is safe."""

    def __init__(self, journal: Path | None = None) -> None:
        self._journal = journal
        self._held: Synthesizer | None = None

    def hold(self, synthesizer: Synthesizer) -> None:
        """Take charge of a synthesizer, before it is fitted: from its last charge on it is worth saving."""
        self._held = synthesizer

    def safe(self) -> None:
        """Let go: it has been saved, or everything that was asked for is made. Its checkpoint is needed no more."""
        self.forget()
        self._held = None

    def forget(self) -> None:
        """Remove the checkpoint of a run that is finished, or must not be."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        if path is not None:
            path.unlink(missing_ok=True)

    @property
    def checkpoint(self) -> Path | None:
        """The noisy answers of a run that was not finished, if it has any."""
        path: Path | None = getattr(self._held, "checkpoint_", None)
        return path if path is not None and path.is_file() else None

    @property
    def needed(self) -> bool:
        """Whether there is a model that would be lost, or a schema that was found."""
        return self.whole or hasattr(self._held, "discovered_")

    @property
    def whole(self) -> bool:
        """Whether there is a model, and not only what was found before it was learned."""
        return self._held is not None and hasattr(self._held, "fitted_")

    def save(self) -> Path | None:
        """Save the model, or the schema, in the first place that takes it; None if none does."""
        assert self._held is not None
        ending = ".weft" if self.whole else FOUND
        for folder in self._places():
            path = folder / f"{self._stem()}-{secrets.token_hex(4)}{ending}"
            with suppress(Exception):  # whatever is wrong with this place, there is the next
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if self.whole:
                    self._held.save(path)
                else:
                    keep_found(self._held, path, "a table")
                self.safe()
                return path
        return None

    def _stem(self) -> str:
        return "model" if self._journal is None else self._journal.name.removesuffix(JOURNAL_ENDING) or "model"

    def _places(self) -> Iterator[Path]:
        """Yield beside the journal, the user's folder for what programs keep, and the temporary folder."""
        if self._journal is not None and self._journal.is_file():
            yield self._journal.parent
        yield state_folder()
        yield Path(tempfile.gettempdir())


def state_folder() -> Path:
    """Return the user's own folder for what Weft has to keep."""
    if os.name == "nt" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"]) / "weft"
    given = os.environ.get("XDG_STATE_HOME")
    return (Path(given) if given else Path.home() / ".local" / "state") / "weft"
