"""Archives from a server, unpacked with checks: only plain files, only inside the target folder."""

from __future__ import annotations

import tarfile
import zlib
from pathlib import Path

from fedflow.base.errors import BadData

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
            tar.extractall(root, members=members, filter="data")
    except (tarfile.TarError, EOFError, zlib.error, tarfile.FilterError) as exc:
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
        name = Path(member.name)
        if name.is_absolute() or ".." in name.parts:
            raise tarfile.TarError(f"{member.name!r} would lie outside of the folder")
        members.append(tarfile.data_filter(member, str(root)))
        size += member.size
        if len(members) > max_members:
            raise tarfile.TarError(f"it has more than {max_members} members")
        if size > max_bytes:
            raise tarfile.TarError(f"it is more than {max_bytes} bytes when unpacked")
    return members
