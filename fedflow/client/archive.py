"""Archives from a server, unpacked with checks: only plain files, only inside the target folder."""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path

from fedflow.base.errors.data import BadData

MAX_MEMBERS = 100_000
MAX_BYTES = 1 << 40  #: of all members together, unpacked


def unpack(
    archive: Path, target: Path, *, max_members: int = MAX_MEMBERS, max_bytes: int = MAX_BYTES
) -> list[Path]:
    """Unpack a tar.gz into the folder `target` and return the files written, in archive order.

    The whole archive is checked first; if anything in it is not acceptable, nothing is written.

    Raises: BadData: no tar.gz, a member that would lie outside of `target`, a link or a device, or
        more than the limits allow. OSError: `target` cannot be written.
    """
    target.mkdir(parents=True, exist_ok=True)
    root = target.resolve()
    try:
        with tarfile.open(archive, mode="r:gz") as tar:
            members = _checked(tar, root, max_members=max_members, max_bytes=max_bytes)
            for member in members:
                _extract(tar, member, root / member.name)
    except (tarfile.TarError, EOFError, zlib.error) as exc:
        raise BadData(where="the server's archive", reason=str(exc) or "it is cut off") from exc
    except OSError as exc:
        if exc.errno is None:  # gzip reports a broken stream so
            raise BadData(where="the server's archive", reason=str(exc)) from exc
        raise
    return [root / member.name for member in members if member.isfile()]


def _checked(
    tar: tarfile.TarFile, root: Path, *, max_members: int, max_bytes: int
) -> list[tarfile.TarInfo]:
    members: list[tarfile.TarInfo] = []
    size = 0
    for member in tar:
        if not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
        if not _lies_in(root, member.name):
            raise tarfile.TarError(f"{member.name!r} would lie outside of the folder")
        members.append(member)
        size += member.size
        if len(members) > max_members:
            raise tarfile.TarError(f"it has more than {max_members} members")
        if size > max_bytes:
            raise tarfile.TarError(f"it is more than {max_bytes} bytes when unpacked")
    return members


def _lies_in(root: Path, name: str) -> bool:
    """Tell whether a member's place is below `root`, links that are there already included."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        return False
    return Path(os.path.realpath(root / path)).is_relative_to(root)


def _extract(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write a folder or file with its time and this process's own rights.

    `TarFile.extractall` is safe with a filter only, which Python before 3.11.4 does not have.
    """
    content = tar.extractfile(member)
    if content is None:
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)
    with suppress(OSError, OverflowError):  # any number may stand there
        os.utime(path, (member.mtime, member.mtime))
