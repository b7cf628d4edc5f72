"""Components that misbehave in a named way, to test executors and servers with.

They are not built in. A test makes them known by an entry point of its own (`offer_faults`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from fedflow.sdk import (
    BadData,
    Context,
    Doubt,
    Model,
    Outputs,
    Params,
    TableKind,
    TableSchema,
    component,
)

_ROLES: Final = ("guest", "host", "arbiter", "local")


class FaultParams(Params, frozen=True, kw_only=True):
    """What the component shall do."""

    how: str = "raise"
    seconds: float = 60.0
    text: str = ""

    def check(self) -> None:
        if self.how == "exits_in_check":
            sys.exit(3)

    def doubts(self) -> Iterator[Doubt]:
        if self.how == "doubtful":
            yield Doubt("how", "is doubtful; it is used all the same")


def _fault(module: str, outputs: tuple[str, ...] = ("data", "model")) -> Any:
    return component(module, roles=_ROLES, params=FaultParams, needs_input=False, outputs=outputs)


@_fault("WellBehaved")
class WellBehaved:
    """Writes a table, metrics, progress, a model and a summary."""

    def run(self, ctx: Context) -> Outputs:
        """Return one table of two rows per declared output, and a model."""
        import pyarrow as pa

        schema = TableSchema(kind=TableKind.INSTANCES, id="id", columns=("x",))
        tables = []
        for _ in (*ctx.output_names, "scratch"):
            with ctx.tables.create(schema) as writer:
                writer.write(pa.table({"id": ["a", "b"], "x": [1.0, 2.0]}))
                tables.append(writer.close())
        given = ctx.inputs.first("data")
        ctx.tracker.metric("train", "loss", metric_type="LOSS", points=[(0, 1.5), (1, 0.5)])
        ctx.tracker.progress(0.5)
        ctx.log.info("hello from %s", ctx.site)
        ctx.log.warning("careful")
        summary = {
            "cwd": str(Path.cwd()),
            "pid": os.getpid(),
            "group": os.getpgid(0),
            "fds": _open_files(),
            "given": given.count if given is not None else None,
            "text": ctx.params.text,
        }
        model = Model(meta_name="TestMeta", param_name="TestParam", meta={}, param={"w": [1.0]})
        return Outputs(data=tuple(tables), model=model, summary=summary)


@_fault("Fails")
class Fails:
    """Ends in the way that `how` names."""

    def run(self, ctx: Context) -> Outputs:
        """Do it."""
        match ctx.params.how:
            case "fedflow_error":
                raise BadData(where="table x.y", reason="row 3 has no label")
            case "exit":
                os._exit(7)
            case "sys_exit":
                sys.exit(0)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "memory":
                bytearray(1 << 40)
            case "binary_output":
                sys.stdout.buffer.write(bytes(range(256)) * 4)
                sys.stdout.buffer.flush()
                os.write(2, b"\xff\xfe raw\n")
                return Outputs()
            case "floods":
                block = b"x" * (1 << 20)
                for _ in range(int(ctx.params.seconds)):
                    os.write(1, block)
                print("the end", flush=True)
                threading.Event().wait(ctx.params.seconds)
            case "doubtful":
                ctx.warn("OddRows", "2 rows are odd; they are used", hint="Look.", path="data")
                return Outputs()
            case "not_json":
                return Outputs(summary={"x": {1, 2}})
            case "not_outputs":
                return None  # type: ignore[return-value]
            case _:
                raise RuntimeError(ctx.params.text or f"failed in {Path.home()}/secret")
        return Outputs()


@_fault("Threads")
class Threads:
    """Tells how many threads the numerical libraries may use."""

    def run(self, ctx: Context) -> Outputs:
        """Return what they say of themselves."""
        import numpy as np
        import pyarrow as pa
        from threadpoolctl import threadpool_info

        np.linalg.solve(np.eye(300), np.ones(300))
        pools = {pool["internal_api"]: pool["num_threads"] for pool in threadpool_info()}
        named = {n: os.environ.get(n) for n in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        threads = len(os.listdir("/proc/self/task"))
        return Outputs(
            summary={"arrow": pa.cpu_count(), "pools": pools, "env": named, "threads": threads}
        )


@_fault("Sleeps")
class Sleeps:
    """Waits; with `how` `deaf` neither it nor its child process minds SIGTERM."""

    def run(self, ctx: Context) -> Outputs:
        """Wait `seconds`; the file `ready` in the work folder tells that it has begun."""
        lines = [str(os.getpid())]
        if ctx.params.how == "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            code = (
                "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                "print('deaf', flush=True); time.sleep(600)"
            )
            child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
            if child.stdout is not None:
                child.stdout.readline()
            lines.append(str(child.pid))
        if ctx.params.how == "leaves_daemons":
            own = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
            script = "setsid /bin/sleep 600 >/dev/null 2>&1 & echo $!"
            orphan = subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.PIPE, check=True)
            pids = f"{own.pid} {orphan.stdout.decode().strip()}"
            (ctx.work_dir / "ready").write_text(pids, encoding="ascii")
            return Outputs()
        if ctx.params.how == "leaves_child":
            child = subprocess.Popen(["/bin/sleep", "600"])
            (ctx.work_dir / "ready").write_text(str(child.pid), encoding="ascii")
            return Outputs()
        ready = ctx.work_dir / "ready"
        ready.with_suffix(".new").write_text("\n".join(lines), encoding="ascii")
        ready.with_suffix(".new").rename(ready)
        threading.Event().wait(ctx.params.seconds)
        return Outputs(passed=True)


COMPONENTS: Final[tuple[type[Any], ...]] = (WellBehaved, Fails, Threads, Sleeps)


def offer_faults(folder: Path) -> dict[str, str]:
    """Return the environment in which these components are known; writes metadata to `folder`."""
    info = folder / "fedflow_faults-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fedflow-faults\nVersion: 1.0\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(
        "[fedflow.components]\nfaults = fedflow.testing.faults:COMPONENTS\n", encoding="utf-8"
    )
    return {"PYTHONPATH": str(folder)}


def _open_files() -> list[str]:
    """Return what this process has open besides its standard streams (sockets and files)."""
    found = []
    for name in os.listdir("/dev/fd"):
        if int(name) > 2:
            try:
                found.append(os.readlink(f"/dev/fd/{name}"))
            except OSError:  # the listing's own descriptor
                continue
    return found
