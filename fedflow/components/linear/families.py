"""What sets the vertical linear models apart: labels, residuals, loss and prediction.

All of them add up the parties' scores z = sum of x @ w, and an arbiter turns the gradients
mean(d * x) into updates. They differ in the residual d and the loss:

| family | residual d | loss per row | prediction |
|---|---|---|---|
| logistic | z / 4 - y / 2, y is -1 or 1 | ln 2 - y z / 2 + z**2 / 8 | 1 / (1 + exp(-z)) |
| linear | z - y | d**2 / 2 | z |
| poisson | exp(z + log(exposure)) - y | mu - y (z + log(exposure)) | mu = exp(z + log(exposure)) |

Logistic and linear are *quadratic*: d is linear in z and the loss is `loss_scale` * d**2 plus a
constant (for logistic since y**2 = 1). Source:
docs/reference/numerics.md#linear-models; the linearised sigmoid after Hardy et al. 2017
(arXiv:1711.10677).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedflow.components.samples.predictions import sigmoid

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """One kind of linear model; `slope` and `target` are of use to quadratic ones alone."""

    module: str  #: the component's name
    model: str  #: its model's objects are this and `Meta`, `Param`
    kind: str  #: what its predictions are measured as: `binary` or `regression`
    mean: Callable[[Floats], Floats]  #: predictions of scores
    loss_scale: float  #: the loss is this times what the encrypted sums give, by rows
    loss_constant: float = 0.0  #: per row, before `loss_scale`
    slope: float = 1.0  #: of d in z
    target: float = 1.0  #: d = slope * z - target * y
    quadratic: bool = True
    classifies: bool = False  #: labels are classes, else numbers
    several_hosts: bool = True
    arbiter: bool = True  #: an arbiter holds the keys of a training
    ic_of_squares: bool = False  #: stepwise selection looks at the log of the loss

    @property
    def meta_name(self) -> str:
        return f"{self.model}Meta"

    @property
    def param_name(self) -> str:
        return f"{self.model}Param"


def exp(scores: Floats) -> Floats:
    """Return e to the scores, infinite where that is too large."""
    with np.errstate(over="ignore"):
        return np.exp(scores)


def _same(scores: Floats) -> Floats:
    return scores


LOGISTIC: Final = Family(
    module="HeteroLR",
    model="HeteroLogisticRegression",
    kind="binary",
    mean=sigmoid,
    loss_scale=2.0,
    loss_constant=(math.log(2.0) - 0.5) / 2.0,
    slope=0.25,
    target=0.5,
    classifies=True,
)
LINEAR: Final = Family(
    module="HeteroLinR",
    model="HeteroLinearRegression",
    kind="regression",
    mean=_same,
    loss_scale=0.5,
    ic_of_squares=True,
)
POISSON: Final = Family(
    module="HeteroPoisson",
    model="HeteroPoissonRegression",
    kind="regression",
    mean=exp,
    loss_scale=1.0,
    quadratic=False,
    several_hosts=False,
)
