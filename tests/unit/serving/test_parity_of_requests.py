"""A request's way to its score, with two hosts: single, batch, joined, and by way of the caches.

Scores are those of the predict job, and rows without one have a code. All parts are those of a
process but its ports: state, services, hosts' parts, caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedflow.base.clock import SystemClock
from fedflow.components.features.scale import FeatureScale
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.rpc.client.channels import Channels, ChannelSettings
from fedflow.rpc.client.routes import RouteTable, make_routes
from fedflow.serving.answering import Answering, CallerRequest
from fedflow.serving.caches.caches import open_caches
from fedflow.serving.caches.settings import CacheSettings, PartnerCacheSettings
from fedflow.serving.codes import ItemAnswer
from fedflow.serving.inference import Inference
from fedflow.serving.learned_references import LearnedReferences
from fedflow.serving.load_state import LoadState
from fedflow.serving.metrics import ServingMetrics
from fedflow.serving.models import ServedModels
from fedflow.serving.partners.messages import PartnerRequest, PartnerResponse
from fedflow.serving.partners.partner_calls import PartnerCalls
from fedflow.serving.partners.partner_parts import OnlineRow, PartnerParts
from fedflow.serving.partners.partners import HostParts
from fedflow.serving.run import build_share
from fedflow.serving.scores import Scores
from fedflow.serving.services.service_options import ServiceOptions
from fedflow.serving.services.service_state import ServiceState
from fedflow.serving.services.services import BindService, Services
from fedflow.serving.services.shadows import Shadows
from fedflow.serving.settings import ServingSettings
from fedflow.serving.sources.source import FeatureFault, not_found
from fedflow.serving.state_file import StateFile
from tests.unit.components.hetero_lr_parties import GUEST, HOST, HOST_2
from tests.unit.serving.scoring_parties import (
    THREE,
    Node,
    Pipeline,
    Row,
    labels_of,
    numbers_of,
)
from tests.unit.serving.test_scoring_linear import TRAINED, read_node

COUNT = 1_000


class Features:
    """One host's features, by the number of a row."""

    id_names = frozenset({"row"})

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self.asked = 0

    def find(self, ids: Sequence[Any], *, deadline_s: float) -> list[Row | FeatureFault]:
        self.asked += len(ids)
        return [
            self._rows[one["row"]] if one["row"] < len(self._rows) else not_found() for one in ids
        ]

    def close(self) -> None:
        """Hold nothing."""


