"""Deletes what was left of tables, on whatever file system their parts lie.

Also `python -m fedflow.tables.remote_gc ROOT OLDER_THAN_MS`, for the server: Arrow costs 50 MiB,
and an object store may take its time.
"""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from fedflow.app.data.row_folders import (
    GONE,
    address_of,
    left_over,
    read_note,
    remove_rows,
)
from fedflow.base.errors.error import FedflowError
from fedflow.domain.data.table_parts import is_parts_folder, local_path

SWEEP_S: Final = 600  #: longest time of one sweep, seconds

logger = logging.getLogger(__name__)


def remove_all(root: Path, address: str, uri: str | None) -> None:
    """Delete the rows of a table now. Parts that cannot be reached go with a later sweep."""
    remove_rows(root, address, uri)
    gone = root / f"{GONE}{address}"
    if uri is not None and gone.exists():
        remove_left(gone)


def remove_left(folder: Path) -> bool:
    """Delete a folder that was left over, its parts first; tell whether it is gone."""
    uri = read_note(folder)
    if uri is not None and is_parts_folder(uri, address_of(folder)):
        try:
            _remove_parts(uri)
        except (FedflowError, OSError) as exc:
            logger.warning("The parts of a table are not gone yet: %s", exc)
            return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def _remove_parts(uri: str) -> None:
    if (path := local_path(uri)) is not None:
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
        return
    from fedflow.tables.parts import remove_folder  # Arrow

    remove_folder(uri)


class RemoteTableRows:
    """Sweeps one table root on behalf of the server, which has not imported Arrow."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._apart: subprocess.Popen[bytes] | None = None

    def sweep(self, *, older_than_ms: int) -> None:
        """Delete what is left over: given up, or not touched since a time (milliseconds).

        Parts on other file systems are deleted by a process apart, which ends by itself.
        """
        far = False
        for folder in left_over(self._root, older_than_ms=older_than_ms):
            uri = read_note(folder)
            if uri is None or local_path(uri) is not None:
                remove_left(folder)
            else:
                far = True
        if self._apart is not None and self._apart.poll() is None:
            return
        command = [sys.executable, "-m", "fedflow.tables.remote_gc", str(self._root)]
        self._apart = None
        if far:
            self._apart = subprocess.Popen(
                [*command, str(older_than_ms)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """End the process apart; what it did not delete goes with a later sweep."""
        if self._apart is not None:
            self._apart.kill()
            self._apart.wait()


def main(root: str, older_than_ms: str) -> None:
    """Sweep a table root in this process, for `SWEEP_S` at most."""
    signal.alarm(SWEEP_S)
    for folder in left_over(Path(root), older_than_ms=int(older_than_ms)):
        remove_left(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
