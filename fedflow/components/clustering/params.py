"""Parameters of HeteroKmeans, with FATE's names and defaults."""

from __future__ import annotations

import math
from typing import Annotated

from msgspec import Meta

from fedflow.components.training.params import NonNegative, Positive
from fedflow.components.training.planned import check_ports, check_roles
from fedflow.sdk import Params, PlannedRun, Role

FEWEST = 2  #: clusters


class HeteroKmeansParams(Params, frozen=True, kw_only=True):
    """All parameters of HeteroKmeans."""

    k: Annotated[int, Meta(ge=FEWEST)] = 5  #: clusters: 2 up to the number of rows
    max_iter: Positive = 300  #: iterations at most
    #: training ends when the centroids of all parties together have moved by at most this: the sum
    #: of squared distances; the arbiter's value counts
    tol: NonNegative = 1e-3
    #: makes the draw of the first centroids repeatable; null: unpredictable; the guest's counts
    random_stat: Annotated[int, Meta(ge=0, lt=2**32)] | None = None

    def check(self) -> None:
        """The limit must be a number that distances can reach."""
        if not math.isfinite(self.tol):
            raise ValueError("tol: must be a finite number")

    def check_run(self, run: PlannedRun) -> None:
        """One guest, one arbiter and hosts train or predict."""
        check_roles(run, "HeteroKmeans", single=(Role.GUEST, Role.ARBITER), hosts=None)
        check_ports(run, alone=None)
