"""Parameters without their secrets: values whose names say that nobody should read them."""

from __future__ import annotations

import re
from typing import Any, Final

HIDDEN: Final = "******"

_SECRET: Final = re.compile(
    r"pass(word|wd|phrase|code)|(^|_)(pass|pwd|jwt)(_|$)|secret|token|credential"
    r"|(private|api|access|app|account|signing|hmac|encryption)_?key|key_?material|jaas"
    r"|auth(orization)?$|cookie|bearer",
)
_WORD: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-. ]")
_OF_ADDRESS: Final = re.compile(r"://([^/?#@\s:]*):[^/?#\s]*@")  #: user and password


def masked(value: Any) -> Any:
    """Return a JSON value with `******` in place of secrets, passwords in addresses among them;
    nothing, true and false stay.
    """
    if isinstance(value, dict):
        return {
            name: _hidden(member) if is_secret(str(name)) else masked(member)
            for name, member in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(member) for member in value]
    if isinstance(value, str) and "@" in value:
        return _OF_ADDRESS.sub(rf"://\1:{HIDDEN}@", value)
    return value


def is_secret(name: str) -> bool:
    """Tell whether a name stands for a secret, such as `db_password` or `privateKey`."""
    return _SECRET.search(_WORD.sub("_", name).lower()) is not None


def _hidden(value: Any) -> Any:
    return value if value is None or isinstance(value, bool) or value == "" else HIDDEN
