"""A walk over all messages of a job: what a party contributes is in none of them unmasked."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedflow.components.horizontal import member as membering
from tests.unit.components.homo_parties import ARBITER, GUEST, HOST, HOST_2
from tests.unit.components.tampering import run_tampered

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="needs the extra nn")
TRAINED = ["HomoLR", pytest.param("HomoNN", marks=needs_torch)]
LEAST = 1 << 12  #: smaller integers say nothing of an update
SCALE = 1 << 24


def arrays_in(value: Any) -> Iterator[NDArray[Any]]:
    """Yield all that a message holds as arrays: of numbers, of lists of numbers, of bytes."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from arrays_in(one)
    elif isinstance(value, list | tuple):
        numbers = [one for one in value if isinstance(one, int | float)]
        if numbers:
            yield np.array(numbers, dtype=np.float64)
        for one in value:
            yield from arrays_in(one)
    elif isinstance(value, np.ndarray):
        yield value.reshape(-1)
        yield np.frombuffer(value.tobytes(), dtype=np.uint8)
    elif isinstance(value, bytes):
        yield np.frombuffer(value, dtype=np.uint8)
    elif isinstance(value, int | float):
        yield np.array([value], dtype=np.float64)


def readings(array: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    """Yield the numbers of an array in every way that a number may be written, as float64."""
    if array.dtype != np.uint8:
        yield array.astype(np.float64)
        return
    for size, kinds in ((8, ("<i8", "<f8", ">i8", ">f8")), (4, ("<f4", "<i4"))):
        for start in range(min(size, len(array))):
            part = array[start : start + (len(array) - start) // size * size].tobytes()
            for kind in kinds:
                with np.errstate(over="ignore", invalid="ignore"):
                    yield np.frombuffer(part, kind).astype(np.float64)


def secrets_of(vector: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return what may not be seen of a contribution: fixed-point numbers, sums, and weights.

    How many rows a party has, everybody may know.
    """
    rows = int(vector[-1])
    told = vector[:-1][vector[:-1] != rows * SCALE]
    numbers = told[np.abs(told) >= LEAST].astype(np.float64)
    return np.concatenate([numbers, numbers / SCALE, numbers / SCALE / rows])


def shown_in(value: Any, secrets: NDArray[np.float64]) -> bool:
    """Tell whether one of the secret numbers is in a message."""
    for array in arrays_in(value):
        for numbers in readings(array):
            finite = np.sort(numbers[np.isfinite(numbers)])
            if not len(finite):
                continue
            at = np.searchsorted(finite, secrets)
            near = np.minimum(
                np.abs(finite[np.minimum(at, len(finite) - 1)] - secrets),
                np.abs(finite[np.maximum(at - 1, 0)] - secrets),
            )
            if (near <= 1e-9 * np.abs(secrets)).any():
                return True
    return False


@pytest.fixture
def contributions(monkeypatch: pytest.MonkeyPatch) -> list[NDArray[np.int64]]:
    """Return a list that gets what each member contributes, before it is masked."""
    found: list[NDArray[np.int64]] = []
    encoded = membering.encoded

    def kept(*args: Any, **given: Any) -> NDArray[np.int64]:
        vector = encoded(*args, **given)
        found.append(vector.copy())
        return vector

    monkeypatch.setattr(membering, "encoded", kept)
    return found


def first_rounds(name: str) -> int:
    """Return how many contributions are the same at all, and so no secret: HomoNN's beginning."""
    return 3 if name == "HomoNN" else 0


@pytest.mark.parametrize("signed", [False, True], ids=["", "signed"])
@pytest.mark.parametrize("name", TRAINED)
def test_no_message_of_a_job_shows_an_update(
    name: str, signed: bool, contributions: list[NDArray[np.int64]], tmp_path: Path
) -> None:
    results, federation = run_tampered(name, tmp_path, signed=signed)
    assert all(one.error is None for one in results.values())
    secrets = np.concatenate([secrets_of(one) for one in contributions[first_rounds(name) :]])
    assert len(contributions) == 6 + first_rounds(name)
    pairs = {(source, to) for source, to, _ in federation.seen}
    assert pairs == {
        pair for site in (GUEST, HOST, HOST_2) for pair in ((site, ARBITER), (ARBITER, site))
    }
    for source, to, value in federation.seen:
        assert not shown_in(value, secrets), f"{value['kind']} from {source} to {to}"


@pytest.mark.parametrize("name", TRAINED)
def test_the_walk_finds_updates_without_masks(
    name: str, contributions: list[NDArray[np.int64]], tmp_path: Path
) -> None:
    trainer = {"param": {"epochs": 2, "secure_aggregate": False}}
    open_ = {"trainer": trainer} if name == "HomoNN" else {"secure_aggregate": False}
    _, federation = run_tampered(name, tmp_path, **open_)
    secrets = np.concatenate([secrets_of(one) for one in contributions[first_rounds(name) :]])
    shown = [value["kind"] for _, _, value in federation.seen if shown_in(value, secrets)]
    assert set(shown) == {"answer"}
    assert len(shown) == 6


@pytest.mark.parametrize("kind", ["<i8", "<f8", "<f4"])
def test_the_walk_finds_numbers_in_bytes(kind: str) -> None:
    secrets = np.array([123456.0])
    content = b"x" + np.array([7, 123456], dtype=kind).tobytes()
    assert shown_in({"body": [{"text": content}]}, secrets)
    assert not shown_in({"body": [{"text": bytes(64)}], "n": 3}, secrets)
