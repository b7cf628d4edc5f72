"""Asks a provider's interpreter about its components, in a bounded process.

The server imports no component. What the process prints is kept only to explain a failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

import msgspec

from fedflow import __version__
from fedflow.base.clock import SystemClock
from fedflow.base.decoding import read_as
from fedflow.base.errors.components import BadParameter, ProviderRefused
from fedflow.domain.job.planned_run import PlannedRun
from fedflow.domain.job.providers import ProviderManifest
from fedflow.domain.job.warning import JobWarning
from fedflow.executor.descendants import end_below
from fedflow.executor.described import Answer, check_described
from fedflow.executor.error_messages import raise_told
from fedflow.executor.limits import child_environment

TIMEOUT_S: Final = 60.0  #: for importing the components and answering, seconds
ANSWER_BYTES: Final = 16 * 2**20
_TAIL_BYTES: Final = 2000  #: of the output of the process, for the message
_PRINTED_BYTES: Final = 64 * 2**20  #: printed more, it is ended
_LOOK_S: Final = 0.1  #: so often the size of what it printed is looked at
_SHOWN: Final = 2000  #: characters of a reason
_CHUNK: Final = 256 * 1024


class ProviderProcesses:
    """Satisfies `app.ports.components.ProviderHost`."""

    def __init__(
        self, *, timeout_s: float = TIMEOUT_S, env: Mapping[str, str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._env = dict(env or {})

    def describe(self, manifest: ProviderManifest) -> list[dict[str, Any]]:
        """Return what the folder's components say of themselves, as plain JSON.

        Raises: ProviderRefused: they cannot be imported, are none, or run under another fedflow.
        """
        told = self._ask(manifest, {"op": "describe"})
        version = told.get("fedflow")
        if version != __version__:
            reason = f"its interpreter has fedflow {version!r}, this server is {__version__}"
            raise ProviderRefused(provider=manifest.label, reason=reason[:_SHOWN])
        try:
            answer = read_as(told, Answer)
            check_described(answer.described)
        except msgspec.ValidationError as exc:
            raise _unreadable(manifest, exc) from exc
        if answer.problems:
            reason = "; ".join(answer.problems)[:_SHOWN]
            raise ProviderRefused(provider=manifest.label, reason=reason)
        return answer.described

    def check(
        self,
        manifest: ProviderManifest,
        module: str,
        parameters: Mapping[str, Any],
        *,
        path: str,
        run: PlannedRun | None = None,
    ) -> Sequence[JobWarning]:
        """Check parameters as the run will, and return what is doubtful in them.

        Raises: BadParameter, ProviderRefused.
        """
        planned = run.to_json() if run is not None else None
        asked = {"module": module, "parameters": dict(parameters), "path": path, "run": planned}
        told = self._ask(manifest, {"op": "check", **asked})
        try:
            raise_told(told.get("error"))
            return read_as(told.get("warnings", []), list[JobWarning])
        except (KeyError, TypeError, ValueError, AttributeError) as exc:
            raise _unreadable(manifest, exc) from exc

    def _ask(self, manifest: ProviderManifest, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of one process. Raises: ProviderRefused, BadParameter."""
        try:
            question = json.dumps({**request, "components": manifest.components}, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as exc:
            raise BadParameter(path=str(request["path"]), reason=f"not plain JSON ({exc})") from exc
        with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as asked:
            asked.write(question.encode())
            asked.seek(0)
            raw = self._run(manifest, asked, printed)
            try:
                told = json.loads(raw)
            except (ValueError, RecursionError):
                told = None
            if isinstance(told, dict) and "failed" not in told:
                return told
            reason = told["failed"] if isinstance(told, dict) else _tail(printed)
        raise ProviderRefused(provider=manifest.label, reason=str(reason)[:_SHOWN])

    def _run(self, manifest: ProviderManifest, asked: IO[bytes], printed: IO[bytes]) -> bytes:
        """Return what a process writes to its pipe.

        It ends here, with all that it started. Raises: ProviderRefused: the folder is gone, or the
        process takes too long or prints or answers without end.
        """
        if not os.path.isdir(manifest.path):
            reason = f"its folder {manifest.path} is gone"
            raise ProviderRefused(provider=manifest.label, reason=reason)
        read, write = os.pipe()
        try:
            process = subprocess.Popen(
                provider_command(manifest, "fedflow.worker.provider", str(write)),
                env=provider_environment(manifest, child_environment(self._env)),
                cwd=manifest.path,
                pass_fds=(write,),
                stdin=asked,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        except OSError as exc:
            os.close(read)
            reason = f"{manifest.python or sys.executable}: {exc.strerror}"
            raise ProviderRefused(provider=manifest.label, reason=reason) from exc
        finally:
            os.close(write)
        try:
            return _read(read, printed.fileno(), self._timeout_s, manifest)
        finally:
            os.close(read)
            end_below(process.pid)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def provider_command(manifest: ProviderManifest, module: str, *arguments: str) -> list[str]:
    """Return how a module of fedflow is run in a provider's interpreter."""
    return [manifest.python or sys.executable, "-P", "-m", module, *arguments]


def provider_environment(manifest: ProviderManifest, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a provider's process, made of that of an executor.

    Modules are found in the provider's folder first. An interpreter of its own sees its own
    packages besides, and nothing of the server's.
    """
    env = dict(base)
    if manifest.python:
        env.pop("VIRTUAL_ENV", None)
        env["PYTHONPATH"] = manifest.path
    else:
        env["PYTHONPATH"] = os.pathsep.join(filter(None, (manifest.path, env.get("PYTHONPATH"))))
    return env


def _read(pipe: int, printed: int, timeout_s: float, manifest: ProviderManifest) -> bytes:
    """Return everything that is written until the pipe is closed; the file `printed` is watched.

    Raises: ProviderRefused.
    """
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + timeout_s
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    parts: list[bytes] = []
    size = 0
    while True:
        left_s = deadline_s - clock.monotonic_s()
        if left_s <= 0:
            reason = f"its components did not answer within {timeout_s:g} s"
            raise ProviderRefused(provider=manifest.label, reason=reason)
        if os.fstat(printed).st_size > _PRINTED_BYTES:
            raise ProviderRefused(provider=manifest.label, reason="it prints without end")
        if not poll.poll(min(left_s, _LOOK_S) * 1000):
            continue
        part = os.read(pipe, _CHUNK)
        if not part:
            return b"".join(parts)
        size += len(part)
        if size > ANSWER_BYTES:
            reason = f"its answer is longer than {ANSWER_BYTES} bytes"
            raise ProviderRefused(provider=manifest.label, reason=reason)
        parts.append(part)


def _unreadable(manifest: ProviderManifest, exc: Exception) -> ProviderRefused:
    reason = f"its interpreter's answer cannot be read: {exc}"[:_SHOWN]
    return ProviderRefused(provider=manifest.label, reason=reason)


def _tail(printed: IO[bytes]) -> str:
    """Return the end of what was printed, in one line."""
    size = printed.seek(0, os.SEEK_END)
    printed.seek(max(0, size - _TAIL_BYTES))
    text = printed.read().decode("utf-8", "replace")
    said = " ".join(text.split())
    if "No module named 'fedflow" in said or "No module named fedflow" in said:
        return "fedflow is not installed for its interpreter"
    return f"its process ended without an answer; it printed: {said}" if said else "no answer"
