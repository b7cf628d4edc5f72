"""Every error of fedflow, one class each.

A class has a number in its area's block (never reused), the FATE return code and HTTP status that
the doors answer with, and a hint that says what to do next. The first line of the docstring is the
message; its `{fields}` are the keyword arguments of the constructor. Blocks:

| block | area |
|---|---|
| 1000 | requests and authentication |
| 1100 | jobs and tasks |
| 1200 | DSL and runtime conf |
| 1300 | parties and transport |
| 1400 | tables and data |
| 1500 | executors |
| 1600 | data plane |
| 1700 | components |
| 1800 | settings and start-up |
| 1900 | store |
| 2000 | models |
| 2100 | scoring of rows online |
| 2200 | the serving process |
| 2300 | rendezvous |
"""

from __future__ import annotations

from collections.abc import Iterator

from fedflow.base.errors import (  # noqa: F401  # each defines the classes of its area
    components,
    data,
    data_plane,
    documents,
    executors,
    jobs,
    models,
    parties,
    rendezvous,
    requests,
    serving,
    serving_process,
    start,
    store,
)
from fedflow.base.errors.error import FedflowError


def repeated_error(name: str, message: str) -> FedflowError | None:
    """Return an error of the class `name` with a sentence; None if there is no such class, or one
    that holds more than a sentence.
    """
    kind = next((kind for kind in all_errors() if kind.__name__ == name), None)
    if kind is None or kind.__init__ is not FedflowError.__init__:
        return None
    return kind.repeated(message)


def all_errors() -> Iterator[type[FedflowError]]:
    """Yield every concrete error class, depth first."""
    stack = list(FedflowError.__subclasses__())
    while stack:
        kind = stack.pop()
        stack.extend(kind.__subclasses__())
        yield kind
