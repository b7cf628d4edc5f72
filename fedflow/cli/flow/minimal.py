"""`flow test min`: trains and predicts between three parties, and looks at the quality.

Source: docs/reference/rest.md#the-flow-command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedflow.base.errors.data import TableNotFound
from fedflow.base.ids import PartyId
from fedflow.client.client import Client
from fedflow.domain.site import Role, Site
from fedflow.wire.api.jobs import JobStatusView

Say = Callable[[str], None]

_NAMESPACE: Final = "experiment"
#: data type -> how its tables begin, and the AUC that a model must reach
_DATA: Final[Mapping[str, tuple[str, float]]] = {
    "fast": ("breast_hetero", 0.98),
    "normal": ("default_credit_hetero", 0.69),
}
DATA_TYPES: Final = tuple(_DATA)


@dataclass(frozen=True, kw_only=True, slots=True)
class MinParties:
    """Who takes part."""

    guest: str
    host: str
    arbiter: str

    @property
    def here(self) -> Site:
        """Return the site that starts the jobs, whose results are looked at."""
        return Site(Role.GUEST, PartyId(self.guest))


@dataclass(frozen=True, kw_only=True, slots=True)
class Learner:
    """A model that is tried."""

    module: str
    roles: tuple[str, ...]
    name: str
    parameters: Mapping[str, Any]


HETERO_LR: Final = Learner(
    module="HeteroLR",
    roles=("guest", "host", "arbiter"),
    name="hetero_lr_0",
    parameters={
        "penalty": "L2",
        "optimizer": "rmsprop",
        "tol": 1e-4,
        "alpha": 0.01,
        "max_iter": 30,
        "early_stop": "diff",
        "batch_size": -1,
        "learning_rate": 0.15,
        "init_param": {"init_method": "zeros", "fit_intercept": True},
        "encrypt_param": {"key_length": 1024},
        "validation_freqs": 3,
    },
)
SECUREBOOST: Final = Learner(
    module="HeteroSecureBoost",
    roles=("guest", "host"),
    name="hetero_secureboost_0",
    parameters={
        "task_type": "classification",
        "objective_param": {"objective": "cross_entropy"},
        "num_trees": 3,
        "tree_param": {"max_depth": 3},
        "encrypt_param": {"method": "paillier"},
        "validation_freqs": 1,
    },
)


def min_job(
    learner: Learner, parties: MinParties, data_type: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return DSL and conf of a training with its evaluation."""
    chain = (
        ("reader_0", "Reader", None),
        ("data_transform_0", "DataTransform", "data"),
        ("intersection_0", "Intersection", "data"),
        (learner.name, learner.module, "train_data"),
        ("evaluation_0", "Evaluation", "data"),
    )
    components: dict[str, Any] = {}
    before = ""
    for name, module, port in chain:
        models = module in ("DataTransform", learner.module)
        components[name] = {
            "module": module,
            **({"input": {"data": {port: [f"{before}.data"]}}} if port else {}),
            "output": {"data": ["data"], **({"model": ["model"]} if models else {})},
        }
        before = name
    own = {
        "guest": {"with_label": True, "output_format": "dense"},
        "host": {"with_label": False, "output_format": "dense"},
    }
    conf = {
        "dsl_version": 2,
        "initiator": {"role": "guest", "party_id": parties.guest},
        "role": {role: [getattr(parties, role)] for role in learner.roles},
        "job_parameters": {"common": {"job_type": "train"}},
        "component_parameters": {
            "common": {learner.name: learner.parameters, "evaluation_0": {"eval_type": "binary"}},
            "role": {
                role: {"0": {"reader_0": {"table": {"namespace": _NAMESPACE,
                                                    "name": _name(role, data_type)}},
                             "data_transform_0": transform}}
                for role, transform in own.items()
            },
        },
    }  # fmt: skip
    return {"components": components}, conf


def run_min(client: Client, parties: MinParties, data_type: str, *, trees: bool, say: Say) -> bool:
    """Train and predict with each model, say how it goes, and tell whether all went well.

    The first job that fails ends the trial. A model below the AUC that is expected does not, but
    then the answer is no. Raises: TableNotFound: the server lacks the guest's table.
    ServerNotReachable, SubmitRefused, ...
    """
    name = _name("guest", data_type)
    for role, party in (("guest", parties.guest), ("host", parties.host)):
        say(f"reads {_NAMESPACE}.{_name(role, data_type)} at party {party}")
    if not client.tables.info(_NAMESPACE, name).exists:
        raise TableNotFound(namespace=_NAMESPACE, name=name, party_id=parties.guest)
    results = []
    for learner in (HETERO_LR, SECUREBOOST) if trees else (HETERO_LR,):
        found = _try(client, learner, parties, data_type, say)
        if found is None:
            return False
        results.append(found)
    return all(results)


def _try(
    client: Client, learner: Learner, parties: MinParties, data_type: str, say: Say
) -> bool | None:
    """Tell whether a model is as good as expected, None if a job did not succeed."""
    made = client.submit(*min_job(learner, parties, data_type))
    if not _ends_well(client, made.job_id, f"{learner.module} training", say):
        return None
    summary = client.summary(made.job_id, learner.name, site=parties.here)
    auc = float(summary["validation_metrics"]["train"]["auc"][-1])
    expected = _DATA[data_type][1]
    verdict = "as expected" if auc >= expected else "lower than expected"
    say(f"{learner.module} auc: {auc:.6f}, {verdict}: at least {expected:g}")
    deployed = client.models.deploy(made.model_id, made.model_version)
    job_id = client.models.predict(
        deployed.model_id,
        deployed.model_version,
        {role: (_NAMESPACE, _name(role, data_type)) for role in ("guest", "host")},
    ).job_id
    if not _ends_well(client, job_id, f"{learner.module} prediction", say):
        return None
    for line in _measured(client, job_id, parties.here):
        say(f"{learner.module} prediction {line}")
    return auc >= expected


def _ends_well(client: Client, job_id: str, what: str, say: Say) -> bool:
    say(f"{what} job {job_id} is {client.job(job_id).status}")
    view = client.wait(job_id)
    say(f"{what} job {job_id} is {view.status}")
    if not view.succeeded:
        say(_why(view))
    return view.succeeded


def _why(view: JobStatusView) -> str:
    error = view.first_error
    if error is not None and error.reason is not None:
        return f"{error.component} at {error.site}: {error.reason.message}"
    return str(view.reason or "no reason is known")


def _measured(client: Client, job_id: str, site: Site) -> Iterator[str]:
    for metric in client.metrics(job_id, "evaluation_0", site=site):
        for name, value in metric.points:
            if name in ("auc", "ks"):
                yield f"{name}: {value:.6f}"


def _name(role: str, data_type: str) -> str:
    return f"{_DATA[data_type][0]}_{role}"
