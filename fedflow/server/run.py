"""Runs one server in the foreground until a signal ends it.

The home folder belongs to one server at a time (a lock on `run/lock`); `run/server.json` tells the
command line where it listens.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

from fedflow.app.protocol.folders import Folders
from fedflow.base.descriptors import raise_limit
from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.home import HomeLock, OwnFile
from fedflow.base.log import JobLogFiles, ServerLogFile, log_file_of, set_up_logging
from fedflow.base.settings import LOOPBACK, Settings
from fedflow.base.thread_starts import bound_starts
from fedflow.executor.processes import start_time_of
from fedflow.server.build import FedflowServer

logger = logging.getLogger(__name__)

_SWITCH_INTERVAL_S = 0.0005  #: a computing thread must not hold up the others for long
_MIB = 1 << 20
_PRIVATE = 0o077  #: what the server and its processes write is for their own user only


def run(settings: Settings, home: Path, *, reread: Callable[[], Settings] | None = None) -> None:
    """Serve until SIGTERM or SIGINT. `reread` returns the settings as the conf has them later.

    SIGHUP: the log file is opened again; at a terminal, which is gone then, the server ends.

    Raises: HomeInUse, HomeNotUsable: it cannot be written. PortInUse,
    StoreUnavailable, BadSetting: the server cannot start; nothing is left running.
    """
    os.umask(_PRIVATE)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    shared = settings.shared_home
    folders = Folders(home.resolve(), Path(shared) if shared is not None else None)
    given = settings.log
    file = log_file_of(folders.server_log, max_bytes=given.max_mib * _MIB, kept=given.kept)
    set_up_logging(level=given.level, style=given.format, handler=file)
    raise_limit()
    bound_starts()
    _make(folders)
    logging.getLogger().addHandler(JobLogFiles(folders.job_logs))
    stop: SimpleQueue[None] = SimpleQueue()  # may be filled by what interrupts its own reader
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.put(None))
    signal.signal(signal.SIGHUP, lambda *_: _hang_up(file, stop))
    with contextlib.closing(HomeLock(folders.home)) as lock:
        server = FedflowServer(settings, folders.home, reread=reread)
        server.own_parts.keep({"lock": lock})
        state_file = None
        try:
            server.open()
            _announce(server, settings)
            state_file = _state_file(server, folders)
            _collect_again()
            stop.get()
            logger.info("The server stops")
        finally:
            server.close()  # before the file goes: the server puts it back
            if state_file is not None:
                state_file.remove()


def _hang_up(file: ServerLogFile | None, stop: SimpleQueue[None]) -> None:
    if file is not None:
        file.reopen()
    elif os.isatty(2):
        stop.put(None)


def _collect_again() -> None:
    """End what `cli/server.run` began: the collector leaves alone what the start has made."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _make(folders: Folders) -> None:
    try:
        for folder in folders.all():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folders.run.chmod(0o700)
        probe = folders.run / "probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as exc:
        raise HomeNotUsable(path=str(folders.home), reason=exc.strerror or str(exc)) from exc


def _state_file(server: FedflowServer, folders: Folders) -> OwnFile:
    """Write `run/server.json`, which the server keeps while it runs."""
    place = server.place
    assert place is not None  # noqa: S101  # the server is open
    state = {
        "pid": os.getpid(),
        "start_time": start_time_of(os.getpid()),
        "http": f"{place.host}:{place.http_port}",
        "grpc": f"{place.grpc_host}:{place.grpc_port}",
        "party_id": place.party_id,
    }
    file = OwnFile(folders.run / "server.json", json.dumps(state))
    file.restore()
    server.own_parts.keep({"server.json": file})
    return file


def _announce(server: FedflowServer, settings: Settings) -> None:
    place = server.place
    assert place is not None  # noqa: S101
    who = f"party {place.party_id}" if place.party_id else "standalone, hosts every party"
    logger.info(
        "fedflow serves %s: REST on http://%s:%s, parties on %s:%s%s",
        who,
        place.host,
        place.http_port,
        place.grpc_host,
        place.grpc_port,
        " with mutual TLS" if settings.tls.on else "",
    )
    if settings.insecure:
        logger.warning(
            "INSECURE: started with --insecure; without TLS and authentication anybody who reaches"
            " %s or %s may run jobs here",
            place.host,
            place.grpc_host,
        )
    elif not settings.tls.on and settings.fateflow.parties_host in LOOPBACK and settings.routes:
        logger.warning("Calls between parties are not encrypted: no `tls` in the settings")
