"""Encrypts credentials for the database, with keys in a file beside it.

The file has one key of Fernet (AES-128-CBC with HMAC-SHA256) per line. The first one encrypts, each
may decrypt: to change keys, put a new line on top, start the server, and remove the old line.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.ids import new_request_id

_OTHERS: Final = 0o077  #: what other users of the machine may not do with the file


class KeyFile:
    """The keys in `path`; satisfies `app.data.connectors.Sealer`. Several servers may share it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._keys: tuple[Fernet, ...] = ()

    def seal(self, text: str) -> str:
        """Return `text` encrypted with the first key; makes one if there is none.

        Raises: HomeNotUsable: the file cannot be used, or other users may read it.
        """
        return self._loaded(make=True)[0].encrypt(text.encode()).decode()

    def unseal(self, sealed: str) -> str | None:
        """Return what was sealed, None if no key fits. Raises: HomeNotUsable."""
        keys = self._loaded(make=False)
        try:
            return MultiFernet(keys).decrypt(sealed.encode()).decode() if keys else None
        except InvalidToken:
            return None

    def is_fresh(self, sealed: str) -> bool:
        """Tell whether the first key sealed it. Raises: HomeNotUsable."""
        keys = self._loaded(make=False)
        if not any(_fits(key, sealed) for key in keys):
            return True  # nothing can renew it
        return _fits(keys[0], sealed)

    def _loaded(self, *, make: bool) -> tuple[Fernet, ...]:
        with self._lock:
            if not self._keys:
                try:
                    if make and not self._path.exists():
                        self._make()
                    self._keys = self._load()
                except OSError as exc:
                    raise self._unusable(exc.strerror or type(exc).__name__) from exc
            return self._keys

    def _load(self) -> tuple[Fernet, ...]:
        """Raises: HomeNotUsable, OSError."""
        try:
            with self._path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & _OTHERS:
                    raise self._unusable("other users may read it; its mode must be 600")
                lines = file.read().decode(errors="replace").split()
        except FileNotFoundError:
            return ()
        try:
            keys = tuple(Fernet(line) for line in lines)
        except ValueError as exc:
            raise self._unusable("a line is no key") from exc
        if not keys:
            raise self._unusable("it has no key")
        return keys

    def _make(self) -> None:
        """Store a new key before it is used; a key that another server stored meanwhile stays."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = self._path.with_name(f"{self._path.name}.{new_request_id()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(Fernet.generate_key() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileExistsError):
                os.link(temporary, self._path)
        finally:
            temporary.unlink(missing_ok=True)

    def _unusable(self, reason: str) -> HomeNotUsable:
        return HomeNotUsable(path=str(self._path), reason=reason)


def _fits(key: Fernet, sealed: str) -> bool:
    try:
        key.decrypt(sealed.encode())
    except InvalidToken:
        return False
    return True
