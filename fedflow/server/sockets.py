"""Where the server's unix sockets lie: in its home, or, if that path is too long for one, beside
it.

The place depends on the home alone, so that executors find a restarted server again.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from fedflow.app.protocol.folders import Folders
from fedflow.base.errors.start import HomeNotUsable

_LONGEST = 100  #: bytes that the address of a unix socket may have, with some to spare
_NAME = "federation.sock"


def socket_folder(folders: Folders) -> Path:
    """Return a private folder for sockets, made if need be. Raises: HomeNotUsable."""
    if len(os.fsencode(folders.run / _NAME)) <= _LONGEST:
        return folders.run
    digest = hashlib.sha256(os.fsencode(folders.home.resolve())).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"fedflow-{os.getuid()}-{digest}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError as exc:
        raise HomeNotUsable(path=str(folder), reason=exc.strerror or str(exc)) from exc
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise HomeNotUsable(path=str(folder), reason="it belongs to somebody else")
    return folder
