"""Arrays of a Flower app in a model: plain JSON, which can be read without flwr."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

MODEL_BYTES: Final = 20 * 2**20  #: of arrays that become a model; 31 MiB of JSON may be reported

Arrays: TypeAlias = dict[str, NDArray[Any]]


def arrays_to_json(arrays: Arrays) -> list[dict[str, Any]]:
    """Return arrays as plain JSON; `arrays_from_json` reads it.

    Members: name, dtype (numpy's, little endian), shape, data (base64 of the numbers, rows first).
    """
    found = []
    for name, array in arrays.items():
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        data = base64.b64encode(plain.tobytes()).decode()
        found.append(
            {"name": name, "dtype": plain.dtype.str, "shape": list(array.shape), "data": data}
        )
    return found


def arrays_from_json(stored: Iterable[Mapping[str, Any]]) -> Arrays:
    """Return what `arrays_to_json` gave, read-only. Raises: ValueError: it is something else."""
    return {
        one["name"]: np.frombuffer(base64.b64decode(one["data"]), np.dtype(one["dtype"])).reshape(
            one["shape"]
        )
        for one in stored
    }
