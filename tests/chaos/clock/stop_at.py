"""Stops executors at a stage of a round of horizontal training, so that a fault can meet it there.

A file `stops/<site>.<stage>.<n>` beside this one stops that site's next executor as it comes to the
stage for the n-th time. It then is called `....reached`; once it is removed, the executor goes on.
A file `stops/pace` holds seconds that the party's members wait at the start of each round.
"""

import importlib.abc
import importlib.machinery
import sys
import time
from collections import Counter
from pathlib import Path

MODULE = "fedflow.components.horizontal.driving"
STOPS = Path(__file__).parent / "stops"
LONGEST_S = 120.0
LOOK_S = 0.01

_counts = Counter()


def stage_of(message):
    """Return the stage to which a message belongs, as it is sent to the data plane."""
    if message["kind"] == "start":
        return "start"
    body = message.get("body")
    return str(body.get("stage", "")) if isinstance(body, dict) else ""


def come_to(stage):
    """Count a stage, and stop in it if a file says so."""
    _counts[stage] += 1
    role, party, _ = (Path.cwd().name + "--").split("-", 2)
    stop = STOPS / f"{role}-{party}.{stage}.{_counts[stage]}"
    reached = stop.with_name(stop.name + ".reached")
    try:
        stop.rename(reached)
    except OSError:
        return
    until_s = time.monotonic() + LONGEST_S
    while reached.exists() and time.monotonic() < until_s:
        time.sleep(LOOK_S)


def _hook(module):
    post = module._Post
    send, following = post.send, post.next

    def staged_send(self, message, **to):
        come_to(stage_of(module.written(message)))
        return send(self, message, **to)

    def staged_next(self, *given):
        found = following(self, *given)
        value = getattr(found, "value", None)
        if isinstance(value, dict) and value.get("kind") == "start":
            come_to("start")
            pace = STOPS / "pace"
            if pace.exists():
                time.sleep(float(pace.read_text()))
        return found

    post.send, post.next = staged_send, staged_next


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the one module, and changes it once it is loaded."""

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            _hook(module)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
