"""What all contract tests share: connections that do not read this machine's certificates."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _no_authorities() -> Iterator[None]:
    """Let each connection to MySQL trust no authority: it verifies none, but reads them all.

    That takes 20 ms of a core for each connection, and tests open hundreds, all on loopback.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", os.devnull)
        yield
