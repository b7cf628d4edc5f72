"""What the first rows of versions were like, kept over restarts: counts alone, a file per load.

Without it a restart would make rows that have drifted the new reference.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from fedflow.base.disk import write_whole
from fedflow.wire.deployed_model import ReferenceHistograms

logger = logging.getLogger(__name__)

_SUFFIX: Final = ".json"
_reference: Final = msgspec.json.Decoder(ReferenceHistograms)


class LearnedReferences:
    """The files of one process. A fault of the disk costs a reference, and no answer."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self, load_id: str) -> ReferenceHistograms | None:
        """Return what was learned for a load; None: nothing, or the file cannot be read."""
        path = self._path(load_id)
        try:
            return _reference.decode(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as exc:
            logger.warning("%s: %s", path, exc, extra={"action": "read_reference"})
            return None

    def write(self, load_id: str, learned: ReferenceHistograms) -> None:
        """Keep what was learned for a load."""
        try:
            self._folder.mkdir(exist_ok=True)
            write_whole(self._path(load_id), msgspec.json.encode(learned).decode())
        except OSError as exc:
            logger.warning("a reference is not kept: %s", exc, extra={"action": "keep_reference"})

    def keep_only(self, load_ids: Iterable[str]) -> None:
        """Delete what was learned for other loads."""
        kept = {self._path(one).name for one in load_ids}
        try:
            for path in self._folder.glob(f"*{_SUFFIX}"):
                if path.name not in kept:
                    path.unlink(missing_ok=True)
        except OSError as exc:
            logger.warning("old references stay: %s", exc, extra={"action": "keep_reference"})

    def _path(self, load_id: str) -> Path:
        """Return the file of a load; ids have no sign that parts a path."""
        return self._folder / f"{load_id}{_SUFFIX}"
