"""A SSHE model as it is stored: that of a linear model, and what `reveal_strategy` adds.

With `encrypted_reveal_in_host` the host has its weights as ciphertexts under a key of the guest,
which the guest's model holds: numbers m with the weight m * 16**exponent. A checkpoint of hidden
weights has `training_state` with shares and neither weights nor ciphertexts.

Source: docs/reference/components.md#sshe and docs/reference/models.md#linear-models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import gmpy2
import msgspec
import numpy as np
from gmpy2 import mpz

from fedflow.components.linear.families import Family
from fedflow.components.linear.params import LinearParams
from fedflow.components.linear.party_weights import FittedWeights
from fedflow.components.linear.stored import LinearModel, Trained
from fedflow.components.sshe.params import SSHEParams
from fedflow.components.sshe.shares import WEIGHT_BITS
from fedflow.components.training.params import MIN_KEY_BITS
from fedflow.sdk import BadData, Model
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey
from fedflow.sdk.decoding import read_as
from fedflow.sdk.errors import CodecError

EXPONENT: Final = -WEIGHT_BITS // 4  #: of 16, in stored ciphertexts
_STATE: Final = "training_state"


@dataclass(frozen=True, kw_only=True, slots=True)
class EncryptedWeights:
    """The host's weights under the guest's key, at WEIGHT_BITS, in the order of its columns."""

    key: PublicKey
    ciphertexts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted(Trained):
    """One training at one party; weights in `share` that are not `known` are 0."""

    known: bool = True
    encrypted: EncryptedWeights | None = None  #: at a host
    key: PrivateKey | None = None  #: at the guest, if the host's weights are encrypted
    state: Mapping[str, Any] = field(default_factory=dict)  #: of a checkpoint

    def summary(self, *, classifies: bool) -> dict[str, Any]:
        """Return what the component's summary says of it."""
        summary = Trained.summary(self, classifies=classifies)
        if self.encrypted or self.key:
            return {k: v for k, v in summary.items() if k not in ("coef", "intercept")}
        return summary


def no_weights(columns: tuple[str, ...]) -> FittedWeights:
    """Return what stands for weights that are not known."""
    return FittedWeights(columns=columns, coef=np.zeros(len(columns)))


def write_model(model: LinearModel, params: LinearParams) -> Model:
    """Return the model's objects; all its parts are `Fitted`."""
    base = model.to_model(params)
    param = dict(base.param)
    if model.one_vs_rest:
        result = param["one_vs_rest_result"]
        stored = zip(result["completed_models"], model.parts, strict=True)
        models = [_with_secrets(one, part) for one, part in stored]
        param["one_vs_rest_result"] = {**result, "completed_models": models}
    else:
        param = _with_secrets(param, model.parts[0])
    strategy = params.reveal_strategy if isinstance(params, SSHEParams) else ""
    meta = {**base.meta, "reveal_strategy": strategy}
    return Model(meta_name=base.meta_name, param_name=base.param_name, meta=meta, param=param)


def read_model(model: Model, *, family: Family, where: str) -> LinearModel:
    """Return the model that `write_model` made. Raises: BadData: not one of the family."""
    foreign = f"the model is not one of {family.module}"
    param = dict(model.param)
    raw = _raw_parts(param)
    try:
        extras = [read_as(part, _Extras) for part in raw]
    except msgspec.ValidationError as exc:
        raise BadData(where=where, reason=f"{foreign} ({exc})") from exc
    filled = [_filled(part, extra) for part, extra in zip(raw, extras, strict=True)]
    if param.get("need_one_vs_rest") is True:
        param["one_vs_rest_result"] = {"completed_models": filled}
    else:
        (param,) = filled
    plain = LinearModel.from_model(replace(model, param=param), family=family, where=where)
    parts = [_fitted(t, e, where=where) for t, e in zip(plain.parts, extras, strict=True)]
    return replace(plain, parts=tuple(parts))


