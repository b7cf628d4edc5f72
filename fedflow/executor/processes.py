"""Which process is which: identity by pid and start time, and signals to whole groups.

A pid alone proves nothing, since the system gives it to somebody else one day. A pid together with
its start time does. A process group keeps its number reserved for as long as it has a member, so a
group whose leader is gone can still be signalled by that number.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from fedflow.domain.records import Handle

if sys.platform != "linux":
    import psutil

_TICKS_PER_S = 100  #: unit of a start time on systems without /proc


def this_host() -> str:
    """Return the name under which handles of this machine are stored."""
    return socket.gethostname()


def handle_of(pid: int) -> Handle | None:
    """Return the handle of a process of this machine, or None if it is gone."""
    start_time = start_time_of(pid)
    if start_time is None:
        return None
    return Handle(pid=pid, start_time=start_time, host=this_host())


def start_time_of(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot, or None if there is none.

    A process that ended and was not waited for still has one. Elsewhere than on Linux the value
    is hundredths of a second since the epoch. Source: proc(5), field 22 of the stat file.
    """
    found = _stat(pid)
    return found[0] if found else None


def is_running(handle: Handle) -> bool:
    """Tell whether the very process of `handle` exists on this machine and has not ended."""
    if handle.host != this_host():
        return False
    found = _stat(handle.pid)
    return found is not None and found[0] == handle.start_time and not found[1]


def signal_group(handle: Handle, number: signal.Signals) -> bool:
    """Send a signal to the group that the process of `handle` leads; False if none is left of it.

    Another process that has got the pid meanwhile is left alone. If the process leads no group, it
    alone gets the signal.
    """
    if handle.host != this_host():
        return False
    found = _stat(handle.pid)
    if found is not None and found[0] != handle.start_time:
        return False
    try:
        os.killpg(handle.pid, number)
    except ProcessLookupError:
        return found is not None and _signal_one(handle.pid, number)
    except PermissionError:  # macOS says so of a group of zombies
        return False
    return True


def group_is_alive(handle: Handle) -> bool:
    """Tell whether the process of `handle` or another member of its group has not ended."""
    if is_running(handle):
        return True
    found = _stat(handle.pid)
    if handle.host != this_host() or (found is not None and found[0] != handle.start_time):
        return False
    return _has_group(handle.pid) and any(_leads(handle.pid, pid) for pid in _all_pids())


def _has_group(number: int) -> bool:
    """Return whether a group has members, ended ones included, without reading every process."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # there are some: somebody else's or, on macOS, zombies
        return True
    return True


def _signal_one(pid: int, number: signal.Signals) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if sys.platform == "linux":

    def _stat(pid: int) -> tuple[int, bool] | None:
        """Return (start time, has ended) of a process."""
        fields = _fields(pid)
        return (int(fields[19]), fields[0] in {"Z", "X"}) if fields else None

    def _leads(group: int, pid: int) -> bool:
        fields = _fields(pid)
        return fields is not None and int(fields[2]) == group and fields[0] not in {"Z", "X"}

    def _all_pids() -> list[int]:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]

    def _fields(pid: int) -> list[str] | None:
        """Return the stat file's fields from the third on: the second may hold any character."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                text = file.read().decode("ascii", "replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        return text.rpartition(")")[2].split()

else:

    def _stat(pid: int) -> tuple[int, bool] | None:
        """Return (start time, has ended) of a process."""
        try:
            process = psutil.Process(pid)
            ended = process.status() == psutil.STATUS_ZOMBIE
            return round(process.create_time() * _TICKS_PER_S), ended
        except psutil.NoSuchProcess:
            return None

    def _leads(group: int, pid: int) -> bool:
        try:
            return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        except (OSError, psutil.NoSuchProcess):
            return False

    def _all_pids() -> list[int]:
        return psutil.pids()
