"""Counts what a process does; Python runs this file first when its folder is on PYTHONPATH.

`running.py` copies it into a folder beside `hidden.txt`, the packages that shall not be found, and
`records/`. A process that gets SIGUSR2 writes `records/PID.json`; a fork writes its own at its end.
Only modules are imported here that each of fedflow's processes has imported anyway.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.machinery
import inspect
import os
import signal
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HIDDEN = frozenset((HERE / "hidden.txt").read_text().split())
HOME = (HERE / "home.txt").read_text()  #: the folder of all parties; only its files are counted
O_CREATES = os.O_CREAT

events: dict[str, list[None]] = {
    name: []
    for name in (
        "statements", "changes", "transactions", "writes", "calls", "opens", "creates", "mkdirs",
        "forks", "dataclasses", "own_dataclasses", "looks",
    )
}  # fmt: skip
"""One element per event: appending is safe in any thread, adding to a number is not."""


def count(name: str) -> None:
    events[name].append(None)


# --- events -----------------------------------------------------------------------------------


def on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Count one of the interpreter's audit events."""
    if event == "open":
        path, flags = arguments[0], arguments[2]
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, str) and (path.startswith(HOME) or not path.startswith("/")):
            count("opens")
            if flags & O_CREATES:
                count("creates")
    elif event == "os.mkdir":
        count("mkdirs")
    elif event in ("os.fork", "subprocess.Popen"):
        count("forks")


def on_statement(sql: str) -> None:
    """Count a statement of SQLite; all transactions of fedflow begin with `BEGIN`."""
    if sql.startswith("BEGIN"):
        count("transactions")
        if "IMMEDIATE" in sql:
            count("writes")
    elif not sql.startswith(("COMMIT", "ROLLBACK")):
        count("statements")
        if not sql.startswith(("SELECT", "PRAGMA")):
            count("changes")
            if "t_lease" in sql and "'store'" in sql:
                count("looks")


def counting_dataclass(cls: type | None = None, /, **options: Any) -> Any:
    """As `dataclasses.dataclass`."""
    if cls is None:
        return functools.partial(counting_dataclass, **options)
    count("dataclasses")
    if cls.__module__.startswith("fedflow"):
        count("own_dataclasses")
    return make_dataclass(cls, **options)


# --- modules that are patched once they are imported ------------------------------------------


def patch_grpc(grpc: Any) -> None:
    """Count the calls that this process serves."""
    make_handler = grpc.stream_unary_rpc_method_handler

    def counting_handler(behavior: Any, *more: Any, **options: Any) -> Any:
        if behavior.__module__ == "fedflow.rpc.callers":  # passes on to one that is counted
            return make_handler(behavior, *more, **options)

        async def awaited(request: Any, context: Any) -> Any:
            count("calls")
            return await behavior(request, context)

        def called(request: Any, context: Any) -> Any:
            count("calls")
            return behavior(request, context)

        wrapped = awaited if inspect.iscoroutinefunction(behavior) else called
        return make_handler(wrapped, *more, **options)

    grpc.stream_unary_rpc_method_handler = counting_handler


def patch_sqlite(sqlite3: Any) -> None:
    """Count the statements of each connection."""
    connect = sqlite3.connect

    def counting_connect(*arguments: Any, **options: Any) -> Any:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(on_statement)
        return connection

    sqlite3.connect = counting_connect


PATCHES = {"grpc": patch_grpc, "sqlite3": patch_sqlite}


class Finder:
    """Finds modules as `PathFinder` does, but none of `HIDDEN`, and applies `PATCHES`.

    The numbers shall be those of a plain `pip install`, whatever else is installed.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in HIDDEN:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if name in PATCHES and spec is not None:
            run = spec.loader.exec_module

            def run_and_patch(module: Any) -> None:
                run(module)
                PATCHES[name](module)

            spec.loader.exec_module = run_and_patch
        return spec

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.machinery.PathFinder, name)


# --- records ----------------------------------------------------------------------------------


def write_record(*_: object) -> None:
    """Write what this process has done so far."""
    modules = list(sys.modules)
    found = {name: len(elements) for name, elements in events.items()}
    import json
    import threading

    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    found |= {
        "pid": os.getpid(),
        "parent": os.getppid(),
        "modules": len(modules),
        "own_modules": sum(n == "fedflow" or n.startswith("fedflow.") for n in modules),
        "structs": len(structs()),
        "threads": threading.active_count(),
        "faults": int(fields[7]),  # minor page faults: pages touched or copied for the first time
        "anonymous_kib": int(status["RssAnon"].split()[0]),
        "page_tables_kib": int(status["VmPTE"].split()[0]),
    }
    path = HERE / "records" / f"{os.getpid()}.json"
    path.with_suffix(".new").write_text(json.dumps(found))
    path.with_suffix(".new").rename(path)


def structs() -> set[type]:
    """Return fedflow's msgspec Structs."""
    msgspec = sys.modules.get("msgspec")
    found: set[type] = set()
    queue = [msgspec.Struct] if msgspec is not None else []
    while queue:
        for cls in queue.pop().__subclasses__():
            if cls not in found:
                found.add(cls)
                queue.append(cls)
    return {cls for cls in found if cls.__module__.startswith("fedflow")}


def forget() -> None:
    """Begin anew in a fork."""
    for elements in events.values():
        elements.clear()


def counting_exit(status: int) -> None:
    """As `os._exit`, by which forks end."""
    if os.getpid() != FIRST_PID:
        write_record()
    leave(status)


FIRST_PID = os.getpid()
make_dataclass, dataclasses.dataclass = dataclasses.dataclass, counting_dataclass
leave, os._exit = os._exit, counting_exit  # type: ignore[assignment]
os.register_at_fork(after_in_child=forget)
signal.signal(signal.SIGUSR2, write_record)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder()
sys.addaudithook(on_audit)
