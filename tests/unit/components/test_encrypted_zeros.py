"""Zeros that are encrypted ahead: used once, and as good as fresh ciphertexts of the rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fedflow.components.boosting import zeros as module
from fedflow.components.boosting.criterion import Gradients
from fedflow.components.boosting.sums import SlotLayout, encrypt_gradients
from fedflow.components.boosting.zeros import EncryptedZeros
from fedflow.sdk.crypto.okamoto_uchiyama import new_private_key
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.sdk.crypto.schemes import PrivateScheme
from fedflow.testing.workers import PicklingWorkers

ROWS = 12

KEYS: dict[str, PrivateScheme] = {
    "paillier": PrivateKey.generate(512),
    "ou": new_private_key(768),
}


@pytest.mark.parametrize("classes", [1, 2, 7])
@pytest.mark.parametrize("name", KEYS)
def test_rows_are_the_same_with_zeros_made_ahead(name: str, classes: int) -> None:
    key, workers = KEYS[name], PicklingWorkers()
    generator, shape = np.random.default_rng(1), (ROWS, classes)
    gradients = Gradients.of(generator.normal(size=shape), generator.random(shape))
    gradients = replace(gradients, bits=30)
    layout = SlotLayout.of(key.public, rows=ROWS, bits=gradients.bits, classes=classes)
    stock = EncryptedZeros(key, workers)
    stock.begin(ROWS * layout.groups)
    zeros = stock.take(ROWS * layout.groups)
    assert len(zeros) == ROWS * layout.groups // 2  # PicklingWorkers make half of them
    made = encrypt_gradients(key, gradients, layout, workers, zeros=zeros)
    assert made.shape == (ROWS, layout.groups * key.public.width)
    made = made.reshape(-1, key.public.width)
    opened = key.decrypt(key.public.read_rows(made))
    assert opened == layout.plain(gradients.values)
    assert not {row.tobytes() for row in made} & {row.tobytes() for row in zeros}


def test_a_zero_is_taken_once() -> None:
    stock = EncryptedZeros(KEYS["paillier"], PicklingWorkers())
    stock.begin(ROWS)
    first, second = stock.take(2), stock.take(ROWS)
    assert (len(first), len(second), len(stock.take(ROWS))) == (2, ROWS // 2 - 2, 0)
    assert len({row.tobytes() for row in (*first, *second)}) == ROWS // 2


def test_zeros_that_are_not_used_are_dropped() -> None:
    stock = EncryptedZeros(KEYS["paillier"], PicklingWorkers())
    stock.begin(ROWS)
    stock.take(1)
    stock.end()
    assert len(stock.take(ROWS)) == 0


def test_no_more_are_made_than_memory_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    key = KEYS["paillier"]
    monkeypatch.setattr(module, "MOST_BYTES", 4 * key.public.width)
    stock = EncryptedZeros(key, PicklingWorkers())
    stock.begin(1_000_000)
    assert len(stock.take(ROWS)) == 2
