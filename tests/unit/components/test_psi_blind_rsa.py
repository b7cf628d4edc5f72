"""Blind RSA signatures: names of ids, what the signer sees, and wrong answers."""

from __future__ import annotations

import hashlib

import gmpy2
import numpy as np
import pyarrow as pa
import pytest
from gmpy2 import mpz

from fedflow.base.errors.components import ComponentFailed
from fedflow.base.errors.data_plane import CodecError
from fedflow.components.intersection.blind_rsa import (
    EXPONENT,
    Names,
    SigningKey,
    check_proof,
    new_seed,
    parse_numbers,
)
from fedflow.components.intersection.hashing import domain_of, spread
from fedflow.cores import forked
from fedflow.cores.workers import LocalWorkers
from fedflow.sdk.crypto.modulus import parse_modulus

KEY = SigningKey.generate(1024)
IDS = pa.array(["1", "Zoë", "3"])


HERE = LocalWorkers(1)


def names(n: mpz = KEY.n, *, final: str = "sha256") -> Names:
    return Names(n=n, domain=b"d", hash_method="sha256", final_hash_method=final)


@pytest.mark.parametrize("final", ["sha256", "md5", "sha1", "sha512"])
def test_asker_and_signer_find_the_same_names(final: str) -> None:
    seed, here = new_seed(), names(final=final)
    signed = KEY.sign(here.ask(IDS, seed, HERE), here, HERE)
    found = here.names_of(IDS, signed, seed, HERE)
    assert found.shape == (3, hashlib.new(final).digest_size)
    assert found.tobytes() == KEY.names_of(IDS, here, HERE).tobytes()


def test_a_name_is_the_hash_of_a_signature_of_a_full_domain_hash() -> None:
    (digest,) = spread(["1"], b"d", method="sha256", size=128 + 16)
    hashed = int.from_bytes(digest, "big") % int(KEY.n)
    private = pow(EXPONENT, -1, int((KEY.p - 1) * (KEY.q - 1)))
    signature = pow(hashed, private, int(KEY.n)).to_bytes(128, "big")
    prefix = domain_of("fedflow-psi-name") + b"d"
    expected = hashlib.sha256(prefix + signature).digest()
    assert KEY.names_of(pa.array(["1"]), names(), HERE).tobytes() == expected


def test_the_signer_sees_other_numbers_each_time_that_tell_no_guess() -> None:
    here = names()
    one, other = here.ask(IDS, new_seed(), HERE), here.ask(IDS, new_seed(), HERE)
    assert one.tobytes() != other.tobytes()
    hashes = here.hashes(["1"])
    blinding = parse_numbers(KEY.sign(one[:1], here, HERE), below=KEY.n)[0]
    r = blinding * gmpy2.invert(KEY.roots(hashes)[0], KEY.n) % KEY.n
    assert r.bit_length() > 900  # short ones would let the signer test guesses


def test_a_wrong_signature_is_refused() -> None:
    seed, here = new_seed(), names()
    signed = KEY.sign(here.ask(IDS, seed, HERE), here, HERE)
    with pytest.raises(CodecError, match="signature"):
        here.names_of(IDS, signed[::-1].copy(), seed, HERE)
    zeros = np.zeros_like(signed)
    with pytest.raises(CodecError, match="modulus"):
        here.names_of(IDS, zeros, seed, HERE)


@pytest.mark.parametrize("number", [0, 1, KEY.n - 1, KEY.n, KEY.n + 5])
def test_the_signer_refuses_numbers_that_are_no_questions(number: int) -> None:
    asked = np.frombuffer(int(number).to_bytes(128, "big"), np.uint8)[None]
    with pytest.raises(CodecError, match="modulus"):
        KEY.sign(asked, names(), HERE)


def test_a_miscomputed_signature_never_leaves() -> None:
    key = SigningKey.from_text(KEY.text())
    key._d_p += 2
    with pytest.raises(ComponentFailed):
        key.sign(names().ask(IDS, new_seed(), HERE), names(), HERE)


def test_a_key_is_proven_to_hide_what_is_asked() -> None:
    check_proof(KEY.n, KEY.proof())
    assert not {int(root, 16) for root in KEY.proof()} & set(names().hashes(map(str, range(8))))


def test_a_key_that_would_tell_its_owner_of_the_ids_is_refused() -> None:
    """e divides p - 1: the class of x**((p - 1) / e) does not depend on r."""
    cofactor = gmpy2.next_prime(mpz(2) ** 495)
    while not gmpy2.is_prime(p := 2 * EXPONENT * cofactor + 1):
        cofactor = gmpy2.next_prime(cofactor)
    n = p * KEY.q
    here = names(n)
    asked = [parse_numbers(here.ask(IDS, new_seed(), HERE), below=n) for _ in range(2)]
    told = [[gmpy2.powmod(x, (p - 1) // EXPONENT, p) for x in numbers] for numbers in asked]
    assert told[0] == told[1]
    numbers = [gmpy2.powmod(int(root, 16), 1, n) for root in KEY.proof()]
    with pytest.raises(CodecError, match="not proven"):
        check_proof(n, [f"{number:x}" for number in numbers])


@pytest.mark.parametrize(
    "proof", [None, [], KEY.proof()[1:], ["0"] * 8, ["z"] * 8, [1] * 8, ["1" * 5000] * 8, {"a": 1}]
)
def test_what_is_no_proof_is_refused(proof: object) -> None:
    with pytest.raises(CodecError):
        check_proof(KEY.n, proof)


@pytest.mark.parametrize("text", ["", "5", "5,5", "4,7", "x,y", "7,9"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        SigningKey.from_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zz",
        None,
        5,
        f"{KEY.n // 2:x}",  # too short
        f"{KEY.n * 3:x}",  # a small factor
        f"{gmpy2.next_prime(KEY.n):x}",
        f"{KEY.p * KEY.p * 4:x}",
        "-" + f"{KEY.n:x}",
        "1" * 9000,
        f"{SigningKey.generate(1024).n * KEY.n**8:x}",  # longer than any component makes
    ],
)
def test_a_weak_modulus_is_refused(text: object) -> None:
    with pytest.raises(CodecError):
        parse_modulus(text, bits=1024)


def test_several_processes_give_what_one_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "FORK_FROM", 10)
    ids = pa.array([f"id-{i}" for i in range(60)])
    seed, here, three = new_seed(), names(), LocalWorkers(3)
    asked = here.ask(ids, seed, three)
    assert asked.tobytes() == here.ask(ids, seed, HERE).tobytes()
    signed = KEY.sign(asked, here, three)
    assert signed.tobytes() == KEY.sign(asked, here, HERE).tobytes()
    found = here.names_of(ids, signed, seed, three)
    assert found.tobytes() == KEY.names_of(ids, here, HERE).tobytes()
