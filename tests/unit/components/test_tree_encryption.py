"""`encrypt_param` of trees: which schemes are offered, and what is said of them."""

from __future__ import annotations

import pytest

from fedflow.components.training.params import TreeEncryptParam
from fedflow.domain.job.warning import HINTS
from fedflow.sdk.crypto.schemes import Cryptosystem


@pytest.mark.parametrize(
    ("method", "scheme", "codes"),
    [
        ("Paillier", Cryptosystem.PAILLIER, []),
        ("ipcl", Cryptosystem.PAILLIER, ["Replaced"]),
        ("ou", Cryptosystem.OU, ["OtherAssumption"]),
        ("OU", Cryptosystem.OU, ["OtherAssumption"]),
    ],
)
def test_a_method_is_a_scheme_with_doubts(
    method: str, scheme: Cryptosystem, codes: list[str]
) -> None:
    params = TreeEncryptParam(method=method)
    params.check()
    assert params.key_length == 2048
    assert params.scheme is scheme
    assert [doubt.code for doubt in params.doubts()] == codes
    assert set(codes) <= set(HINTS)


@pytest.mark.parametrize(
    ("method", "bits", "words"),
    [
        ("heu", 2048, "heu is not offered"),
        ("rsa", 2048, "not one of"),
        (None, 2048, "without encryption"),
        ("none", 2048, "without encryption"),
        ("paillier", 512, "1024 to 8192"),
        ("ou", 1024, "2048 to 8192"),
        ("ou", 2049, "even"),
        ("ou", 8194, "2048 to 8192"),
    ],
)
def test_what_is_not_offered_is_refused(method: str | None, bits: int, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        TreeEncryptParam(method=method, key_length=bits).check()


def test_a_short_paillier_key_is_doubtful() -> None:
    params = TreeEncryptParam(key_length=1024)
    params.check()
    assert [doubt.code for doubt in params.doubts()] == ["ShortKey"]
