"""Starts party tasks by asking a zygote to fork, and sees how they end.

The zygote is a small process that has imported the libraries already (`fedflow/worker/zygote.py`).
One thread here keeps it alive and reads what it says. If it dies, its children go on; each is then
watched by pid and start time, a new zygote is started, and launches that were on their way are sent
again (`messages.py` says why that is safe).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedflow.app.ports.executors import STARTING, ExecutorEvents, Launch
from fedflow.base.clock import Clock, SystemClock, pause
from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.executors import ExecutorNotStarted, LibrariesMissing
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import Handle
from fedflow.executor.error_messages import raise_told
from fedflow.executor.limits import OUTPUT_FILE, PRELOAD, ExecutorLimits, child_environment
from fedflow.executor.messages import Message, encode
from fedflow.executor.processes import this_host
from fedflow.executor.provider_process import provider_command, provider_environment
from fedflow.executor.termination import Termination
from fedflow.executor.watch import ProcessWatch
from fedflow.executor.zygote_process import ZygoteLost, ZygoteProcess

logger = logging.getLogger(__name__)

_TICK_S = 0.5  #: how often launches that do not come off, and long outputs, are looked for
_SILENT_S = 5.0  #: a zygote that does not answer for so long cannot start processes
_KILL_WAIT_S = 3.0  #: after SIGKILL, how long `close` waits for the last process


@dataclass(slots=True)
class _Pending:
    """A launch that was asked for and has no process yet."""

    line: bytes
    since_s: float
    task: str
    sent: bool = False  #: to the present zygote
    attempts: int = 0


@dataclass(slots=True)
class _Question:
    """Somebody waits for the zygote's answer; `lost` if the zygote died over it."""

    done: threading.Event = field(default_factory=threading.Event)
    answer: Message | None = None
    asked_s: float = 0.0


