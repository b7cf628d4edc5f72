"""Names of things as parts of addresses and files."""

from __future__ import annotations

import re
import zlib


def slug(text: str, *, always_marked: bool = False) -> str:
    """Return a text of small letters, digits and dashes, at most 50 characters.

    Different texts give different slugs: one that lost something gets a number at its end, with
    `always_marked` every one.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    cut = plain[:40].strip("-")
    if cut == text and not always_marked:
        return cut
    return f"{cut}-{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}".strip("-")