class Ways:
    """The way of a request, and what the predict job says of each row."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        pipeline = Pipeline(
            [
                read_node(),
                Node(name="scale_0", cls=FeatureScale),
                Node(
                    name="hetero_lr_0",
                    cls=HeteroLR,
                    params={**TRAINED, "early_stop": "weight_diff"},
                ),
            ],
            folder / "jobs",
            sites=THREE,
        )
        rows = numbers_of(60, seed=1, sites=THREE, missing=0.1)
        pipeline.train(rows, labels_of(rows))
        self.rows = numbers_of(COUNT, seed=2, sites=THREE, missing=0.2)
        self.offline = pipeline.predict(self.rows)["predict_score"]
        self.sources = {site.party_id: Features(self.rows[site]) for site in (HOST, HOST_2)}
        clock, metrics, settings = SystemClock(), ServingMetrics(), ServingSettings()
        models = {}
        for site in THREE:
            file = stack.enter_context(closing(StateFile(folder / f"{site.party_id}.sqlite")))
            models[site] = ServedModels(
                LoadState(file), build_share, party_id=site.party_id, limits=settings.limits,
                references=LearnedReferences(folder / site.party_id), clock=clock,
            )  # fmt: skip
            models[site].prepare("load", msgspec.json.encode(pipeline.deployed(site)), None)
            models[site].commit("load")
            if site is GUEST:
                services = Services(
                    ServiceState(file), models[site], caches_parts=True, clock=clock
                )
        hosts = {
            site.party_id: HostParts(
                models[site], self.sources[site.party_id], settings=settings, audit=None,
                metrics=metrics, clock=clock,
            )
            for site in (HOST, HOST_2)
        }  # fmt: skip

        def own(request: PartnerRequest, deadline_s: float) -> PartnerResponse:
            return hosts[request.host].answer(request, deadline_s)

        calls = PartnerCalls(
            Channels(
                RouteTable(make_routes((GUEST.party_id,), {}, tls=False)), credentials=None,
                settings=ChannelSettings(),
            ),
            own, limits=settings.limits, metrics=metrics, clock=clock,
        )  # fmt: skip
        stack.callback(calls.close)
        caches = open_caches(
            CacheSettings(partners=PartnerCacheSettings(enabled=True)), folder, stale_s=60,
            metrics=metrics, clock=clock,
        )  # fmt: skip
        head = models[GUEST].loaded()[0].key
        for service, cached in (("cold", False), ("cached", True)):
            services.bind(
                BindService(
                    service_id=service, model_id=head.model_id, model_version=head.model_version,
                    options=ServiceOptions(cache_partners=cached),
                )
            )  # fmt: skip
        inference = Inference(
            PartnerParts(calls, caches.partners), limits=settings.limits, metrics=metrics,
            clock=clock,
        )  # fmt: skip
        self._clock = clock
        self._answering = Answering(
            models[GUEST], services, Scores(inference, caches.results), Shadows(),
            metrics=metrics, settings=settings, clock=clock,
        )  # fmt: skip

    def ask(self, numbers: Sequence[int], *, service: str, named: str = "") -> list[ItemAnswer]:
        asked = CallerRequest(
            kind="single" if len(numbers) == 1 else "batch", case_id="c", service_id=service,
            header=lambda _: "", started_s=self._clock.monotonic_s(),
        ).named(named)  # fmt: skip
        rows = [
            OnlineRow(
                request_id=asked.case_id,
                features={**self.rows[GUEST][n % COUNT], "extra": 1.0, "word": "none"},
                ids={"row": n},
            )
            for n in numbers
        ]
        found = self._answering.answer(asked, rows)
        assert not isinstance(found, ItemAnswer), found
        return [one.item for one in found]

    def check(self, numbers: Sequence[int], items: Sequence[ItemAnswer]) -> None:
        assert [one.retcode for one in items] == [0] * len(items)
        scores = [one.score for one in items]
        wanted = [self.offline[n] for n in numbers]
        assert scores == pytest.approx(wanted, rel=0, abs=1e-9)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    with ExitStack() as stack:
        ways = Ways(tmp_path_factory.mktemp("ways"), stack)
        ways.ask([0], service="cold")  # starts the thread that asks the second host
        yield ways


@pytest.mark.parametrize("service", ["cold", "cached"])
def test_batches_have_the_scores_of_the_predict_job(ways: Ways, service: str) -> None:
    for start in (*range(0, COUNT, 300), 0):  # the first ones again, by way of the cache
        numbers = range(start, min(start + 300, COUNT))
        ways.check(numbers, ways.ask(numbers, service=service))


@pytest.mark.parametrize("service", ["cold", "cached"])
def test_single_requests_that_are_joined_have_the_scores_of_the_predict_job(
    ways: Ways, service: str
) -> None:
    with ThreadPoolExecutor(24) as pool:
        items = list(pool.map(lambda n: ways.ask([n], service=service)[0], range(COUNT)))
    ways.check(range(COUNT), items)


def test_hosts_are_asked_once_for_a_user_with_the_cache(ways: Ways) -> None:
    numbers = range(100)
    ways.ask(numbers, service="cached")
    before = [source.asked for source in ways.sources.values()]
    ways.check(numbers, ways.ask(numbers, service="cached"))
    assert [source.asked for source in ways.sources.values()] == before


def test_a_repeated_request_has_its_score_and_another_under_its_name_its_own(ways: Ways) -> None:
    for number in (1, 2, 1):
        ways.check([number], ways.ask([number], service="cold", named="case"))


def test_a_user_whom_nobody_knows_costs_the_others_nothing(ways: Ways) -> None:
    for service in ("cold", "cached"):
        items = ways.ask([3, COUNT + 5, 4], service=service)
        assert items[1].retcode == 2113
        ways.check([3, 4], [items[0], items[2]])