class ZygoteExecutor:
    """The executor port over forked processes; see `fedflow.app.ports.executors.Executor`.

    All callbacks come from this object's own threads, one after the other for one launch: `started`
    before `exited`. They must not call `describe` or `check`.
    """

    def __init__(
        self,
        *,
        events: ExecutorEvents,
        python: str,
        preload: tuple[str, ...] = PRELOAD,
        env: Mapping[str, str] | None = None,
        limits: ExecutorLimits | None = None,
        fork: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Prepare; `python` is the interpreter, `env` is added to `child_environment`."""
        self._fork = fork
        self._events = events
        self._python = python
        self._preload = preload
        self._env = child_environment(env or {})
        self._limits = limits or ExecutorLimits()
        self._clock = clock or SystemClock()
        self._changed = threading.Condition()
        self._zygote: ZygoteProcess | None = None
        self._ready = False
        self._failed = False  #: the last zygote was lost, or could not be started
        self._missing = ""  #: packages without which there is no zygote
        self._pending: dict[str, _Pending] = {}
        self._running: dict[str, Handle] = {}  # children of the present zygote
        self._outputs: dict[str, Path] = {}  # what they print, by launch id
        self._questions: dict[int, _Question] = {}
        self._ping: _Question | None = None
        self._numbers = itertools.count(1)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._watch = ProcessWatch(self._watched_exited)
        self._termination = Termination(clock=self._clock)

    # --- life -------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start the threads and the zygote; returns before the zygote is ready."""
        self._watch.open()
        self._termination.open()
        self._thread = threading.Thread(target=self._run, name="executor-zygote", daemon=True)
        self._thread.start()

    def close(self, grace_s: float = 5.0, *, kill: bool = False) -> None:
        """End the zygote and the threads; afterwards no callback comes any more.

        Running processes live on, for the next server to adopt; with `kill` they are ended within
        `grace_s` seconds, and their ends are still sent. Stops under way are finished either way.
        """
        if kill:
            self._end_all(grace_s)
        self._stop.set()
        with self._changed:
            zygote = self._zygote
        if zygote is not None:
            zygote.hang_up()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._termination.close(grace_s=grace_s)
        self._watch.close()

    def ready(self) -> bool:
        """Tell whether a zygote waits for requests."""
        with self._changed:
            return self._ready

    def fault(self) -> str:
        """Return why it cannot start processes now, as the rest of a sentence; empty: it can.

        Each call asks the zygote for a sign of life, and tells whether the one before got it.
        """
        if self._thread is not None and not self._thread.is_alive():
            return "its thread does not run; restart the server"
        with self._changed:
            if self._ready and self._zygote is not None:
                zygote, number, ping = self._zygote, 0, self._ping
                now_s = self._clock.monotonic_s()
                if ping is not None and not ping.done.is_set():
                    silent_s = now_s - ping.asked_s
                    return "" if silent_s < _SILENT_S else f"no answer for {silent_s:.0f} s"
                self._questions[number] = self._ping = _Question(asked_s=now_s)
            elif self._missing:
                return f"it lacks packages: {self._missing}"
            else:
                return "it cannot start processes now" if self._failed else STARTING
        self._send(zygote, encode({"op": "ping", "id": number}))
        return ""

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until `ready()`, at most `timeout_s` seconds; tell whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ready, timeout_s)

    @property
    def pid(self) -> int | None:
        """Return the zygote's process id, or None while there is none."""
        with self._changed:
            return self._zygote.pid if self._zygote is not None else None

    # --- the executor port ------------------------------------------------------------------------

    def start(self, launch: Launch) -> None:
        """Start a process soon; its handle or failure arrives through the callbacks.

        A launch that was asked for before is not started a second time.
        """
        line = encode(
            {
                "op": "start",
                "launch_id": launch.launch_id,
                "module": launch.module,
                "spec_path": str(launch.spec_path),
                "log_dir": str(launch.log_dir),
                "work_dir": str(launch.work_dir),
                "command": self._command(launch),
            }
        )
        with self._changed:
            if launch.launch_id in self._pending or launch.launch_id in self._running:
                return
            if launch.launch_id in self._watch.handles():
                return
            now_s = self._clock.monotonic_s()
            pending = _Pending(line=line, since_s=now_s, task=str(launch.task))
            self._pending[launch.launch_id] = pending
            self._outputs[launch.launch_id] = launch.log_dir / OUTPUT_FILE
            zygote = self._zygote if self._ready else None
            pending.sent = zygote is not None
        if zygote is not None:
            self._send(zygote, line)

    def _command(self, launch: Launch) -> dict[str, Any] | None:
        """Return how a provider's run is started; None: by the zygote itself."""
        if launch.provider is None:
            return None
        return {
            "arguments": provider_command(launch.provider, "fedflow.worker.run"),
            "env": provider_environment(launch.provider, self._env),
        }

    def stop(self, handle: Handle, *, grace_s: float) -> None:
        """End a process group: SIGTERM, after `grace_s` seconds SIGKILL. Returns at once."""
        self._termination.stop(handle, grace_s=grace_s)

    def adopt(self, launch_id: str, handle: Handle) -> bool:
        """Watch a process that an earlier server started; False if it is gone.

        Its end is sent with neither exit code nor signal.
        """
        with self._changed:
            if launch_id in self._running:
                return True
        return self._watch.add(launch_id, handle)

    # --- questions --------------------------------------------------------------------------------

    def describe(self) -> list[dict[str, Any]]:
        """Return what is known of every component module, as plain JSON.

        See `fedflow.components.registry.describe` for the members. Raises: ExecutorNotStarted: no
        answer within `reply_timeout_s`. LibrariesMissing.
        """
        found: list[dict[str, Any]] = self._ask("describe", {})
        return found

    def check(
        self,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> Sequence[JobWarning]:
        """Check a component's parameters, and the planned run if one is given, as its run will.

        Returns what is doubtful in the parameters. Raises: BadParameter, UnknownComponent,
        NotSupportedYet, LibrariesMissing. ExecutorNotStarted: no answer within `reply_timeout_s`.
        """
        try:
            # Text within text, so that the zygote can answer even if it cannot read the inner one.
            text = json.dumps(dict(parameters), allow_nan=False)
        except (ValueError, TypeError, RecursionError) as exc:
            raise BadParameter(path=path, reason=f"not plain JSON ({exc})") from exc
        if len(text) > self._limits.line_bytes // 2:
            raise BadParameter(path=path, reason="too long")
        planned = run.to_json() if run is not None else None
        asked = {"module": module, "parameters": text, "path": path, "run": planned}
        return tuple(JobWarning(**one) for one in self._ask("check", asked) or ())

    def _ask(self, op: str, members: Mapping[str, Any]) -> Any:
        """Return the zygote's answer; a zygote that dies over it is replaced and asked again."""
        deadline_s = self._clock.monotonic_s() + self._limits.reply_timeout_s
        while not self._stop.is_set():
            question = _Question()
            with self._changed:
                left_s = deadline_s - self._clock.monotonic_s()
                self._changed.wait_for(lambda: self._ready or bool(self._missing), left_s)
                if not self._ready or self._zygote is None:
                    break
                zygote, number = self._zygote, next(self._numbers)
                self._questions[number] = question
            self._send(zygote, encode({**members, "op": op, "id": number}))
            question.done.wait(deadline_s - self._clock.monotonic_s())
            with self._changed:
                self._questions.pop(number, None)
            if question.answer is not None:
                return _answer(question.answer)
            if not question.done.is_set():
                break
        if self._missing:
            raise LibrariesMissing(packages=self._missing)
        raise ExecutorNotStarted(
            task=f"the component {op}", reason="the zygote does not answer; see the server's log"
        )

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            began_s = self._clock.monotonic_s()
            try:
                self._serve()
            except Exception:
                logger.exception("The zygote's thread failed.", extra={"action": "zygote"})
            if self._clock.monotonic_s() - began_s > self._limits.stable_s:
                failures = 0
            delay_s = self._limits.restart_base_s * 2 ** min(failures, 16)
            failures += 1
            self._give_up_late()
            if pause(min(delay_s, self._limits.restart_cap_s), self._stop):
                return

    def _serve(self) -> None:
        """Start one zygote and serve it until it is lost or the executor is closed.

        There is none as long as packages are missing.
        """
        if self._missing and self._lacks_libraries():
            return
        try:
            zygote = ZygoteProcess(
                python=self._python,
                preload=self._preload,
                env=self._env,
                limits=self._limits,
                fork=self._fork,
            )
        except OSError as exc:
            self._failed = True
            logger.error("No zygote: %s", exc, extra={"action": "zygote"})
            return
        reason = "closed"
        born_s = self._clock.monotonic_s()
        with self._changed:
            self._zygote = zygote
        checked_s = born_s
        try:
            while not self._stop.is_set():
                for message in zygote.receive(_TICK_S):
                    self._hear(zygote, message)
                if self._clock.monotonic_s() - checked_s >= _TICK_S:
                    self._check_life(zygote, born_s)
                    self._cut_outputs()
                    checked_s = self._clock.monotonic_s()
        except ZygoteLost as exc:
            reason = str(exc)
        finally:
            self._lose(zygote, reason)

    def _lacks_libraries(self) -> bool:
        """Tell whether components cannot be imported; launches fail then, as do questions."""
        from fedflow.base.libraries import missing_libraries  # only who was not ready needs it

        missing = missing_libraries()
        with self._changed:
            told, self._missing = self._missing, missing
            self._changed.notify_all()
            waiting = list(self._pending) if missing else []
        if missing and missing != told:
            logger.error(
                "%s", LibrariesMissing(packages=missing).advice, extra={"action": "zygote"}
            )
        for launch_id in waiting:
            self._tell_failed(launch_id, LibrariesMissing(packages=missing).message)
        return bool(missing)

    def _check_life(self, zygote: ZygoteProcess, born_s: float) -> None:
        """Give up late launches. Raises: ZygoteLost: the zygote was not ready in time, or hangs."""
        limit_s = self._limits.start_timeout_s
        with self._changed:
            ready = self._ready
        if not ready and self._clock.monotonic_s() - born_s > limit_s:
            zygote.kill()
            raise ZygoteLost("it was not ready in time")
        if self._give_up_late() and ready:
            zygote.kill()
            raise ZygoteLost("it does not serve its requests")

    def _cut_outputs(self) -> None:
        """Keep the beginning of what running processes print, if they print without end.

        The files are open for appending, so the next line goes behind what is kept.
        """
        with self._changed:
            files = list(self._outputs.values())
        for path in files:
            with contextlib.suppress(OSError):  # nothing was printed yet, or the folder is gone
                if path.stat().st_size > self._limits.output_bytes:
                    os.truncate(path, self._limits.output_bytes)
                    logger.warning("%s was cut.", path, extra={"action": "output"})

    def _hear(self, zygote: ZygoteProcess, message: Message) -> None:
        try:
            match message.get("op"):
                case "ready":
                    self._became_ready(zygote, message)
                case "started":
                    self._launch_started(message)
                case "not_started":
                    self._launch_failed(str(message["launch_id"]), str(message["reason"]))
                case "exited":
                    self._exited(str(message["launch_id"]), message["code"], message["signal"])
                case "reply":
                    self._answered(message)
                case other:
                    logger.error("The zygote said %r.", other, extra={"action": "zygote"})
        except StoreUnavailable as exc:  # the detector finds out, once there is a store again
            logger.warning(
                "The store was away when process %s was %s: %s",
                message.get("pid") or message.get("launch_id"),
                message.get("op"),
                exc.message,
                extra={"action": "zygote", "op": str(message.get("op"))},
            )
        except Exception:
            logger.exception(
                "A message of the zygote could not be handled.",
                extra={"action": "zygote", "op": str(message.get("op"))},
            )

    def _became_ready(self, zygote: ZygoteProcess, message: Message) -> None:
        for problem in message.get("problems", ()):
            logger.error("Components: %s", problem, extra={"action": "components"})
        with self._changed:
            self._ready, self._failed = True, False
            waiting = [p for p in self._pending.values() if not p.sent]
            for pending in waiting:
                pending.sent, pending.since_s = True, self._clock.monotonic_s()
            self._changed.notify_all()
        logger.info("The zygote is ready.", extra={"action": "zygote", "pid": zygote.pid})
        for pending in waiting:
            self._send(zygote, pending.line)

    def _launch_started(self, message: Message) -> None:
        launch_id = str(message["launch_id"])
        handle = Handle(
            pid=int(message["pid"]), start_time=int(message["start_time"]), host=this_host()
        )
        with self._changed:
            wanted = self._pending.pop(launch_id, None) is not None
            if wanted:
                self._running[launch_id] = handle
        if wanted:
            self._events.started(launch_id, handle)
        else:  # it was given up, and that was sent
            self._termination.stop(handle, grace_s=0.0)

    def _launch_failed(self, launch_id: str, reason: str) -> None:
        with self._changed:
            known = self._pending.pop(launch_id, None) is not None
            self._outputs.pop(launch_id, None)
        if known:
            self._events.not_started(launch_id, reason)

    def _exited(self, launch_id: str, code: int | None, number: int | None) -> None:
        with self._changed:
            known = self._running.pop(launch_id, None) is not None
            self._outputs.pop(launch_id, None)
            self._changed.notify_all()
        if known:
            self._events.exited(launch_id, code, number)

    def _answered(self, message: Message) -> None:
        with self._changed:
            question = self._questions.get(int(message["id"]))
        if question is not None:
            question.answer = message
            question.done.set()

    def _lose(self, zygote: ZygoteProcess, reason: str) -> None:
        """Take over what the lost zygote looked after."""
        with self._changed:
            was_ready = self._ready
            self._zygote, self._ready, self._failed = None, False, True
            orphans, self._running = self._running, {}
            questions, self._questions = self._questions, {}
            interrupted = [(k, p) for k, p in self._pending.items() if p.sent]
            for _, pending in interrupted:
                pending.sent = False
                pending.attempts += 1
        status = zygote.close()
        for question in questions.values():
            question.done.set()
        if not self._stop.is_set():
            logger.error(
                "The zygote was lost (%s, exit status %s); %s of its processes are watched.",
                reason,
                status,
                len(orphans),
                extra={"action": "zygote", "pid": zygote.pid},
            )
            if not was_ready:
                self._lacks_libraries()
        for launch_id, handle in orphans.items():
            self._watch_orphan(launch_id, handle)
        for launch_id, pending in interrupted:
            if pending.attempts >= self._limits.launch_attempts:
                self._tell_failed(
                    launch_id, f"the zygote was lost {pending.attempts} times over it"
                )

    def _watch_orphan(self, launch_id: str, handle: Handle) -> None:
        """Watch the process; if it is gone already, say so. Nothing is watched after the end."""
        if not self._stop.is_set() and not self._watch.add(launch_id, handle):
            self._watched_exited(launch_id, handle)

    def _give_up_late(self) -> bool:
        """Tell the failure of launches that wait too long; tell whether there were any."""
        limit_s = self._clock.monotonic_s() - self._limits.start_timeout_s
        with self._changed:
            late = [launch_id for launch_id, p in self._pending.items() if p.since_s < limit_s]
        for launch_id in late:
            self._tell_failed(launch_id, f"no process after {self._limits.start_timeout_s} seconds")
        return bool(late)

    def _tell_failed(self, launch_id: str, reason: str) -> None:
        try:
            self._launch_failed(launch_id, reason)
        except Exception:
            logger.exception(
                "The failure of launch %s could not be told.",
                launch_id,
                extra={"action": "not_started", "launch_id": launch_id},
            )

    def _watched_exited(self, launch_id: str, handle: Handle) -> None:
        try:
            self._events.exited(launch_id, None, None)
        except Exception:
            logger.exception(
                "The end of launch %s could not be told.",
                launch_id,
                extra={"action": "exited", "launch_id": launch_id, "pid": handle.pid},
            )
        with self._changed:
            self._outputs.pop(launch_id, None)
            self._changed.notify_all()

    def _send(self, zygote: ZygoteProcess, line: bytes) -> None:
        """Send; a failure means that the zygote is lost, which the thread notices and repairs."""
        try:
            zygote.send(line)
        except ZygoteLost as exc:
            logger.warning(
                "A request did not reach the zygote (%s).", exc, extra={"action": "zygote"}
            )

    def _end_all(self, grace_s: float) -> None:
        with self._changed:
            self._pending.clear()
            handles = [*self._running.values(), *self._watch.handles().values()]
        for handle in handles:
            self._termination.stop(handle, grace_s=grace_s)
        with self._changed:
            ended = self._changed.wait_for(
                lambda: not self._running and not self._watch.handles(), grace_s + _KILL_WAIT_S
            )
        if not ended:
            logger.error("Some executors did not end.", extra={"action": "close"})


def _answer(message: Message) -> Any:
    """Return the data of a reply. Raises: the error that it tells."""
    raise_told(message.get("error"))
    return message.get("data")
