"""Times of starting party tasks: python benchmarks/executor_start.py [RUNS]

Prints, per variant, milliseconds from the request to: the handle (a process exists), the first call
of the child at the server, its end report, and its end being known; and the size of the zygote.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from fedflow.executor.plain import PlainExecutor
from fedflow.executor.zygote import ZygoteExecutor

sys.path.insert(0, str(Path(__file__).parents[1]))  # the helpers of the tests

from tests.support.executors import RecordingEvents, WorkerServer, write_launch


def measure(kind: type[ZygoteExecutor], runs: int) -> None:
    """Start `runs` empty tasks, one after the other, and print the medians."""
    times: dict[str, list[float]] = {"handle": [], "first call": [], "end report": [], "end": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = RecordingEvents()
        executor = kind(events=events, python=sys.executable)
        began = perf_counter()
        executor.open()
        executor.wait_ready(30)
        print(f"{kind.__name__}: ready after {1000 * (perf_counter() - began):.0f} ms")
        with WorkerServer(folder / "server.sock") as server:
            for i in range(runs):
                launch = write_launch(
                    folder, launch_id=f"l{i}", module="empty", server_socket=server.path
                )
                server.requests.clear()
                began_s = server.now_s()
                executor.start(launch)
                events.handle(launch.launch_id)
                times["handle"].append(server.now_s() - began_s)
                assert events.end(launch.launch_id) == (0, None)
                times["end"].append(server.now_s() - began_s)
                times["first call"].append(server.requests[0].at_s - began_s)
                times["end report"].append(server.requests[-1].at_s - began_s)
        status = Path(f"/proc/{executor.pid}/status").read_text(encoding="ascii").splitlines()
        executor.close(1.0, kill=True)
    for what, values in times.items():
        median, least = statistics.median(values), min(values)
        print(f"  {what:<11} median {1000 * median:7.2f} ms, min {1000 * least:7.2f} ms")
    print("  " + next(line for line in status if line.startswith("VmRSS")))


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    measure(ZygoteExecutor, count)
    measure(PlainExecutor, max(3, count // 10))
