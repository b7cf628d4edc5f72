"""Jobs with metrics of many types, for tests of the component page and of comparisons."""

from __future__ import annotations

from typing import Any

from fedflow.app.ports.store import Store
from fedflow.domain.records import JobRecord, Metric, TaskRecord
from tests.board import seeds

STEPS = [i / 100 for i in range(101)]
PARTS = {"reader_0": ("Reader", ()), "lr_0": ("HeteroLR", ("reader_0",)),
         "evaluation_0": ("Evaluation", ("lr_0",))}  # fmt: skip


def metric(kind: str, name: str, *points: Any, part: str = "train", **meta: Any) -> Metric:
    """Return a metric as components write it."""
    return Metric(
        namespace=part, name=name, points=tuple(points),
        meta={"name": name, "metric_type": kind, **meta},
    )  # fmt: skip


def evaluation(strength: float = 2.0, *, model: str = "lr_0") -> list[Metric]:
    """Return what Evaluation writes of a model; `strength` bends its curves."""
    found: list[Metric] = []
    for part, power in (("train", strength), ("validate", strength * 0.8)):
        tpr = [1 - (1 - x) ** power for x in STEPS]
        cuts = [round(1 - x, 2) for x in STEPS]
        curve = {"thresholds": cuts, "ordinate_name": "y", "unit_name": "x"}
        found += [
            metric("EVALUATION_SUMMARY", model, ("auc", power / (1 + power)), ("ks", 0.3),
                   part=part),
            metric("ROC_EVALUATION", f"{model}_roc", *zip(STEPS, tpr, strict=True), part=part,
                   **curve),
            metric("KS_EVALUATION", f"{model}_ks_tpr", *zip(STEPS, tpr, strict=True), part=part,
                   pair_type=model, **curve),
            metric("KS_EVALUATION", f"{model}_ks_fpr", *zip(STEPS, STEPS, strict=True), part=part,
                   pair_type=model, **curve),
            metric("CONFUSION_MAT", f"{model}_confusion_mat", part=part, thresholds=STEPS[:100],
                   tp=list(range(100, 0, -1)), fn=list(range(100)), fp=list(range(100, 0, -1)),
                   tn=list(range(100))),
        ]  # fmt: skip
    found.append(
        metric("PSI", f"{model}_psi", psi_scores=[0.001, 0.02, 0.003], total_psi=0.024,
               expected_interval=[10, 20, 30], expected_percentage=[0.2, 0.3, 0.5],
               actual_interval=[5, 5, 15], actual_percentage=[0.2, 0.2, 0.6],
               intervals=["(-inf, 0.2]", "(0.2, 0.5]", "(0.5, inf]"],
               train_pos_perc=[0.1, 0.4, 0.9], validate_pos_perc=[0.2, 0.3, 0.8])
    )  # fmt: skip
    return found


def losses(count: int = 30, *, start: float = 0.7) -> Metric:
    """Return the losses of a training."""
    points = [(i, start / (1 + i / 10)) for i in range(count)]
    return metric("LOSS", "loss", *points, unit_name="iters", curve_name="loss")


def put_trained(
    store: Store, number: int, *, strength: float = 2.0, alpha: float = 0.01, **changes: Any
) -> tuple[JobRecord, TaskRecord, TaskRecord]:
    """Put a job that trained and evaluated a model; return it with those two tasks."""
    job = seeds.job(number, dsl=seeds.dsl(PARTS), **changes)
    reader = seeds.task(job, "reader_0", "Reader")
    trained = seeds.task(
        job, "lr_0", "HeteroLR",
        parameters={"alpha": alpha, "penalty": "L2", "init_param": {"init_method": "zeros"},
                    "storage_password": "hunter2", "max_iter": 30},
    )  # fmt: skip
    evaluated = seeds.task(job, "evaluation_0", "Evaluation", parameters={"eval_type": "binary"})
    seeds.put(store, job, reader, trained, evaluated)
    seeds.put_metrics(store, trained, losses(start=0.7 + number / 100))
    seeds.put_metrics(store, evaluated, *evaluation(strength))
    return job, trained, evaluated


def address(task: TaskRecord, tab: str = "") -> str:
    """Return the path of a tab of a task's page."""
    key = task.key
    path = f"/board/jobs/{key.job_id}/{key.site.role.value}/{key.site.party_id}"
    return f"{path}/components/{key.component}" + (f"/{tab}" if tab else "")
