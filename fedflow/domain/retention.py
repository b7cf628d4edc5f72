"""Which ended jobs are meant: ages and statuses as people write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fedflow.base.errors.requests import BadRequest
from fedflow.domain.states import JOB_FINAL, JobStatus

_AGE: Final = re.compile(r"([0-9]{1,6})([hdw])")
_UNITS_MS: Final = {"h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_OLDEST_DAYS: Final = 36_500


def read_age(text: str) -> int:
    """Return an age such as `30d` in milliseconds. Raises: BadRequest."""
    found = _AGE.fullmatch(text.strip().lower())
    age_ms = int(found[1]) * _UNITS_MS[found[2]] if found is not None else 0
    if not 0 < age_ms <= _OLDEST_DAYS * _UNITS_MS["d"]:
        reason = (
            f"{text[:50]!r} is not an age; write a whole number above 0 and h, d or w, such as 30d,"
            f" at most {_OLDEST_DAYS}d"
        )
        raise BadRequest(reason=reason, path="older_than")
    return age_ms


def read_statuses(words: Iterable[str]) -> frozenset[JobStatus]:
    """Return the statuses that words name, all final ones for no words. Raises: BadRequest."""
    known = {status.value: status for status in JOB_FINAL}
    given = [word.strip().lower() for words_ in words for word in words_.split(",")]
    wrong = [word for word in given if word not in known]
    if wrong:
        reason = f"{wrong[0][:50]!r} is not the status of an ended job; known are "
        raise BadRequest(reason=reason + ", ".join(sorted(known)), path="status")
    return frozenset(known[word] for word in given) or JOB_FINAL
