"""Hashing of passwords: scrypt, as werkzeug does it."""

from __future__ import annotations

from typing import Final

from werkzeug.security import check_password_hash, generate_password_hash

_METHOD: Final = "scrypt:32768:8:1"  #: 32 MiB and some 0.1 s of a core


class ScryptPasswords:
    """See `app.administration.accounts.Passwords`."""

    def hash(self, password: str) -> str:
        return generate_password_hash(password, method=_METHOD, salt_length=16)

    def fits(self, hashed: str, password: str) -> bool:
        return check_password_hash(hashed, password)
