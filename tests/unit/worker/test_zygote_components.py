"""Which components a zygote has imported after it was asked for them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# The zygote serves in the main thread, for its signals; another one asks.
_ASKS = """
import json, socket, sys, threading
from fedflow.worker.zygote import Zygote

server, zygote = socket.socketpair()
seen = []

def loaded():
    return [m for m in sys.modules if m.startswith("fedflow.components.") and m.count(".") == 3]

def ask(lines, **question):
    server.sendall(json.dumps({"id": 1, **question}).encode() + b"\\n")
    seen.append([json.loads(lines.readline()), loaded()])

def questions():
    with server, server.makefile("rb") as lines:
        lines.readline()  # it is ready
        seen.append([None, loaded()])
        ask(lines, op="describe")
        for module in ("Union", "NoSuch"):
            ask(lines, op="check", module=module, parameters="{}", path="p")

asking = threading.Thread(target=questions)
asking.start()
with zygote:
    Zygote(zygote, fork=True).run([])
asking.join()
print(json.dumps(seen))
"""


def test_a_zygote_imports_only_the_components_that_are_checked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _ASKS], capture_output=True, text=True, check=True, timeout=120
    )
    found: list[tuple[dict[str, Any], list[str]]] = json.loads(done.stdout)
    (_, before), (described, after), (good, checked), (unknown, last) = found
    assert {"Reader", "HeteroLR", "Union"} <= {one["module"] for one in described["data"]}
    assert before == after == []
    assert good["data"] == []
    assert unknown["error"]["name"] == "UnknownComponent"
    assert "fedflow.components.features.union" in checked
    assert "fedflow.components.linear.hetero_lr" not in last
