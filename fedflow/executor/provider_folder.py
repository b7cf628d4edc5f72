"""Provider folders: what their manifest says, and the file that remembers which are registered.

A manifest is `provider.toml` or `provider.json`:

    name = "lab"                      # as jobs name it
    version = "1.0"
    components = "lab.means:COMPONENTS"   # module:attribute, imported from this folder
    python = ".venv/bin/python"       # optional: an interpreter of its own, which has fedflow
"""

from __future__ import annotations

import json
import logging
import os
import re
import stat
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from fedflow.base.decoding import read_as
from fedflow.base.errors.components import ProviderRefused
from fedflow.domain.job.providers import PROVIDERS, ProviderManifest, RegisteredProvider
from fedflow.executor.described import check_described

logger = logging.getLogger(__name__)

MANIFESTS: Final = ("provider.toml", "provider.json")
_MANIFEST_BYTES: Final = 64 * 1024
_SHOWN: Final = 300

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,19}")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,19}")
_COMPONENTS: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class _Written(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A manifest as it stands in its file."""

    name: str
    version: str
    components: str
    python: str = ""


class ProviderFolders:
    """Satisfies `app.ports.components.ProviderFolders`: reads manifests below the allowed
    folders.
    """

    def __init__(self, allowed: tuple[Path, ...], *, own: bool = False) -> None:
        """`own` folders are those of the user of this process: others may write to them, too."""
        self._allowed = allowed
        self._own = own

    def read(self, path: str) -> ProviderManifest:
        """Return what a folder says. Raises: ProviderRefused."""
        folder = self._folder(path)
        for name in MANIFESTS:
            if os.path.isfile(folder / name):
                manifest = _manifest(folder, folder / name)
                if not self._own:
                    self._refuse_open(folder, folder / name, Path(manifest.python or folder))
                return manifest
        reason = "the folder holds no provider.toml; FATE's own packages cannot be run here"
        raise ProviderRefused(provider=path[:_SHOWN], reason=reason)

    def _folder(self, path: str) -> Path:
        """Return the folder itself; whether one elsewhere exists is not said."""
        try:
            folder = Path(path).resolve()
            inside = any(folder.is_relative_to(allowed.resolve()) for allowed in self._allowed)
        except (OSError, ValueError, RuntimeError):
            inside, folder = False, Path(path[:_SHOWN])
        if Path(path).is_absolute() and not inside:
            places = ", ".join(map(str, self._allowed))
            reason = f"it is outside of {places}; see the setting provider.allowed_folders"
            raise ProviderRefused(provider=path[:_SHOWN], reason=reason)
        if not inside or not os.path.isdir(folder):
            reason = "the path must be an absolute folder of the server's machine"
            raise ProviderRefused(provider=path[:_SHOWN], reason=reason)
        return folder

    def _refuse_open(self, folder: Path, *files: Path) -> None:
        """Raises: ProviderRefused: anybody may write what would run with the server's rights."""
        roots = [allowed.resolve() for allowed in self._allowed]
        above = [p for p in folder.parents if any(p.is_relative_to(root) for root in roots)]
        for path in (folder, *files, *above):
            mode = path.stat().st_mode
            if mode & stat.S_IWOTH and not (path in above and mode & stat.S_ISVTX):
                reason = f"every user may write to {path}; `chmod o-w` takes that right away"
                raise ProviderRefused(provider=str(folder), reason=reason)


class ProviderFile:
    """Satisfies `app.ports.components.ProviderRegistry`: one JSON file, replaced as a whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def all(self) -> Sequence[RegisteredProvider]:
        """Return the registered ones in the order of their registration; a file that cannot be
        read counts as empty, and is named in the log.
        """
        with self._lock:
            return self._read()

    def put(self, provider: RegisteredProvider) -> None:
        """Add a provider version, in place of an earlier one. Raises: OSError."""
        with self._lock:
            others = [p for p in self._read() if p.manifest.label != provider.manifest.label]
            self._write([*others, provider])

    def remove(self, name: str, version: str) -> bool:
        """Forget a version; False if it was not there. Raises: OSError."""
        with self._lock:
            known = self._read()
            kept = [p for p in known if (p.manifest.name, p.manifest.version) != (name, version)]
            if len(kept) < len(known):
                self._write(kept)
            return len(kept) < len(known)

    def _read(self) -> list[RegisteredProvider]:
        try:
            rows = json.loads(self._path.read_bytes())
            return [one for one in read_as(rows, list[RegisteredProvider]) if _usable(one)]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as exc:  # msgspec's errors are ValueErrors
            logger.error("%s cannot be read: %s", self._path, exc, extra={"action": "providers"})
            return []

    def _write(self, providers: Sequence[RegisteredProvider]) -> None:
        new = self._path.with_suffix(".new")
        new.write_bytes(msgspec.json.format(msgspec.json.encode(list(providers))))
        os.replace(new, self._path)


def _usable(one: RegisteredProvider) -> bool:
    """Tell whether a description is still as this release reads it; if not, the log says so."""
    try:
        check_described(one.described)
    except msgspec.ValidationError as exc:
        text = "Provider %s must be registered again: %s"
        logger.error(text, one.manifest.label, exc, extra={"action": "providers"})
        return False
    return True


def _manifest(folder: Path, file: Path) -> ProviderManifest:
    """Return the checked content of a manifest. Raises: ProviderRefused."""

    def refused(reason: str) -> ProviderRefused:
        return ProviderRefused(provider=str(file), reason=reason)

    try:
        with file.open("rb") as opened:
            text = opened.read(_MANIFEST_BYTES + 1)
        if len(text) > _MANIFEST_BYTES:
            raise refused(f"it is longer than {_MANIFEST_BYTES} bytes")
        written = read_as(_parsed(text.decode(), file.suffix), _Written)
    except (OSError, ValueError, RecursionError) as exc:
        raise refused(str(exc)) from exc
    if not _NAME.fullmatch(written.name) or written.name in (*PROVIDERS, "fate_sql"):
        raise refused(
            f"`name` {written.name[:50]!r} must be 1 to 20 of a-z, 0-9 and _, and not FATE's own"
        )
    if not _VERSION.fullmatch(written.version):
        raise refused("`version` must be 1 to 20 letters, digits, dots, `_`, `+` or `-`")
    if not _COMPONENTS.fullmatch(written.components):
        raise refused("`components` must be `module:attribute`")
    python = ""
    if written.python:
        python = str(Path(os.path.abspath(folder / written.python)))  # a venv's link is kept
        if not os.access(python, os.X_OK) or not Path(python).is_file():
            raise refused(f"`python` {written.python[:_SHOWN]!r} is no program")
    return ProviderManifest(
        name=written.name,
        version=written.version,
        path=str(folder),
        python=python,
        components=written.components,
    )


def _parsed(text: str, suffix: str) -> object:
    """Return what TOML or JSON says. Raises: ValueError, RecursionError."""
    if suffix != ".toml":
        return json.loads(text)
    import tomllib  # few servers read a manifest

    return tomllib.loads(text)
