"""The least that a two-party scheduler of this shape must do, and fedflow beside it.

    .venv/bin/python benchmarks/skeleton.py [--runs 10] [--jobs 100] [--json]

The skeleton runs the same jobs as `chain.py` and `burst.py`: empty tasks at guest and host. Per
task it does what nobody can leave out, and nothing else:

- one unary gRPC call to the other party to start its task, one back with the result, mutual TLS;
- at each site a fork from a process that has numpy and pyarrow imported, which writes a log file
  and a table file, and reports its start and its end to its server over a Unix socket;
- SQLite transactions (WAL, NORMAL, as fedflow's): the decision with the command to send, the start,
  the running process, the end with the report to send, the command that was sent, the other site's
  result. Commands are stored before they are sent.

It checks nothing, tells nobody anything, retries nothing and survives nothing. What fedflow takes
beyond it is the price of what fedflow does beyond it; the budget is twice the skeleton. The chains
of both run in turns on the same machine, so that the ratio survives a slow one.

The file is three programs: the benchmark, `skeleton.py server` and `skeleton.py zygote`.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

SLOTS = 4  #: executors at once per party
OUTBOX_SENDERS = 4  #: calls to the other party at once
LENGTH, TASKS = 10, 3  #: tasks of a job of the chain, of the burst
SCHEMA = """
CREATE TABLE job (job TEXT PRIMARY KEY, length INTEGER, status TEXT, ended_ms INTEGER);
CREATE TABLE task (job TEXT, task INTEGER, site TEXT, status TEXT, pid INTEGER,
                   PRIMARY KEY (job, task, site));
