"""Parameter blocks that trainings of several kinds of model share, with FATE's names.

Source: docs/reference/components.md#common-parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from msgspec import Meta, field

from fedflow.components.evaluation.metrics import ALIASES, choose_metrics
from fedflow.sdk import Doubt, Params
from fedflow.sdk.crypto.paillier import Blinding
from fedflow.sdk.crypto.schemes import Cryptosystem
from fedflow.sdk.spellings import ONE_AS_LIST, Flag

NonNegative = Annotated[float, Meta(ge=0)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]

MIN_KEY_BITS = 1024
SAFE_KEY_BITS = 2048

EARLY_STOPPING = "EarlyStopping"
PERFORMANCE = "PerformanceEvaluate"
CHECKPOINT = "ModelCheckpoint"

_CALLBACKS = (EARLY_STOPPING, PERFORMANCE, CHECKPOINT)
#: measures that are tables of all scores, made by Evaluation alone
_ONLY_AFTERWARDS = frozenset({"psi", "f1_score", "confusion_mat", "quantile_pr"})
#: measures in training if none are named, by kind of evaluation
_DEFAULT_MEASURES = {
    "binary": ("auc", "ks"),
    "multi": ("accuracy", "precision", "recall"),
    "regression": ("root_mean_squared_error", "mean_absolute_error"),
}
_INIT_METHODS = ("random_uniform", "random_normal", "ones", "zeros", "const")


class InitParam(Params, frozen=True, kw_only=True):
    """Initial weights."""

    #: `random_uniform`, `random_normal`, `ones`, `zeros` or `const`, in any case
    init_method: str = "random_uniform"
    init_const: float = 1.0  #: every weight, with `const`
    fit_intercept: bool = True  #: used by the guest alone
    random_seed: int | None = None  #: 0 to 2^32 - 1, of numpy's legacy generator; null: random

    def check(self) -> None:
        one_of("init_param.init_method", self.init_method, _INIT_METHODS)
        if self.random_seed is not None and not 0 <= self.random_seed < 2**32:
            raise ValueError("init_param.random_seed: must be 0 to 2^32 - 1")


class EncryptParam(Params, frozen=True, kw_only=True):
    """The homomorphic scheme; the arbiter's values count, the others refuse shorter keys."""

    method: str | None = "Paillier"  #: `Paillier`; FATE's `IPCL` counts as the same
    key_length: int = SAFE_KEY_BITS  #: bits of the modulus; even, 1024 to 8192
    blinding: Blinding = Blinding.TABLE  #: fedflow's own; docs/security.md compares the two

    def check(self) -> None:
        if self.method is None or self.method.lower() == "none":
            raise ValueError("encrypt_param.method: training without encryption is not offered")
        one_of("encrypt_param.method", self.method, ("paillier", "ipcl"))
        if not MIN_KEY_BITS <= self.key_length <= 8192 or self.key_length % 2:
            raise ValueError(
                f"encrypt_param.key_length: must be an even number of {MIN_KEY_BITS} to 8192 bits"
            )

    def doubts(self) -> Iterable[Doubt]:
        if self.key_length < SAFE_KEY_BITS:
            message = f"{self.key_length} bits are for tests and comparisons; they are used"
            yield Doubt("encrypt_param.key_length", message, "ShortKey")
        if self.method is not None and self.method.lower() == "ipcl":
            yield Doubt("encrypt_param.method", "IPCL is not used; it is Paillier here", "Replaced")


class TreeEncryptParam(EncryptParam, frozen=True, kw_only=True):
    """The homomorphic scheme of trees; the guest's values count, the others refuse shorter keys."""

    #: `Paillier`, FATE's `IPCL` counts as the same; or `ou`, Okamoto-Uchiyama: faster, less studied
    method: str | None = "Paillier"
    key_length: int = SAFE_KEY_BITS  #: bits of the modulus; even, 1024 (`ou`: 2048) to 8192

    @property
    def scheme(self) -> Cryptosystem:
        """Return the scheme that `method` means."""
        return Cryptosystem.OU if self._method == "ou" else Cryptosystem.PAILLIER

    def check(self) -> None:
        if self._method == "heu":
            raise ValueError("encrypt_param.method: heu is not offered; ou is the same scheme")
        if self._method != "ou":
            EncryptParam.check(self)
        elif not SAFE_KEY_BITS <= self.key_length <= 8192 or self.key_length % 2:
            raise ValueError(
                f"encrypt_param.key_length: must be an even number of {SAFE_KEY_BITS} to 8192 bits"
            )

    def doubts(self) -> Iterable[Doubt]:
        if self._method == "ou":
            message = "rests on the p-subgroup assumption, which is less studied than Paillier's"
            yield Doubt("encrypt_param.method", message, "OtherAssumption")
        else:
            yield from EncryptParam.doubts(self)

    @property
    def _method(self) -> str:
        return (self.method or "").lower()


class EncryptedModeCalculatorParam(Params, frozen=True, kw_only=True):
    """Deprecated in FATE: accepted and without effect."""

    mode: Any = "strict"  #: without effect
    re_encrypted_rate: Any = 1.0  #: without effect

    def doubts(self) -> Iterable[Doubt]:
        if self != EncryptedModeCalculatorParam():
            yield Doubt("encrypted_mode_calculator_param", "every value is encrypted anew")


