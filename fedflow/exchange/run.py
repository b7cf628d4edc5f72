"""Runs one exchange in the foreground until a signal ends it.

Its home belongs to one process at a time (a lock on `run/lock`); `run/server.json` tells the
command line where it listens.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import signal
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from fedflow.base.descriptors import raise_limit
from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.home import HomeLock, OwnFile
from fedflow.base.log import log_file_of, set_up_logging
from fedflow.base.thread_starts import bound_starts
from fedflow.exchange.process import ExchangeProcess
from fedflow.exchange.settings import ExchangeSettings
from fedflow.executor.processes import start_time_of

logger = logging.getLogger(__name__)

_MIB: Final = 1 << 20
_PRIVATE: Final = 0o077


def run(settings: ExchangeSettings, home: Path) -> None:
    """Pass calls on until SIGTERM or SIGINT; `home` is the folder of this process.

    Raises: HomeInUse, HomeNotUsable, PortInUse, BadSetting: the process cannot start; nothing is
    left running.
    """
    os.umask(_PRIVATE)
    given = settings.log
    file = log_file_of(
        home / "server-logs" / "server.log", max_bytes=given.max_mib * _MIB, kept=given.kept
    )
    set_up_logging(level=given.level, style=given.format, handler=file)
    raise_limit()
    bound_starts()
    try:
        (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise HomeNotUsable(path=str(home), reason=exc.strerror or str(exc)) from exc
    stop: SimpleQueue[None] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.put(None))
    if file is not None:
        signal.signal(signal.SIGHUP, lambda *_: file.reopen())
    with contextlib.closing(HomeLock(home)):
        process = ExchangeProcess(settings)
        state_file = None
        try:
            process.open()
            state_file = _state_file(process, settings, home)
            logger.info(
                "the exchange of %s listens on %s:%d, its status on http://%s:%d",
                ", ".join(sorted(settings.parties)), settings.host, process.port,
                settings.status.host, process.status_port,
            )  # fmt: skip
            gc.collect()
            gc.freeze()
            gc.enable()
            stop.get()
            logger.info("The exchange stops")
        finally:
            process.close()
            if state_file is not None:
                state_file.remove()


def _state_file(process: ExchangeProcess, settings: ExchangeSettings, home: Path) -> OwnFile:
    state = {
        "pid": os.getpid(),
        "start_time": start_time_of(os.getpid()),
        "http": f"{settings.status.host}:{process.status_port}",
        "grpc": f"{settings.host}:{process.port}",
    }
    file = OwnFile(home / "run" / "server.json", json.dumps(state))
    file.restore()
    return file
