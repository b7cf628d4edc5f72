"""Parameters of Intersection: FATE's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from fedflow.components.intersection.hashing import is_available
from fedflow.sdk import Doubt, Params, PlannedRun, Role
from fedflow.sdk.spellings import ANY_CASE, EMPTY_AS_NULL

Fraction = Annotated[float, msgspec.Meta(gt=0, lt=1)]
KeyLength = Annotated[int, msgspec.Meta(ge=1024, le=8192)]
HashMethod = Annotated[Literal["sha256", "sha384", "sha512", "sm3"], ANY_CASE]
FinalHashMethod = Annotated[
    Literal["md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sm3"], ANY_CASE
]
AnyHashMethod = Annotated[
    Literal["none", "md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sm3"], ANY_CASE
]
Party = Annotated[Literal["guest", "host"], ANY_CASE]

METHODS = ("rsa", "dh", "ecdh", "raw")
FATES_RANDOM_BIT = 128
_HASH = {"salt": "", "base64": False}
#: what FATE 1.7 and later only keep for old confs, with its defaults
_DEPRECATED: Mapping[str, Any] = {
    "raw_params": {**_HASH, "use_hash": False, "hash_method": "none", "join_role": "guest"},
    "encode_params": {**_HASH, "encode_method": "none"},
    "with_encode": False,
    "allow_info_share": False,
    "info_owner": "guest",
    "repeated_id_process": False,
    "repeated_id_owner": "guest",
    "with_sample_id": False,
    "join_role": "guest",
    "intersect_cache_param": {"use_cache": False, "id_type": "phone", "encrypt_type": "sha256"},
}
_WEAK_HASHES = ("none", "md5", "sha1", "sha224")


class RsaParams(Params, frozen=True, kw_only=True):
    """Settings of blind RSA. All must be equal at all parties."""

    salt: str = ""  #: goes into the hash of every id
    hash_method: HashMethod = "sha256"  #: first hash, of ids to all numbers below the modulus
    final_hash_method: FinalHashMethod = "sha256"  #: second hash, of signatures
    #: ids with an odd hash are signed by the host, the others by the guest; the host then learns
    #: which of the latter the guest has, even with `sync_intersect_ids` off
    split_calculation: bool = False
    #: without effect: every id is blinded by a number of its own, as the host could test pairs of
    #: guesses else
    random_base_fraction: Annotated[
        Annotated[float, msgspec.Meta(gt=0, le=1)] | None, EMPTY_AS_NULL
    ] = None
    key_length: KeyLength = 2048  #: bits of the modulus, 1024 to 8192
    #: without effect: the blinding has the length of the key, as the host could test guesses else
    random_bit: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DhParams(Params, frozen=True, kw_only=True):
    """Settings of Diffie-Hellman in a prime group. All must be equal at all parties."""

    salt: str = ""  #: goes into the hash of every id
    #: of the ids: `sha256`, `sha384`, `sha512` or `sm3`; in place of the others `sha256` is used
    hash_method: AnyHashMethod = "sha256"
    #: bits of the prime, 1024 to 8192; the next larger one of RFC 7919 is taken, from 2048 bits on
    key_length: KeyLength = 2048

    @property
    def used_hash(self) -> str:
        """Return the hash that is used: a short one, or none, would not hide ids as well."""
        return "sha256" if self.hash_method in _WEAK_HASHES else self.hash_method


class EcdhParams(Params, frozen=True, kw_only=True):
    """Settings of ECDH. All must be equal at all parties."""

    salt: str = ""  #: goes into the hash of every id
    hash_method: HashMethod = "sha256"  #: of the ids
    curve: Annotated[Literal["curve25519"], ANY_CASE] = "curve25519"  #: the only one


class PreprocessParams(Params, frozen=True, kw_only=True):
    """Pruning by a Bloom filter. All must be equal at all parties."""

    #: of the filter, at least 0.01 with `run_preprocess`
    false_positive_rate: Fraction = 1e-3
    #: without effect: FATE's filter for `cardinality_method` `rsa`, which is exact here
    encrypt_method: Annotated[Literal["rsa"], ANY_CASE] = "rsa"
    hash_method: FinalHashMethod = "sha256"  #: without effect, as `encrypt_method`
    preprocess_method: FinalHashMethod = "sha256"  #: of the ids in the filter
    preprocess_salt: str = ""  #: of that hash
    random_state: Annotated[int | None, EMPTY_AS_NULL] = None  #: of that hash, too
    filter_owner: Party = "guest"  #: who makes it; the other side is pruned


class IntersectionParams(Params, frozen=True, kw_only=True):
    """Parameters of Intersection. Without a method, fedflow runs ECDH (FATE's default is RSA)."""

    #: `ecdh`, `dh` or `rsa`, in any case; `raw` runs ECDH, with a warning
    intersect_method: str = "ecdh"
    sync_intersect_ids: bool = True  #: hosts learn the common ids and get an output
    only_output_key: bool = False  #: the output has the ids only (and match ids)
    #: `left_join`: the guest keeps all rows, and hosts have rows of zeros for the ids they lack
    join_method: Annotated[Literal["inner_join", "left_join"], ANY_CASE] = "inner_join"
    #: with match ids or a left join: the output has new sample ids instead of the generator's
    new_sample_id: bool = False
    #: with match ids: whose sample ids the output has; it alone may repeat those that all have
    sample_id_generator: Party = "guest"
    #: older place of that in `rsa_params`
    random_bit: Annotated[int, msgspec.Meta(ge=1)] | None = None
    cardinality_only: bool = False  #: find only how many ids all parties have: no output table
    sync_cardinality: bool = False  #: hosts learn that number
    #: `ecdh`, `dh` or `rsa`, which takes one host only; without effect but for `cardinality_only`
    cardinality_method: str = "ecdh"
    run_preprocess: bool = False  #: a Bloom filter of one side prunes the ids of the other first
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
    #: deprecated, without effect: match ids are used if the table has them
    with_sample_id: Any = None
    join_role: Any = None  #: deprecated, without effect
    intersect_cache_param: Any = None  #: deprecated, without effect

    @property
    def method(self) -> str:
        """Return the protocol that is run: `rsa`, `dh` or `ecdh`."""
        name = self.cardinality_method if self.cardinality_only else self.intersect_method.lower()
        return "ecdh" if name == "raw" else name

    @property
    def own(self) -> Any:
        """Return the settings of that protocol."""
        return {"rsa": self.rsa_params, "dh": self.dh_params, "ecdh": self.ecdh_params}[self.method]

    @property
    def split(self) -> bool:
        """Return whether each side signs a half of the ids."""
        return self.method == "rsa" and self.rsa_params.split_calculation

    def check(self) -> None:
        """Raise ValueError if the fields do not fit together."""
        if self.intersect_method.lower() not in METHODS:
            raise ValueError(f"intersect_method: must be one of {', '.join(METHODS)}")
        if self.cardinality_only and self.cardinality_method not in METHODS[:3]:
            raise ValueError(f"cardinality_method: must be one of {', '.join(METHODS[:3])}")
        if self.random_bit is not None and self.rsa_params.random_bit is not None:
            raise ValueError("random_bit: given here and in rsa_params; keep rsa_params.random_bit")
        if self.join_method == "left_join":
            if not self.sync_intersect_ids:
                raise ValueError("join_method: left_join needs sync_intersect_ids")
            if self.sample_id_generator == "host":
                raise ValueError("sample_id_generator: a left_join keeps the ids of the guest")
        if self.cardinality_only and (self.run_preprocess or self.run_cache):
            raise ValueError("cardinality_only: cannot be used with run_preprocess or run_cache")
        if self.cardinality_only and self.split:
            raise ValueError("cardinality_only: cannot be used with split_calculation")
        if self.run_cache and (self.run_preprocess or self.rsa_params.split_calculation):
            raise ValueError("run_cache: cannot be used with run_preprocess or split_calculation")
        if self.run_preprocess and self.intersect_preprocess_params.false_positive_rate < 0.01:
            raise ValueError("intersect_preprocess_params.false_positive_rate: must be >= 0.01")
        self._check_hashes()

    def check_run(self, run: PlannedRun) -> None:
        if not self.need_run:
            return
        guests, hosts = len(run.sites_of(Role.GUEST)), len(run.sites_of(Role.HOST))
        if guests != 1:
            raise ValueError(f"role: exactly one guest is needed, there are {guests}")
        if not hosts:
            raise ValueError("role: there is no host to intersect with")
        if self.cardinality_only and self.method == "rsa" and hosts > 1:
            raise ValueError(f"cardinality_method: rsa takes one host, not {hosts}; use ecdh")
        if not run.has_cache:
            return
        for name in ("run_cache", "run_preprocess", "cardinality_only"):
            if getattr(self, name):
                raise ValueError(f"{name}: a cache is an input")
        if self.split:
            raise ValueError("rsa_params.split_calculation: a cache is an input")

    def _check_hashes(self) -> None:
        own = self.own.used_hash if self.method == "dh" else self.own.hash_method
        used = {f"{self.method}_params.hash_method": own}
        if self.method == "rsa":
            used["rsa_params.final_hash_method"] = self.rsa_params.final_hash_method
        if self.run_preprocess:
            path = "intersect_preprocess_params.preprocess_method"
            used[path] = self.intersect_preprocess_params.preprocess_method
        for path, name in used.items():
            if not is_available(name):
                raise ValueError(f"{path}: OpenSSL on this machine has no {name}")

    def doubts(self) -> Iterable[Doubt]:
        """FATE's clients send all its parameters, so its defaults are no doubt."""
        if self.intersect_method.lower() == "raw" and not self.cardinality_only:
            yield Doubt("intersect_method", "raw would show all ids: ECDH is run", "Replaced")
        if self.method == "dh" and self.dh_params.used_hash != self.dh_params.hash_method:
            yield Doubt("dh_params.hash_method", "hides ids too little: sha256 is used", "Replaced")
        for name, defaults in _DEPRECATED.items():
            if not _is_default(getattr(self, name), defaults):
                yield Doubt(name, "is deprecated at FATE, too; it has no effect")
        random_bit = (self.random_bit, self.rsa_params.random_bit)
        for path, value in zip(("random_bit", "rsa_params.random_bit"), random_bit, strict=True):
            if value not in (None, FATES_RANDOM_BIT):
                yield Doubt(path, "blinding numbers have the length of the key")
        if self.method == "rsa" and self.rsa_params.random_base_fraction is not None:
            message = "every id has a blinding number of its own"
            yield Doubt("rsa_params.random_base_fraction", message)


def _is_default(value: Any, default: Any) -> bool:
    """Tell whether a value, an object as far as it goes, is none or FATE's default."""
    if isinstance(value, dict) and isinstance(default, dict):
        return all(name in default and default[name] == v for name, v in value.items())
    return value is None or value == default
