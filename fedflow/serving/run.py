"""Runs one serving process in the foreground until a signal ends it.

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
import sys
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from fedflow.base.decoding import decode_as
from fedflow.base.descriptors import raise_limit
from fedflow.base.errors.start import HomeNotUsable
from fedflow.base.home import HomeLock, OwnFile
from fedflow.base.log import log_file_of, set_up_logging
from fedflow.base.thread_starts import bound_starts
from fedflow.executor.processes import start_time_of
from fedflow.serving.online import Build, ServableModel
from fedflow.serving.process import ServingProcess
from fedflow.serving.settings import ServingSettings
from fedflow.wire.deployed_model import DeployedModel

logger = logging.getLogger(__name__)

_SWITCH_INTERVAL_S: Final = 0.0005  #: a computing thread must not hold up the others for long
_MIB: Final = 1 << 20
_PRIVATE: Final = 0o077


def build_share(share: bytes, *, nn_folder: Path | None = None) -> ServableModel:
    """Return the model of a share's JSON; `nn_folder` has this party's own classes of HomoNN.

    Raises: FedflowError: why it cannot be served.
    """
    from fedflow.serving.scoring.pipeline import build  # a process without models needs none of it

    return build(decode_as(share, DeployedModel), nn_folder=nn_folder)


def run(settings: ServingSettings, home: Path, *, build: Build | None = None) -> None:
    """Serve until SIGTERM or SIGINT; `home` is the folder of this process.

    `build` makes models of shares; None: by `build_share`.

    Raises: HomeInUse, HomeNotUsable, PortInUse, BadSetting, ServingStateNotUsable: the process
    cannot start; nothing is left running.
    """
    os.umask(_PRIVATE)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    given = settings.log
    file = log_file_of(
        home / "server-logs" / "server.log", max_bytes=given.max_mib * _MIB, kept=given.kept
    )
    set_up_logging(level=given.level, style=given.format, handler=file)
    raise_limit()
    bound_starts()
    _make(home)
    stop: SimpleQueue[None] = SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.put(None))
    if file is not None:
        signal.signal(signal.SIGHUP, lambda *_: file.reopen())
    with contextlib.closing(HomeLock(home)):
        own = None if settings.nn_folder is None else Path(settings.nn_folder)
        process = ServingProcess(settings, home, build or partial(build_share, nn_folder=own))
        state_file = None
        try:
            process.open()
            state_file = _state_file(process, settings, home)
            _announce(process, settings)
            gc.collect()
            gc.freeze()
            gc.enable()
            stop.get()
            logger.info("The serving process stops")
        finally:
            process.close()
            if state_file is not None:
                state_file.remove()


def _make(home: Path) -> None:
    try:
        (home / "run").mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise HomeNotUsable(path=str(home), reason=exc.strerror or str(exc)) from exc


def _state_file(process: ServingProcess, settings: ServingSettings, home: Path) -> OwnFile:
    state = {
        "pid": os.getpid(),
        "start_time": start_time_of(os.getpid()),
        "http": _address(settings.callers.host, process.callers_port),
        "grpc": _address(settings.partners.host, process.partners_port),
        "admin": _address(settings.admin.host, process.admin_port),
        "callers_grpc": _grpc_address(process, settings),
        "party_id": settings.party_id,
    }
    file = OwnFile(home / "run" / "server.json", json.dumps(state))
    file.restore()
    return file


def _announce(process: ServingProcess, settings: ServingSettings) -> None:
    logger.info(
        "fedflow serves models of %s: callers on http://%s, partners on %s%s, admin on http://%s",
        f"party {settings.party_id}" if settings.party_id else "all parties",
        _address(settings.callers.host, process.callers_port),
        _address(settings.partners.host, process.partners_port),
        " with mutual TLS" if settings.partners.tls.on else "",
        _address(settings.admin.host, process.admin_port),
    )
    if settings.insecure:
        logger.warning(
            "INSECURE: without TLS and tokens anybody who reaches the ports may use them"
        )


def _grpc_address(process: ServingProcess, settings: ServingSettings) -> str | None:
    given, port = settings.callers, process.callers_grpc_port
    return None if port is None else _address(given.grpc_host or given.host, port)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
