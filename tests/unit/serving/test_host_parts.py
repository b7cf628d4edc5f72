"""A host's parts: what it says of its features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.serving.codes import ServingCode
from fedflow.serving.learned_references import LearnedReferences
from fedflow.serving.load_state import LoadState
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import PartnerRequest
from fedflow.serving.partners.partners import HostParts
from fedflow.serving.settings import ServingLimits, ServingSettings
from fedflow.serving.sources.source import FeatureFault, FeatureSource, FoundFeatures, not_found
from fedflow.serving.state_file import StateFile
from tests.support.linear_model import GUEST, HOST, MODEL_ID, build_linear, share_of


class Source:
    """Gives what it is told."""

    def __init__(self, items: Sequence[Mapping[str, Any] | FeatureFault]) -> None:
        self._items = items

    def find(self, ids: object, *, deadline_s: float) -> Sequence[Mapping[str, Any] | FeatureFault]:
        return self._items

    def close(self) -> None:
        """There is nothing to give back."""


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([{"y0": 1.0}], ("", None)),
        (FoundFeatures([{"y0": 1.0}], version="monday", valid_s=60), ("monday", 60)),
        (FoundFeatures([not_found()], version="monday", valid_s=0), ("monday", 0)),
    ],
)
def test_a_host_says_what_its_source_says_of_the_features(
    tmp_path: Path, items: Any, said: tuple[str, float | None]
) -> None:
    clock, limits = SystemClock(), ServingLimits()
    with closing(StateFile(tmp_path / "state")) as file:
        references = LearnedReferences(tmp_path / "references")
        models = ServedModels(
            LoadState(file), build_linear, party_id=HOST, limits=limits, references=references,
            clock=clock,
        )  # fmt: skip
        models.prepare("a", json.dumps(share_of("host")).encode(), None)
        models.commit("a")
        source: FeatureSource = Source(items)
        parts = HostParts(
            models, source, settings=ServingSettings(), audit=None, metrics=ServingMetrics(),
            clock=clock,
        )  # fmt: skip
        request = PartnerRequest(
            guest=GUEST, host=HOST, model_id=MODEL_ID, model_version="v1", digest="digest-v1",
            request_ids=["r"], ids=[{"id": "1"}],
        )  # fmt: skip
        answer = parts.answer(request, clock.monotonic_s() + 30)
    assert (answer.retcode, (answer.feature_version, answer.valid_s)) == (0, said)


def test_a_version_or_a_time_that_is_none_is_a_mistake_of_the_source() -> None:
    with pytest.raises(ValueError, match="201 characters"):
        FoundFeatures([], version="x" * 201)
    for valid_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no time"):
            FoundFeatures([], valid_s=valid_s)


def test_a_whole_model_answers_callers_and_no_other_party(tmp_path: Path) -> None:
    clock = SystemClock()
    with closing(StateFile(tmp_path / "state")) as file:
        models = ServedModels(
            LoadState(file), build_linear, party_id=None, limits=ServingLimits(),
            references=LearnedReferences(tmp_path / "references"), clock=clock,
        )  # fmt: skip
        for load_id, role in (("a", "host"), ("b", "guest")):
            share = {**share_of(role), "whole": True}
            models.prepare(load_id, json.dumps(share).encode(), None)
            models.commit(load_id)
            assert models.of_version(MODEL_ID, "v1").head.role == role
        parts = HostParts(
            models, Source([{"y0": 1.0}]), settings=ServingSettings(), audit=None,
            metrics=ServingMetrics(), clock=clock,
        )  # fmt: skip
        request = PartnerRequest(
            guest=GUEST, host=HOST, model_id=MODEL_ID, model_version="v1", digest="digest-v1",
            request_ids=["r"], ids=[{"id": "1"}],
        )  # fmt: skip
        answer = parts.answer(request, clock.monotonic_s() + 30)
    assert (answer.retcode, answer.partial) == (ServingCode.NO_MODEL, b"")
