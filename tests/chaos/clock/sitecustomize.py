"""Python imports this at its start if its folder is on the path: the wall clock of fedflow, in all
processes of one party, is off by what the file `offset_ns` beside this one says at that moment.

`time.time_ns` is what `fedflow/base/clock.py` reads. `time.time` stays as it is: gRPC adds timeouts
to it in Python and compares the sum in C, whose clock is not moved.
"""

import mmap
import struct
import time
from pathlib import Path

_real = time.time_ns
with (Path(__file__).parent / "offset_ns").open("rb") as _file:
    _shared = mmap.mmap(_file.fileno(), 8, access=mmap.ACCESS_READ)


def _time_ns() -> int:
    offset: int = struct.unpack("<q", _shared[:8])[0]
    return _real() + offset


time.time_ns = _time_ns

if (Path(__file__).parent / "stop_at.py").exists():
    import stop_at  # noqa: F401  # pyright: ignore
