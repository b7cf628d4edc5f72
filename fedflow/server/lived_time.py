"""The file that keeps a server's own time over a restart, while it differs from the machine's.

Its two numbers are a `LivedTime`. There is no file while both times agree, and one that cannot be
read counts as none: then the next server begins with the machine's time. The file is this server's
own, as the clock is its machine's: servers of one party on other machines have other clocks.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from fedflow.base.clock import HOLD_S, LivedTime, SteadyClock
from fedflow.base.disk import write_whole

logger = logging.getLogger(__name__)

KEEP_S: Final = 10.0  #: the file is written again after this time
_DIFFERS_MS: Final = int(HOLD_S * 1000)  #: less than this is not kept


class LivedTimeFile:
    """The file of one home; one thread keeps it up to date."""

    def __init__(self, path: Path, clock: SteadyClock) -> None:
        self._path = path
        self._clock = clock
        self._is_there = False
        self._next_s = 0.0

    def resume(self) -> None:
        """Let the clock go on as the file says, if there is one."""
        lived = _read(self._path)
        if lived is None:
            return
        self._is_there = True
        self._clock.resume(lived)
        now = self._clock.lived()
        logger.info(
            "The time of this server goes on from that of its last run: it differs from this"
            " machine's clock by %.0f s, and comes after it slowly",
            (now.wall_ms - now.steady_ms) / 1000,
            extra={"action": "time_resumed"},
        )

    def keep(self) -> None:
        """Write the file while the times differ, at most once in `KEEP_S`; else remove it."""
        lived = self._clock.lived()
        differs = abs(lived.wall_ms - lived.steady_ms) > _DIFFERS_MS
        if not differs and not self._is_there:
            return
        now_s = self._clock.monotonic_s()
        if differs and self._is_there and now_s < self._next_s:
            return
        self._next_s = now_s + KEEP_S
        try:
            if differs:
                write_whole(self._path, f"{lived.steady_ms} {lived.wall_ms}\n")
            else:
                self._path.unlink(missing_ok=True)
            self._is_there = differs
        except OSError as exc:
            self._is_there = True  # it may be: try again after the pause, not each second
            logger.warning("%s could not be written: %s", self._path, exc.strerror)


def _read(path: Path) -> LivedTime | None:
    try:
        steady_ms, wall_ms = path.read_text(encoding="ascii").split()
        return LivedTime(int(steady_ms), int(wall_ms))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        logger.warning("%s does not hold two times, and is not used: %s", path, exc)
        return None
