"""The Open Inference Protocol v2, over REST and gRPC: a model is a service, a version a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedflow import __version__
from fedflow.base.errors.error import FedflowError
from fedflow.base.values import dataclass
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.codes import ItemAnswer, ServingCode, failed
from fedflow.serving.doors.binary_tensors import EXTENSION
from fedflow.serving.doors.tensors import (
    InferRequest,
    Parameters,
    Tensor,
    TensorLimits,
    check_asked,
    input_facts,
    output_facts,
    output_tensors,
    read_rows,
)
from fedflow.serving.health import ServingHealth
from fedflow.serving.inference import MOST_VALUES
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import IdValue
from fedflow.serving.partners.partner_parts import OnlineRow
from fedflow.serving.services.services import SelectedVersion
from fedflow.serving.settings import ServingSettings


class NotAnswered(Exception):
    """No version answers a request; `fault` says why."""

    def __init__(self, fault: ItemAnswer) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, kw_only=True, slots=True)
class InferAnswer:
    """The answer to a request."""

    request: InferRequest
    model_name: str
    model_version: str
    id: str
    parameters: Parameters
    outputs: list[Tensor]


class OpenInference:
    """Answers the protocol's requests. Thread-safe."""

    def __init__(
        self,
        models: ServedModels,
        answering: Answering,
        health: ServingHealth,
        *,
        settings: ServingSettings,
    ) -> None:
        self._models = models
        self._answering = answering
        self._health = health
        self._settings = settings

    @property
    def is_ready(self) -> bool:
        """Tell whether requests are answered."""
        return not self._health.draining

    def server(self) -> dict[str, Any]:
        """Return what this server is."""
        return {"name": "fedflow", "version": __version__, "extensions": [EXTENSION]}

    def check_model(self, asked: CallerRequest) -> None:
        """Raises: NotAnswered: nothing answers such requests."""
        self._selected(asked)

    def metadata(self, asked: CallerRequest) -> dict[str, Any]:
        """Return versions, inputs and outputs of a model. Raises: NotAnswered."""
        chosen = self._selected(asked)
        key, model = chosen.served.key, chosen.served.model
        versions = [key.model_version]
        if self._settings.explicit_version:
            others = [one.key for one in self._models.loaded()]
            versions = [
                one.model_version
                for one in others
                if (one.role, one.party_id, one.model_id) == (key.role, key.party_id, key.model_id)
            ]
        ids = self._settings.partner_ids if model.hosts else ()
        return {
            "name": asked.service_id,
            "versions": versions,
            "platform": "fedflow",
            "inputs": input_facts(model, ids or ()),
            "outputs": output_facts(model),
            "parameters": {"partners": ",".join(model.hosts), "ids_declared": ids is not None},
        }

    def infer(self, asked: CallerRequest, request: Callable[[], InferRequest]) -> InferAnswer:
        """Return the answer to a request, which `request` reads.

        Raises: FedflowError: it cannot be used. NotAnswered: nothing answers it. Both are counted.
        """
        try:
            given = request()
            check_asked(given.outputs)
            asked = asked.named(given.id)
            chosen, rows = self._rows(asked, given)
            fault = self._answering.caller_fault(asked, len(rows))
            if fault is not None:
                raise NotAnswered(fault)
        except FedflowError as exc:
            self._answering.refused(asked, failed(exc.retcode, str(exc.message)))
            raise
        except NotAnswered as exc:
            self._answering.refused(asked, exc.fault)
            raise
        items = self._answering.answer_by(asked, chosen, rows)
        return InferAnswer(
            request=given,
            model_name=asked.service_id,
            model_version=chosen.served.key.model_version,
            id=given.id or asked.case_id,
            parameters={"selected_by": chosen.by, **_degraded(items)},
            outputs=output_tensors(items, chosen.served.model, given.outputs),
        )

    def _selected(
        self, asked: CallerRequest, ids: Mapping[str, IdValue] | None = None
    ) -> SelectedVersion:
        """Return what answers for a service, or another version of the model it is bound to.

        Raises: NotAnswered.
        """
        version, fault = asked.model_version, self._answering.caller_fault(asked)
        if fault is not None:
            raise NotAnswered(fault)
        if version and not self._settings.explicit_version:
            reason = "requests may name no version here"
            raise NotAnswered(failed(ServingCode.AUTHORISATION, reason))
        chosen = self._answering.select(asked, ids or {})
        if isinstance(chosen, SelectedVersion) and version:
            model_id = chosen.served.key.model_id
            chosen = self._answering.select(
                replace(asked, service_id="", model_id=model_id), ids or {}
            )
        if isinstance(chosen, ItemAnswer):
            raise NotAnswered(chosen)
        return chosen

    def _rows(
        self, asked: CallerRequest, request: InferRequest
    ) -> tuple[SelectedVersion, list[OnlineRow]]:
        """Return what answers, that of the first row's user, and the rows as its model reads them.

        Raises: BadServingRequest, NotAnswered.
        """
        chosen = self._selected(asked)
        for _ in range(2):
            rows = read_rows(request, chosen.served.model, self._limits(chosen))
            again = self._selected(asked, rows.ids[0])
            if again.served is chosen.served:
                break
            chosen = again
        online = [
            OnlineRow(request_id=asked.case_id, features=features, ids=ids)
            for features, ids in zip(rows.features, rows.ids, strict=True)
        ]
        return chosen, online

    def _limits(self, chosen: SelectedVersion) -> TensorLimits:
        rows, ids = self._settings.limits.batch_rows, self._settings.partner_ids
        more = bool(chosen.options.before) or self._settings.guest_features.source is not None
        return TensorLimits(rows=rows, values=MOST_VALUES, ids=ids, more=more)


def _degraded(items: Sequence[ItemAnswer]) -> dict[str, str]:
    """Return how scores came about without a host, if any did."""
    how = sorted({item.degraded.how for item in items if item.degraded})
    return {"degraded": ",".join(how)} if how else {}
