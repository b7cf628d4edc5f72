"""Parameters of Evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from fedflow.components.evaluation.metrics import METRICS_OF, choose_metrics, fits
from fedflow.sdk import Doubt, Params
from fedflow.sdk.spellings import EMPTY_AS_NULL, Flag


class EvaluationParams(Params, frozen=True, kw_only=True):
    """Parameters of Evaluation."""

    #: `binary`, `multi`, `regression` or `clustering`, in any case
    eval_type: str = "binary"
    pos_label: int | float | str = 1  #: the label that counts as positive
    metrics: Annotated[list[str] | None, EMPTY_AS_NULL] = None  #: names or aliases; null: all
    #: with `multi`: also auc and ks of each class against the rest
    unfold_multi_result: bool = False
    run_clustering_arbiter_metric: Flag = False  #: with `clustering`: the arbiter measures, too
    need_run: bool = True  #: false: nothing is measured

    @property
    def kind(self) -> str:
        """Return the eval_type in lower case."""
        return self.eval_type.lower()

    @property
    def chosen(self) -> tuple[str, ...]:
        """Return the measures to make, in the order in which they are written."""
        return choose_metrics(self.kind, self.metrics, logarithmic=True)

    def doubts(self) -> Iterable[Doubt]:
        others = [name for name in self.metrics or () if not fits(name, self.kind)]
        if others:
            message = f"{', '.join(others[:20])} do not belong to eval_type {self.kind}; the others"
            yield Doubt("metrics", f"{message} are made")

    def check(self) -> None:
        """Raise ValueError if the fields do not fit together."""
        if self.kind not in METRICS_OF:
            raise ValueError(f"eval_type: must be one of {', '.join(METRICS_OF)}")
        choose_metrics(self.kind, self.metrics, logarithmic=True)
