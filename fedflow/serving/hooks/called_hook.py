"""One hook as a service calls it: within its time limit, and whatever it does.

What a hook says of its own failure is neither answered nor logged, as it may hold values.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final

from fedflow.base.clock import Clock
from fedflow.base.values import dataclass
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.hooks.hook import OpenedHook, RowFault
from fedflow.serving.hooks.limited_calls import HookIsOff, HookTooSlow, LimitedCalls

logger = logging.getLogger(__name__)

_SHOWN: Final = 300  #: characters of a hook's sentence
_LOG_PAUSE_S: Final = 10.0  #: between two lines about one hook

Work = Callable[[Sequence[int]], Any]
"""Calls a hook with some rows, and returns what it gives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HookFailure:
    """What stands in the place of an item that the hook did not give."""

    answer: ItemAnswer


class CalledHook:
    """Calls one hook, and turns what goes wrong into answers to rows. Thread-safe."""

    def __init__(self, opened: OpenedHook, *, limit_ms: int, clock: Clock) -> None:
        self.name = opened.name
        self.hook = opened.hook
        self.may_change_ids = opened.may_change_ids
        self._clock = clock
        self._limit_ms = limit_ms
        self._calls: LimitedCalls | None = None
        if not opened.shipped:
            self._calls = LimitedCalls(opened.name, limit_s=limit_ms / 1000, clock=clock)
        self._next_log_s = 0.0

    def run(self, work: Work, number: int) -> list[Any]:
        """Return what the hook gives for so many rows, with a `HookFailure` where it failed.

        `work` calls the hook with some rows. One that raises is called for each of them alone.
        """

        def all_rows() -> Any:
            try:
                return work(range(number))
            except Exception:
                if number == 1:
                    raise
            return [_tried(work, row) for row in range(number)]

        try:
            given = all_rows() if self._calls is None else self._calls.call(all_rows)
        except HookTooSlow:
            return self._all(self._late(f"took longer than {self._limit_ms} ms"), number)
        except HookIsOff:
            return self._all(self._late("is off, as it hung several times"), number)
        except BaseException as exc:  # noqa: BLE001  a hook may raise SystemExit
            return self._all(self._raised(exc), number)
        items = list(given) if isinstance(given, list | tuple) else []
        if len(items) != number:
            return self._all(self.wrong("gave no list with an item per row"), number)
        return [
            HookFailure(answer=self._raised(one)) if isinstance(one, BaseException) else one
            for one in items
        ]

    @staticmethod
    def _all(answer: ItemAnswer, number: int) -> list[Any]:
        return [HookFailure(answer=answer)] * number

    def wrong(self, what: str) -> ItemAnswer:
        """Return the answer to a row for which the hook gave something else."""
        self._log(what)
        return failed(ServingCode.HOOK, f"the hook {self.name} {what}")

    def refused(self, fault: RowFault) -> ItemAnswer:
        """Return the answer to a row that the hook refused."""
        if not isinstance(fault.reason, str):
            return self.wrong("refuses the row without a sentence")
        reason = fault.reason[:_SHOWN].encode(errors="replace").decode()
        return failed(ServingCode.HOOK, f"the hook {self.name}: {reason}")

    def close(self) -> None:
        """Close the hook, if it can be closed, and let its threads end."""
        close = getattr(self.hook, "close", None)
        if callable(close):
            try:
                close()
            except Exception as exc:  # noqa: BLE001  it is logged without what it says
                self._raised(exc)
        if self._calls is not None:
            self._calls.close()

    def _late(self, what: str) -> ItemAnswer:
        self._log(what)
        return failed(ServingCode.HOOK_LATE, f"the hook {self.name} {what}")

    def _raised(self, exc: BaseException) -> ItemAnswer:
        frames = traceback.extract_tb(exc.__traceback__)
        where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "?"
        self._log(f"raised {type(exc).__name__} at {where}")
        return failed(ServingCode.HOOK, f"the hook {self.name} failed")

    def _log(self, what: str) -> None:
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_log_s:
            self._next_log_s = now_s + _LOG_PAUSE_S
            logger.warning("The hook %s %s", self.name, what, extra={"action": "hook"})


def _tried(work: Work, row: int) -> Any:
    try:
        (given,) = work([row])
    except Exception as exc:  # noqa: BLE001  the row's answer says so
        return exc
    return given
