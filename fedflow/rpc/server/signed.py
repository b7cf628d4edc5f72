"""Calls of other parties that must carry their signature. See `app/administration/keys.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

from fedflow.base.errors.error import FedflowError
from fedflow.wire import envelope, headers
from fedflow.wire.packet import Dispatch

logger = logging.getLogger(__name__)

Check = Callable[[str, bytes, str], None]
"""Party, body, signature. Raises: NotSigned, BadRequest."""

_HTTP_OK: Final = 200


class SignatureCheck:
    """Hands signed calls to `dispatch` and refuses the others."""

    def __init__(self, dispatch: Dispatch, *, check: Check) -> None:
        self._dispatch = dispatch
        self._check = check

    def __call__(self, path: str, given: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        try:
            source = given.get(headers.SOURCE_PARTY, "")
            self._check(source, body, given.get(headers.SITE_SIGNATURE, ""))
        except FedflowError as exc:
            logger.warning(
                "refused a call: %s",
                exc.message[:500],
                extra={"action": "refuse_call", "path": path[:200]},
            )
            return _HTTP_OK, envelope.encode(envelope.failure(exc))
        return self._dispatch(path, given, body)