class PredictParam(Params, frozen=True, kw_only=True):
    """Turning scores into classes."""

    #: the second class is predicted where its probability is above this; below 0 always, from 1 on
    #: never
    threshold: float = 0.5

    def doubts(self) -> Iterable[Doubt]:
        if not 0 <= self.threshold <= 1:
            kind = "second" if self.threshold < 0 else "first"
            message = f"is no probability, so all rows are predicted as the {kind} class"
            yield Doubt("predict_param.threshold", message, "Unusual")


class CvParam(Params, frozen=True, kw_only=True):
    """Cross validation: trainings on n - 1 of n parts of the rows, each measured on the last."""

    n_splits: Positive = 5  #: parts, and so trainings; at least 2 with `need_cv`
    mode: Any = "hetero"  #: without effect
    role: Any = "guest"  #: without effect
    shuffle: Flag = True  #: rows are drawn into parts at random; false: consecutive rows
    random_seed: int | None = 1  #: of the draw, as of scikit-learn's KFold; null: random
    need_cv: Flag = False  #: true: no model is made, but the trainings are measured
    #: the output has the rows of each training, `<id>#fold<k>#train` or `#validate`; else the input
    output_fold_history: Flag = True
    #: what these rows are: `score` (predictions, at the guest) or `instance` (labels and features)
    history_value_type: str = "score"

    def check(self) -> None:
        if self.need_cv and self.n_splits < 2:
            raise ValueError("cv_param.n_splits: must be at least 2")
        one_of("cv_param.history_value_type", self.history_value_type, ("score", "instance"))
        if self.random_seed is not None and not 0 <= self.random_seed < 2**32:
            raise ValueError("cv_param.random_seed: must be 0 to 2^32 - 1")


class CallbackParam(Params, frozen=True, kw_only=True):
    """What happens between iterations."""

    #: `PerformanceEvaluate` (measure), `EarlyStopping` (measure, and stop when it gets no better),
    #: `ModelCheckpoint` (store the model, which a repeated attempt goes on from)
    callbacks: Annotated[list[str], ONE_AS_LIST] = field(default_factory=list)
    #: measure after every so many iterations, or after those in a list, counted from 0
    validation_freqs: Positive | list[NonNegativeInt] | None = None
    early_stopping_rounds: Positive | None = None  #: validations without a better value
    #: as in Evaluation; null or empty: auc, ks; of numbers root_mean_squared_error,
    #: mean_absolute_error
    metrics: list[str] | None = None
    use_first_metric_only: bool = False  #: early stopping looks at the first measure of one value
    save_freq: Positive = 1  #: iterations between two checkpoints

    @property
    def measures(self) -> list[str]:
        """Return the measures of two classes to make, in the order given."""
        return self.measures_of("binary")

    def measures_of(self, kind: str) -> list[str]:
        """Return the measures to make of `binary`, `multi` or `regression`, in the order given.

        Raises: ValueError: a name is unknown, or none fits the kind.
        """
        names = self.metrics or _DEFAULT_MEASURES[kind]
        chosen = choose_metrics(kind, names)
        first = [ALIASES.get(name.lower(), name.lower()) for name in names]
        return sorted(set(chosen) - _ONLY_AFTERWARDS, key=[*first, *chosen].index)

    def with_older(
        self,
        *,
        metrics: list[str] | None,
        validation_freqs: int | list[int] | None,
        early_stopping_rounds: int | None,
        use_first_metric_only: bool,
    ) -> CallbackParam:
        """Return this with what stands in older places, beside `callback_param`."""
        older = {PERFORMANCE: validation_freqs, EARLY_STOPPING: early_stopping_rounds}
        implied = [name for name, value in older.items() if value is not None]
        return CallbackParam(
            callbacks=list(dict.fromkeys((*self.callbacks, *implied))),
            validation_freqs=self.validation_freqs or validation_freqs,
            early_stopping_rounds=self.early_stopping_rounds or early_stopping_rounds,
            metrics=self.metrics or metrics,
            use_first_metric_only=self.use_first_metric_only or use_first_metric_only,
            save_freq=self.save_freq,
        )

    def check(self) -> None:
        for name in self.callbacks:
            if name not in _CALLBACKS:
                known = ", ".join(_CALLBACKS)
                raise ValueError(f"callback_param.callbacks: {name!r} is not one of {known}")
        if EARLY_STOPPING in self.callbacks and self.early_stopping_rounds is None:
            raise ValueError("callback_param.early_stopping_rounds: EarlyStopping needs it")
        if EARLY_STOPPING in self.callbacks and not self.validation_freqs:
            raise ValueError("callback_param.validation_freqs: EarlyStopping needs it")

    def doubts(self) -> Iterable[Doubt]:
        for name in ("validation_freqs", "early_stopping_rounds"):
            if getattr(self, name) and not set(self.callbacks) & {EARLY_STOPPING, PERFORMANCE}:
                used = "nothing is measured in training: callbacks names no PerformanceEvaluate"
                yield Doubt(f"callback_param.{name}", used)

    def check_measures(self, kind: str) -> None:
        """Do nothing if there is something to measure. Raises: ValueError, as `measures_of`."""
        if self.callbacks and self.metrics:
            self.measures_of(kind)


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """Do nothing if `value` is allowed, in any case. Raises: ValueError: it is not, with `name`."""
    if value.lower() not in allowed:
        raise ValueError(f"{name}: {value!r} is not one of {', '.join(allowed)}")
