"""Parameters of SecureInformationRetrieval, with FATE's names and defaults."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
from msgspec import field

from fedflow.components.intersection.params import DhParams
from fedflow.components.training.params import one_of
from fedflow.sdk import Params, Role
from fedflow.sdk.params import PlannedRun
from fedflow.sdk.spellings import EMPTY_AS_NULL

BLOCKS_PER_LEVEL = 500  #: FATE's: a level of 1 makes so many times two blocks


class SecureInformationRetrievalParams(Params, frozen=True, kw_only=True):
    """How well the requested ids are hidden, and what is retrieved. Equal at guest and host."""

    #: 0 to 1: the requested ids are hidden among ceil(2 * 500^level) blocks of as many ids each
    #: (45 for 0.5, 1000 for 1); 0: not hidden, see `raw_retrieval`
    security_level: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    oblivious_transfer_protocol: str = "OT_Hauck"  #: `OT_Hauck`, in any case
    #: `CommutativeEncryptionPohligHellman`, in any case
    commutative_encryption: str = "CommutativeEncryptionPohligHellman"
    non_committing_encryption: str = "aes"  #: `aes`, in any case: AES-256-GCM
    #: of the prime group in which ids are blinded and keys are transferred
    dh_params: DhParams = field(default_factory=DhParams)
    #: older name of `dh_params.key_length`, which it replaces if it is given
    key_size: Annotated[Annotated[int, msgspec.Meta(ge=1024, le=8192)] | None, EMPTY_AS_NULL] = None
    raw_retrieval: bool = False  #: true: the guest shows its ids to the host, without protection
    #: the host's columns to retrieve; null or empty: its label
    target_cols: str | list[str] | None = field(default_factory=list)

    @property
    def method(self) -> str:
        """Return the method of `fedflow.components.intersection` that finds the common ids."""
        return "dh"

    @property
    def raw(self) -> bool:
        """Tell whether the ids are shown to the host."""
        return self.raw_retrieval or self.security_level == 0

    @property
    def blocks(self) -> int:
        """Return the number of blocks, at least 2; 0 for raw retrieval."""
        if self.raw:
            return 0
        return max(2, math.ceil(2 * math.exp(math.log(BLOCKS_PER_LEVEL) * self.security_level)))

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns to retrieve; none: the label."""
        given = self.target_cols or []
        return (given,) if isinstance(given, str) else tuple(given)

    def check(self) -> None:
        """Names must be known, columns different."""
        one_of("oblivious_transfer_protocol", self.oblivious_transfer_protocol, ("ot_hauck",))
        one_of(
            "commutative_encryption",
            self.commutative_encryption,
            ("commutativeencryptionpohlighellman",),
        )
        one_of("non_committing_encryption", self.non_committing_encryption, ("aes",))
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("target_cols: a column is named twice")
        self.dh_params.check()

    def check_run(self, run: PlannedRun) -> None:
        """Exactly one host has the values."""
        if len(run.sites_of(Role.HOST)) != 1:
            raise ValueError("role: SecureInformationRetrieval needs exactly one host")

    def settled(self) -> SecureInformationRetrievalParams:
        """Return the parameters with `key_size` put where it belongs."""
        if self.key_size is None:
            return self
        own = msgspec.structs.replace(self.dh_params, key_length=self.key_size)
        return msgspec.structs.replace(self, dh_params=own, key_size=None)
