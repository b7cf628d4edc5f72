"""Parameters of LocalBaseline: what of scikit-learn's LogisticRegression may be asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import field

from fedflow.components.training.params import PredictParam, one_of
from fedflow.sdk import Doubt, Params
from fedflow.sdk.params import PlannedRun

Above0 = Annotated[float, msgspec.Meta(gt=0)]

SOLVERS = {
    "lbfgs": ("l2", "none"),
    "newton-cg": ("l2", "none"),
    "newton-cholesky": ("l2", "none"),
    "sag": ("l2", "none"),
    "liblinear": ("l1", "l2"),
    "saga": ("l1", "l2", "elasticnet", "none"),
}  #: which penalties a solver knows


class LogisticOptions(Params, frozen=True, kw_only=True):
    """Keywords of scikit-learn's LogisticRegression; no others are taken."""

    penalty: Literal["l1", "l2", "elasticnet", "none"] | None = "l2"  #: null: none
    dual: bool = False  #: solve the dual problem (liblinear with l2)
    tol: Above0 = 1e-4  #: where the solver stops
    C: Above0 = 1.0  #: inverse strength of the penalty
    fit_intercept: bool = True  #: fit an intercept
    intercept_scaling: Above0 = 1.0  #: of liblinear
    #: weight per label, or `balanced`
    class_weight: dict[str, Annotated[float, msgspec.Meta(ge=0)]] | Literal["balanced"] | None = (
        None
    )
    #: of the shuffling in sag, saga and liblinear
    random_state: Annotated[int, msgspec.Meta(ge=0, lt=2**32)] | None = None
    #: `lbfgs`, `newton-cg`, `newton-cholesky`, `sag`, `saga` or `liblinear`
    solver: str = "lbfgs"
    max_iter: Annotated[int, msgspec.Meta(ge=1)] = 100  #: iterations at most
    #: with more than two classes: `ovr` (a model per class), `multinomial`, or `auto` (the first
    #: with liblinear, else the second)
    multi_class: Literal["auto", "ovr", "multinomial"] = "auto"
    verbose: int = 0  #: without effect
    warm_start: bool = False  #: without effect
    n_jobs: int | None = None  #: without effect: a task uses the cores that it was given
    #: share of l1 in `elasticnet`
    l1_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None

    @property
    def punishes(self) -> str:
        """Return the penalty, `none` for none."""
        return self.penalty or "none"

    @property
    def one_vs_rest(self) -> bool:
        """Tell whether several classes get a model each."""
        auto = self.multi_class == "auto" and self.solver == "liblinear"
        return auto or self.multi_class == "ovr"

    def check(self) -> None:
        """The solver must know what it is asked for."""
        one_of("model_opts.solver", self.solver, tuple(SOLVERS))
        if self.solver not in SOLVERS:
            raise ValueError(f"model_opts.solver: write {self.solver.lower()!r}")
        if self.punishes not in SOLVERS[self.solver]:
            known = ", ".join(SOLVERS[self.solver])
            raise ValueError(f"model_opts.penalty: {self.solver} knows {known}")
        if self.dual and (self.solver, self.punishes) != ("liblinear", "l2"):
            raise ValueError("model_opts.dual: only liblinear with penalty l2 can")
        if self.punishes == "elasticnet" and self.l1_ratio is None:
            raise ValueError("model_opts.l1_ratio: elasticnet needs it")
        if self.multi_class == "multinomial" and self.solver == "liblinear":
            raise ValueError("model_opts.multi_class: liblinear cannot do multinomial")

    def keywords(self, *, weights: dict[int, float] | str | None) -> dict[str, Any]:
        """Return scikit-learn's keywords; `weights` are per class number, or `balanced`.

        From 1.8 on the penalty is said by `C` and `l1_ratio` alone.
        """
        import sklearn

        given: dict[str, Any] = {
            "C": self.C,
            "dual": self.dual,
            "tol": self.tol,
            "fit_intercept": self.fit_intercept,
            "intercept_scaling": self.intercept_scaling,
            "class_weight": weights,
            "random_state": self.random_state,
            "solver": self.solver,
            "max_iter": self.max_iter,
        }
        ratio = self.l1_ratio if self.punishes == "elasticnet" else None
        release = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
        if release < (1, 8):
            penalty = None if self.punishes == "none" else self.punishes
            return {**given, "penalty": penalty, "l1_ratio": ratio}
        if self.punishes == "none":
            return {**given, "C": float("inf")}
        known = {"l1": 1.0, "l2": 0.0, "elasticnet": ratio}
        return {**given, "l1_ratio": known[self.punishes]}


class LocalBaselineParams(Params, frozen=True, kw_only=True):
    """Which model is trained."""

    model_name: str = "LogisticRegression"  #: `LogisticRegression`, in any case
    #: keywords of scikit-learn's LogisticRegression, as listed; null: its defaults
    model_opts: LogisticOptions | None = None
    predict_param: PredictParam = field(default_factory=PredictParam)  #: scores to classes
    need_run: bool = True  #: false: the output is the input

    @property
    def options(self) -> LogisticOptions:
        """Return the options, the defaults if none are given."""
        return self.model_opts or LogisticOptions()

    def check(self) -> None:
        """The model must be known, its options possible together."""
        one_of("model_name", self.model_name, ("logisticregression",))
        self.options.check()

    def doubts(self) -> Iterable[Doubt]:
        yield from self.predict_param.doubts()
        for name in ("verbose", "warm_start", "n_jobs"):
            if getattr(self.options, name):
                yield Doubt(f"model_opts.{name}", "the task's own log, start and cores are used")

    def check_run(self, run: PlannedRun) -> None:
        """A run trains or predicts."""
        if self.need_run and {"train_data", "test_data"} <= set(run.data_ports):
            raise ValueError("input.data: train_data together with test_data")
