"""Parameters of Intersection: FATE's names, of which this version carries out ECDH."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from fedflow.sdk import Params

Fraction = Annotated[float, msgspec.Meta(gt=0, lt=1)]
KeyLength = Annotated[int, msgspec.Meta(ge=1024)]
HashMethod = Literal["sha256", "sha384", "sha512", "sm3"]
FinalHashMethod = Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sm3"]

METHODS = ("rsa", "dh", "ecdh", "raw")


class RsaParams(Params, frozen=True, kw_only=True):
    """Blind RSA; not supported yet, accepted without effect."""

    salt: str = ""  #: before every id
    hash_method: HashMethod = "sha256"  #: first hash
    final_hash_method: FinalHashMethod = "sha256"  #: second hash
    split_calculation: bool = False  #: both sides sign a half
    random_base_fraction: Fraction | None = None  #: share of random bases that are computed
    key_length: KeyLength = 2048  #: bits
    random_bit: Annotated[int, msgspec.Meta(ge=1)] | None = None  #: bits of the blinding


class DhParams(Params, frozen=True, kw_only=True):
    """Diffie-Hellman in a prime group; not supported yet, accepted without effect."""

    salt: str = ""  #: before every id
    hash_method: HashMethod = "sha256"  #: of the ids
    key_length: KeyLength = 2048  #: bits of the prime


class EcdhParams(Params, frozen=True, kw_only=True):
    """Settings of ECDH."""

    salt: str = ""  #: goes into the hash of every id; must be equal at all parties
    #: without effect: ids are hashed by SHA-512; `sm3` is refused
    hash_method: HashMethod = "sha256"
    curve: Literal["curve25519"] = "curve25519"  #: the only one


class PreprocessParams(Params, frozen=True, kw_only=True):
    """Pruning by a Bloom filter; not supported yet, accepted while `run_preprocess` is off."""

    false_positive_rate: Fraction = 1e-3  #: of the filter
    encrypt_method: str = "rsa"  #: of the ids in the filter
    hash_method: str = "sha256"  #: of the ids in the filter
    preprocess_method: str = "sha256"  #: hash of the filter
    preprocess_salt: str = ""  #: of that hash
    random_state: int | None = None  #: of the filter
    filter_owner: Literal["guest", "host"] = "guest"  #: who makes it


class IntersectionParams(Params, frozen=True, kw_only=True):
    """Parameters of Intersection. Without a method, fedflow runs ECDH (FATE's default is RSA)."""

    #: `ecdh`, in any case; `raw` runs ECDH too; `rsa` and `dh` are not supported yet
    intersect_method: str = "ecdh"
    sync_intersect_ids: bool = True  #: hosts learn the common ids and get an output
    only_output_key: bool = False  #: the output has no other column than the id
    #: `left_join` is not supported yet
    join_method: Literal["inner_join", "left_join"] = "inner_join"
    new_sample_id: bool = False  #: true is not supported yet
    sample_id_generator: Literal["guest", "host"] = "guest"  #: without effect
    #: older place of that in `rsa_params`
    random_bit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cardinality_only: bool = False  #: true is not supported yet
    sync_cardinality: bool = False  #: without effect
    cardinality_method: Literal["ecdh", "dh", "rsa"] = "ecdh"  #: without effect
    run_preprocess: bool = False  #: true is not supported yet
    intersect_preprocess_params: PreprocessParams = PreprocessParams()  #: table below
    run_cache: bool = False  #: make a cache for later jobs, and nothing else
    rsa_params: RsaParams = RsaParams()  #: table below
    dh_params: DhParams = DhParams()  #: table below
    ecdh_params: EcdhParams = EcdhParams()  #: table below
    need_run: bool = True  #: false: the output is the input
    raw_params: Any = None  #: deprecated, without effect
    encode_params: Any = None  #: deprecated, without effect
    with_encode: Any = None  #: deprecated, without effect
    allow_info_share: Any = None  #: deprecated, without effect
    info_owner: Any = None  #: deprecated, without effect
    repeated_id_process: Any = None  #: deprecated, without effect
    repeated_id_owner: Any = None  #: deprecated, without effect
    with_sample_id: Any = None  #: deprecated; a true value is not supported yet
    join_role: Any = None  #: deprecated, without effect
    intersect_cache_param: Any = None  #: deprecated, without effect

    @property
    def method(self) -> str:
        """Return the protocol asked for, in lower case."""
        return self.intersect_method.lower()

    def check(self) -> None:
        """Raise ValueError if the fields do not fit together."""
        if self.method not in METHODS:
            raise ValueError(f"intersect_method: must be one of {', '.join(METHODS)}")
        if self.random_bit is not None and self.rsa_params.random_bit is not None:
            raise ValueError("random_bit: given here and in rsa_params; keep rsa_params.random_bit")
        if self.join_method == "left_join" and not self.sync_intersect_ids:
            raise ValueError("join_method: left_join needs sync_intersect_ids")
        if self.cardinality_only and (self.run_preprocess or self.run_cache):
            raise ValueError("cardinality_only: cannot be used with run_preprocess or run_cache")
        if self.run_cache and (self.run_preprocess or self.rsa_params.split_calculation):
            raise ValueError("run_cache: cannot be used with run_preprocess or split_calculation")
        if self.run_preprocess and self.intersect_preprocess_params.false_positive_rate < 0.01:
            raise ValueError("intersect_preprocess_params.false_positive_rate: must be >= 0.01")

    def unsupported(self) -> str | None:
        """Return what is asked for that this version cannot do, as a phrase, or None."""
        if self.method in {"rsa", "dh"}:
            return f"intersect_method {self.method!r} (use 'ecdh')"
        asked = {
            "cardinality_only": self.cardinality_only,
            "run_preprocess": self.run_preprocess,
            "join_method left_join": self.join_method == "left_join",
            "new_sample_id (match ids)": self.new_sample_id,
            "with_sample_id (match ids)": bool(self.with_sample_id),
            "ecdh_params.hash_method sm3": self.ecdh_params.hash_method == "sm3",
        }
        return next((f"Intersection with {name}" for name, on in asked.items() if on), None)

    def ignored(self) -> list[str]:
        """Return the names of given parameters that have no effect any more."""
        names = (
            "raw_params",
            "encode_params",
            "with_encode",
            "allow_info_share",
            "info_owner",
            "repeated_id_process",
            "repeated_id_owner",
            "join_role",
            "intersect_cache_param",
        )
        return [name for name in names if getattr(self, name) is not None]