CREATE TABLE outbox (id INTEGER PRIMARY KEY, body BLOB);
"""

Message = dict[str, Any]


# --- a party's server -----------------------------------------------------------------------------


class Store:
    """A SQLite file with one connection per thread and one writer at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._local = threading.local()
        self._connection().executescript(SCHEMA)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction."""
        with self._lock:
            connection = self._connection()
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connection().execute(sql, values).fetchall()

    def _connection(self) -> sqlite3.Connection:
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, isolation_level=None, timeout=10)
            found.execute("PRAGMA journal_mode=wal")
            found.execute("PRAGMA synchronous=NORMAL")
            self._local.connection = found
        return found


class Server:
    """One party: its store, its zygote, and the way to the other party."""

    def __init__(self, site: str, home: Path, call: Callable[[bytes], bytes]) -> None:
        self._site = site
        self._home = home
        self._call = call
        self._store = Store(home / "skeleton.sqlite")
        self._outbox: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._unsent = 0
        self._commands: dict[str, Callable[[Message], Message]] = {
            "submit": self._submit,
            "query": self._query,
            "start": self._start,
            "started": self._started,
            "end": self._end,
            "result": self._result,
        }
        ours, theirs = socket.socketpair()
        self.zygote = subprocess.Popen(
            [sys.executable, __file__, "zygote", str(theirs.fileno())], pass_fds=(theirs.fileno(),)
        )
        theirs.close()
        self._to_zygote, self._from_zygote = ours.makefile("w"), ours.makefile("r")
        self._from_zygote.readline()  # it has imported
        self._zygote_lock = threading.Lock()
        self._waiting: deque[Message] = deque()
        self._busy = 0
        for target in (self._watch_zygote, *[self._send] * OUTBOX_SENDERS):
            threading.Thread(target=target, daemon=True).start()

    def serve(self, body: bytes) -> bytes:
        """Carry a command out: of the other party, of an executor, or of the benchmark."""
        message = json.loads(body)
        return json.dumps(self._commands[message["op"]](message)).encode()

    # --- jobs: at the guest

    def _submit(self, message: Message) -> Message:
        with self._store.writing() as db:
            values = (message["job"], message["length"])
            db.execute("INSERT INTO job VALUES (?, ?, 'running', NULL)", values)
        self._begin(message["job"], 0)
        return {}

    def _query(self, message: Message) -> Message:
        found = self._store.ask("SELECT status, ended_ms FROM job WHERE job = ?", message["job"])
        running = self._store.ask("SELECT COUNT(*) FROM job WHERE status = 'running'")[0][0]
        return {"job": found, "running": running, "busy": self._busy + self._unsent}

    def _begin(self, job: str, task: int) -> None:
        """Start a task at both sites."""
        start = {"op": "start", "job": job, "task": task}
        with self._store.writing() as db:
            rows = [(job, task, "guest"), (job, task, "host")]
            db.executemany("INSERT INTO task VALUES (?, ?, ?, 'waiting', NULL)", rows)
            self._put(db, start)
        self._start(start)

    def _result(self, message: Message) -> Message:
        """Note the end of a task at a site, and go on if that was the last of the two."""
        job, task = message["job"], message["task"]
        with self._store.writing() as db:
            key = (job, task, message["site"])
            where = "WHERE job = ? AND task = ? AND site = ?"
            db.execute(f"UPDATE task SET status = 'success' {where}", key)
            left = db.execute(
                "SELECT COUNT(*) FROM task WHERE job = ? AND task = ? AND status <> 'success'",
                (job, task),
            ).fetchone()[0]
            ((length,),) = db.execute("SELECT length FROM job WHERE job = ?", (job,)).fetchall()
            is_last = not left and task + 1 == length
            if is_last:
                values = (int(time.time() * 1000), job)
                db.execute("UPDATE job SET status = 'success', ended_ms = ? WHERE job = ?", values)
        if not left and not is_last:
            self._begin(job, task + 1)
        return {}

    # --- tasks: at both sites

    def _start(self, message: Message) -> Message:
        key = (message["job"], message["task"], self._site)
        with self._store.writing() as db:
            db.execute("INSERT OR REPLACE INTO task VALUES (?, ?, ?, 'starting', NULL)", key)
        with self._zygote_lock:
            self._waiting.append(message)
            self._launch()
        return {}

    def _started(self, message: Message) -> Message:
        key = (message["pid"], message["job"], message["task"], self._site)
        with self._store.writing() as db:
            where = "WHERE job = ? AND task = ? AND site = ?"
            db.execute(f"UPDATE task SET status = 'running', pid = ? {where}", key)
        return {}

    def _end(self, message: Message) -> Message:
        result = {**message, "op": "result", "site": self._site}
        if self._site == "guest":
            return self._result(result)
        with self._store.writing() as db:
            key = (message["job"], message["task"], self._site)
            where = "WHERE job = ? AND task = ? AND site = ?"
            db.execute(f"UPDATE task SET status = 'success' {where}", key)
            self._put(db, result)
        return {}

    # --- zygote, called with its lock

    def _launch(self) -> None:
        while self._waiting and self._busy < SLOTS:
            message = self._waiting.popleft()
            folder = self._home / "jobs" / message["job"] / f"{self._site}-{message['task']}"
            request = {**message, "folder": str(folder), "socket": str(self._home / "socket")}
            self._to_zygote.write(json.dumps(request) + "\n")
            self._to_zygote.flush()
            self._busy += 1

    def _watch_zygote(self) -> None:
        for _ in self._from_zygote:  # one line per executor that has ended
            with self._zygote_lock:
                self._busy -= 1
                self._launch()

    # --- outbox

    def _put(self, db: sqlite3.Connection, message: Message) -> None:
        """Store a command inside a transaction; a courier waits for that at the write lock."""
        body = json.dumps(message).encode()
        row = db.execute("INSERT INTO outbox (body) VALUES (?)", (body,)).lastrowid
        self._unsent += 1
        self._outbox.put((row or 0, body))

    def _send(self) -> None:
        while True:
            row, body = self._outbox.get()
            with self._store.writing():  # the row is there: its transaction has ended
                pass
            self._call(body)
            with self._store.writing() as db:
                db.execute("DELETE FROM outbox WHERE id = ?", (row,))
                self._unsent -= 1


def run_server(site: str, home: Path, port: int, peer: int, tls: list[str]) -> None:
    """Serve until the process is ended; print a line when ready."""
    ca, certificate, key = (Path(name).read_bytes() for name in tls)
    channel = grpc.secure_channel(
        f"127.0.0.1:{peer}", grpc.ssl_channel_credentials(ca, key, certificate)
    )
    call = channel.unary_unary("/skeleton/call")  # raw bytes in and out
    party = Server(site, home, lambda body: call(body, timeout=10))

    class Reports(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            for line in self.rfile:
                self.wfile.write(party.serve(line) + b"\n")

    reports = socketserver.ThreadingUnixStreamServer(str(home / "socket"), Reports)
    reports.daemon_threads = True
    threading.Thread(target=reports.serve_forever, daemon=True).start()
    handler = grpc.unary_unary_rpc_method_handler(lambda body, _: party.serve(body))
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("skeleton", {"call": handler}),)
    )
    server.add_secure_port(
        f"127.0.0.1:{port}",
        grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=True),
    )
    server.start()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    print(party.zygote.pid, flush=True)
    server.wait_for_termination()


# --- a party's processes --------------------------------------------------------------------------


def run_zygote(descriptor: int) -> None:
    """Fork an executor per line until the server is gone, and say when each has ended."""
    import gc
    import select

    import numpy  # noqa: F401  what executors need is imported once
    import pyarrow as pa

    pa.array([0.0])
    gc.freeze()
    server = socket.socket(fileno=descriptor)
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(woken.fileno())
    server.sendall(b"ready\n")
    rest = b""
    while True:
        ready, _, _ = select.select([server, wake], [], [])
        if wake in ready:
            wake.recv(4096)
            while _reaped():
                server.sendall(b"exited\n")
        if server in ready:
            data = server.recv(65536)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if os.fork() == 0:
                    signal.set_wakeup_fd(-1)
                    try:
                        run_executor(json.loads(line))
                    finally:
                        os._exit(0)


def _reaped() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def run_executor(task: Message) -> None:
    """Be one task at one site: report the start, write a log and a table, report the end."""
    import pyarrow as pa

    folder = Path(task["folder"])
    folder.mkdir(parents=True)
    key = {"job": task["job"], "task": task["task"]}
    with socket.socket(socket.AF_UNIX) as server, (folder / "task.log").open("w") as log:
        server.connect(task["socket"])
        replies = server.makefile("rb")
        for message in ({"op": "started", "pid": os.getpid()}, {"op": "end"}):
            if message["op"] == "end":
                table = pa.table({"id": ["0"], "x0": [0.0]})
                with pa.OSFile(str(folder / "table.arrow"), "wb") as file:
                    with pa.ipc.new_file(file, table.schema) as writer:
                        writer.write_table(table)
                log.write("the task has ended\n")
            server.sendall(json.dumps({**message, **key}).encode() + b"\n")
            replies.readline()


# --- the benchmark --------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Skeleton:
    """Two running parties, as the benchmark sees them."""

    call: Callable[[str, Message], Message]
    pids: tuple[int, ...]  #: servers and zygotes

    def run(self, jobs: int, length: int) -> tuple[float, float]:
        """Run jobs at once and return their wall and CPU seconds."""
        before, began_s = self._cpu_s(), time.time()
        ids = [f"{began_s}-{i}" for i in range(jobs)]
        for job in ids:
            self.call("guest", {"op": "submit", "job": job, "length": length})
        while self.call("guest", {"op": "query", "job": ids[-1]})["running"]:
            time.sleep(0.05)
        ends = [self.call("guest", {"op": "query", "job": job})["job"][0][1] for job in ids]
        while any(
            self.call(site, {"op": "query", "job": ""})["busy"] for site in ("guest", "host")
        ):
            time.sleep(0.005)
        return max(ends) / 1000 - began_s, self._cpu_s() - before

    def _cpu_s(self) -> float:
        from parties import cpu_times

        return sum(sum(cpu_times(pid)) for pid in self.pids)


@contextmanager
def skeleton() -> Iterator[Skeleton]:
    """Start both parties of the skeleton and end them after."""
    from parties import create_files, free_ports

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="skeleton-")))
        ports = free_ports(2)
        pids: list[int] = []
        calls: dict[str, Any] = {}
        for index, files in enumerate(create_files(folder / "tls", ("9999", "10000"))):
            site = ("guest", "host")[index]
            (folder / site).mkdir()
            tls = [str(path) for path in (files.ca, files.certificate, files.key)]
            where = [str(folder / site), str(ports[index]), str(ports[1 - index])]
            process = subprocess.Popen(
                [sys.executable, __file__, "server", site, *where, *tls], stdout=subprocess.PIPE
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
            assert process.stdout is not None
            pids += [process.pid, int(process.stdout.readline())]
            process.stdout.close()
            ca, certificate, key = (Path(name).read_bytes() for name in tls)
            channel = stack.enter_context(
                grpc.secure_channel(
                    f"127.0.0.1:{ports[index]}", grpc.ssl_channel_credentials(ca, key, certificate)
                )
            )
            calls[site] = channel.unary_unary("/skeleton/call")

        def call(site: str, message: Message) -> Message:
            reply: Message = json.loads(calls[site](json.dumps(message).encode(), timeout=30))
            return reply

        yield Skeleton(call=call, pids=tuple(pids))


def main() -> None:
    from burst import burst
    from figures import Figure, Machine, arguments, show
    from parties import chain, two_parties

    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=100)
    options = parser.parse_args()
    machine = Machine()
    names = ("wall per task", "CPU per task run", "task runs")
    least: dict[str, list[float]] = {name: [] for name in names}
    ours: dict[str, list[float]] = {name: [] for name in names}
    with skeleton() as small, two_parties() as parties:
        small.run(1, LENGTH)
        parties.run(*chain(LENGTH))
        for _ in range(options.runs):
            wall_s, cpu_s = small.run(1, LENGTH)
            least["wall per task"].append(1000 * wall_s / LENGTH)
            least["CPU per task run"].append(1000 * cpu_s / (2 * LENGTH))
            parties.settle()
            before, began_ms = parties.cpu(), time.time() * 1000
            view = parties.run(*chain(LENGTH))
            parties.settle()
            cpu_s = (parties.cpu() - before).total
            ours["wall per task"].append(((view.ended_ms or 0) - began_ms) / LENGTH)
            ours["CPU per task run"].append(1000 * cpu_s / (2 * LENGTH))
        runs = 2 * TASKS * options.jobs
        least["task runs"].append(runs / small.run(options.jobs, TASKS)[0])
        ours["task runs"].append(runs / burst(parties, options.jobs)[0])
    figures = []
    for name, unit in zip(names, ("ms", "ms", "/s"), strict=True):
        rate = name == "task runs"
        figures += [
            Figure(what=f"{name}, skeleton", unit=unit, values=least[name], at_least=rate),
            Figure(what=f"{name}, fedflow", unit=unit, values=ours[name], at_least=rate),
        ]
        pair = (figures[-2].median, figures[-1].median)
        ratio = pair[0] / pair[1] if rate else pair[1] / pair[0]
        budget = None if rate else 2.0
        figures.append(Figure(what="... ratio", unit="times", values=[ratio], budget=budget))
    show(f"Skeleton and fedflow: chain of {LENGTH}, burst of {options.jobs} x {TASKS}", figures,
         as_json=options.json, machine=machine)  # fmt: skip


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["server", site, home, port, peer, *tls]:
            run_server(site, Path(home), int(port), int(peer), tls)
        case ["zygote", descriptor]:
            run_zygote(int(descriptor))
        case _:
            main()
