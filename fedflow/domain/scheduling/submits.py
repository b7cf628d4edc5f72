"""Submits that may be repeated: a client's key names one job, however often its request arrives.

Source: IETF draft `httpapi-idempotency-key-header`. Its header holds a quoted text; a plain one is
taken as well.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Final

from fedflow.base.errors.requests import BadRequest
from fedflow.base.values import dataclass
from fedflow.domain.job.warning import JobWarning

MAX_KEY: Final = 255  #: characters
_KEY: Final = re.compile(rf"[!#-\[\]-~]{{1,{MAX_KEY}}}")  # printable ASCII but blank, quote, \


@dataclass(frozen=True, kw_only=True, slots=True)
class SubmitKey:
    """A key that was used, and the job that it stands for."""

    key: str
    digest: str  #: of what was submitted, see `content_digest`
    job_id: str
    warnings: tuple[JobWarning, ...]  #: what the first answer said
    created_ms: int


def key_in_header(value: str | None) -> str | None:
    """Return the key that a header `Idempotency-Key` holds, which the draft puts in quotes."""
    if value is not None and len(value) > 1 and value[0] == value[-1] == '"':
        return value[1:-1]
    return value


def key_in_conf(conf: object) -> str | None:
    """Return the key among the job parameters of a submitted conf, None if there is none.

    Raises: BadRequest: it is no text.
    """
    section = conf.get("job_parameters") if isinstance(conf, dict) else None
    common = section.get("common", section) if isinstance(section, dict) else None
    key = common.get("idempotency_key") if isinstance(common, dict) else None
    if key is not None and not isinstance(key, str):
        raise BadRequest(reason="the job parameter idempotency_key must be a text")
    return key


def chosen_key(places: Iterable[str | None]) -> str | None:
    """Return the key of a submit from the places where it may stand; None if there is none.

    Raises: BadRequest: a key that cannot be one, or two places that differ.
    """
    given = {key for key in places if key is not None}
    if len(given) > 1:
        raise BadRequest(
            reason="the header Idempotency-Key, idempotency_key of the body and of the job"
            " parameters differ; give one key"
        )
    key = next(iter(given), None)
    if key is not None and not _KEY.fullmatch(key):
        raise BadRequest(
            reason=f"an idempotency key has 1 to {MAX_KEY} printable ASCII characters without"
            f" blanks, quotes and backslashes, not {key[:50]!r}"
        )
    return key


def content_digest(dsl: object, conf: object) -> str:
    """Return the sha256 (hex) of what is submitted, whatever the order of its members."""
    text = json.dumps([dsl, conf], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
