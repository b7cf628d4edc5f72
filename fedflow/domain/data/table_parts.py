"""Tables that fedflow made as folders of Parquet parts, and where these folders lie.

The description of such a table says `{"parts": URI}` as its `storage`:
`<tables_uri>/parts/<address>` with the table's random address. Its engine is the kind of file
system. A bound table's `storage` says something else: its files are somebody's own, and are never
deleted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

FOLDER: Final = "parts"  #: folder below `tables_uri` that holds one folder per table
_KEY: Final = "parts"
_ADDRESS: Final = re.compile(r"[0-9a-f]{32}")
_STANDALONE: Final = "STANDALONE"


def parts_storage(uri: str) -> dict[str, Any]:
    """Return the `storage` of a table whose parts lie in the folder `uri`."""
    return {_KEY: uri}


def parts_uri(storage: Any) -> str | None:
    """Return the folder of a table's parts, None if it has none."""
    found = storage.get(_KEY) if isinstance(storage, Mapping) else None
    return found if isinstance(found, str) else None


def is_own(engine: str, storage: Any) -> bool:
    """Tell whether the rows of a table are fedflow's own: they go when nobody needs them."""
    return engine == _STANDALONE or parts_uri(storage) is not None


def is_parts_folder(uri: str, address: str) -> bool:
    """Tell whether a URI is that of the parts of the table at `address`."""
    return bool(_ADDRESS.fullmatch(address)) and uri.endswith(f"/{FOLDER}/{address}")


def local_path(uri: str) -> str | None:
    """Return the path that a URI names on this machine, None if it names another file system."""
    if uri.startswith("/"):
        return uri
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else None
