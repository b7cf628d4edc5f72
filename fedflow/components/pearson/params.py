"""Parameters of HeteroPearson."""

from __future__ import annotations

from fedflow.components.training.params import MIN_KEY_BITS, SAFE_KEY_BITS
from fedflow.sdk import Params, PlannedRun, Role


class HeteroPearsonParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroPearson, with FATE's names and defaults."""

    #: features by position from 0; -1: all. With `column_names` empty too there is an error
    column_indexes: int | list[int] | None = None
    column_names: list[str] | None = None  #: features, beside the indexes
    cross_parties: bool = True  #: also correlate with the other party's columns; one host only
    need_run: bool = True  #: false: the data pass through
    use_mix_rand: bool = False  #: without effect: all randomness is the operating system's
    calc_local_vif: bool = True  #: also the variance inflation factors of the own columns
    #: bits of the Paillier modulus, even, 1024 to 8192; the greater one of both parties counts
    fixpoint_bit_length: int = SAFE_KEY_BITS

    def check(self) -> None:
        if self.need_run and self.column_indexes in (None, []) and not self.column_names:
            raise ValueError("column_indexes: name features here or in column_names; -1 means all")
        if isinstance(self.column_indexes, int) and self.column_indexes < -1:
            raise ValueError("column_indexes: must be -1, a position, or a list of positions")
        if not MIN_KEY_BITS <= self.fixpoint_bit_length <= 8192 or self.fixpoint_bit_length % 2:
            raise ValueError(
                f"fixpoint_bit_length: must be an even number of {MIN_KEY_BITS} to 8192 bits"
            )

    def check_run(self, run: PlannedRun) -> None:
        if not (self.need_run and self.cross_parties) or run.has_model:
            return
        for role in (Role.GUEST, Role.HOST):
            count = len(run.sites_of(role))
            if count != 1:
                raise ValueError(
                    f"cross_parties: needs exactly one {role.value}, there are {count}"
                )
