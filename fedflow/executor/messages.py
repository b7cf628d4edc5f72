"""What a server and its zygote say to each other: one JSON object per line over a socket pair.

| from | op | members |
|---|---|---|
| server | start | launch_id, module, spec_path, log_dir, work_dir, command |
| server | describe | id |
| server | ping | id (0) |
| server | check | id, module, parameters, path, run (a planned run, or null) |
| zygote | ready | pid, problems (providers that could not be loaded) |
| zygote | started | launch_id, pid, start_time |
| zygote | not_started | launch_id, reason |
| zygote | exited | launch_id, code or null, signal or null |
| zygote | reply | id, data or error {name, fields, mistakes of parameters} |

`command` is null, or `{arguments, env}`: how the interpreter of a provider is started.
A child runs only after its `started` was handed to the socket. So a launch whose `started` did not
arrive did not run, and may be sent to the next zygote.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Message = dict[str, Any]


def encode(message: Message) -> bytes:
    """Return one line. Raises: ValueError, TypeError, RecursionError: it is not plain JSON."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"


class LineReader:
    """Cuts what a socket gives into messages."""

    def __init__(self, line_bytes: int) -> None:
        self._limit = line_bytes
        self._buffer = bytearray()
        self._searched = 0  # how much of the buffer is known to hold no end of line

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that `data` completes.

        Raises: ValueError: a line is longer than the limit, or no JSON object. The stream cannot be
            used after that.
        """
        self._buffer += data
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            message = json.loads(line)
            if not isinstance(message, dict):
                raise ValueError("a message is no JSON object")  # noqa: TRY004  as for other bad lines
            yield message
        self._searched = len(self._buffer)
        if self._searched > self._limit:
            raise ValueError(f"a message is longer than {self._limit} bytes")