class _Public(msgspec.Struct, frozen=True, kw_only=True):
    n: str


class _Encrypted(msgspec.Struct, frozen=True, kw_only=True):
    public_key: _Public
    cipher_text: str
    exponent: int
    is_obfuscator: bool = True


class _Extras(msgspec.Struct, frozen=True, kw_only=True):
    """What a SSHE model has beside a linear model's fields."""

    header: list[str]
    encrypted_weight: dict[str, _Encrypted] = msgspec.field(default_factory=dict)
    cipher: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)
    training_state: dict[str, Any] = msgspec.field(default_factory=dict)


def _raw_parts(param: Mapping[str, Any]) -> list[dict[str, Any]]:
    result = param.get("one_vs_rest_result")
    if param.get("need_one_vs_rest") is not True or not isinstance(result, dict):
        return [dict(param)]
    models = result.get("completed_models")
    return [m if isinstance(m, dict) else {} for m in models] if isinstance(models, list) else []


def _with_secrets(stored: dict[str, Any], part: Trained) -> dict[str, Any]:
    """Return the stored fields of one training with what only SSHE has."""
    result = {**stored, "cipher": {}}
    if not isinstance(part, Fitted) or part.share is None:
        return result
    if not part.known:
        result["weight"] = {}
    if part.encrypted is not None:
        n = part.encrypted.key.n.digits()
        result["encrypted_weight"] = {
            name: {
                "public_key": {"n": n},
                "cipher_text": mpz(ciphertext).digits(),  # may be too long for int to write
                "exponent": EXPONENT,
                "is_obfuscator": True,
            }
            for name, ciphertext in zip(part.share.columns, part.encrypted.ciphertexts, strict=True)
        }
    if part.key is not None:
        p, q = part.key.primes
        result["cipher"] = {
            "public_key": {"n": str(part.key.public.n)},
            "private_key": {"p": str(p), "q": str(q)},
        }
    return {**result, _STATE: dict(part.state)} if part.state else result


def _filled(part: Mapping[str, Any], extras: _Extras) -> dict[str, Any]:
    """Return the stored fields with a weight of 0 where it is not known."""
    if not (extras.encrypted_weight or "shares" in extras.training_state):
        return dict(part)
    return {**part, "weight": dict.fromkeys(extras.header, 0.0)}


def _fitted(trained: Trained, extras: _Extras, *, where: str) -> Fitted:
    hidden = bool(extras.encrypted_weight) or "shares" in extras.training_state
    try:
        encrypted = _encrypted(extras) if extras.encrypted_weight else None
        key = _private_key(extras.cipher) if extras.cipher else None
    except (ValueError, KeyError, CodecError, ZeroDivisionError) as exc:
        raise BadData(where=where, reason="the model's key or ciphertexts are damaged") from exc
    return Fitted(
        progress=trained.progress,
        share=trained.share,
        known=not hidden,
        encrypted=encrypted,
        key=key,
        state=extras.training_state,
    )


def _encrypted(extras: _Extras) -> EncryptedWeights:
    values = [extras.encrypted_weight[name] for name in extras.header]
    (n,) = {value.public_key.n for value in values}
    if any(value.exponent != EXPONENT for value in values):
        raise ValueError("another scale")
    key = PublicKey.parse(hex(mpz(n)), bits=MIN_KEY_BITS)
    numbers = tuple(int(mpz(value.cipher_text)) for value in values)
    if any(not 0 < c < key.modulus or gmpy2.gcd(c, key.n) != 1 for c in numbers):
        raise ValueError("not ciphertexts")
    return EncryptedWeights(key=key, ciphertexts=numbers)


def _private_key(cipher: Mapping[str, Mapping[str, str]]) -> PrivateKey:
    private = cipher["private_key"]
    key = PrivateKey(int(private["p"]), int(private["q"]))
    if str(key.public.n) != cipher["public_key"]["n"]:
        raise ValueError("the primes do not belong to the public key")
    return key
