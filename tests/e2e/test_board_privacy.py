"""No answer of a party's board or API holds what only another party may know.

A real job of two servers trains over columns whose names and values occur nowhere else: the cells
of the guest lie near 27182, those of the host near 31415, so that a cell, a mean or a split point
of the other party is known wherever it stands, rounded or not. Then everything is read that links
lead to at each party, and what programs may ask.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import requests

from fedflow.domain.site import Site
from fedflow.elastic import stored
from fedflow.elastic.state import Membership, Presence, State, state_to_bytes
from tests.e2e.board_crawl import CALL_S, Answer, Crawl, crawl, text_of
from tests.e2e.jobs import NAMES
from tests.e2e.pipelines import Step, pipeline
from tests.e2e.servers import (
    ARBITER,
    DATA,
    GUEST,
    GUEST_ID,
    HOST,
    HOST_ID,
    Pair,
    Party,
    two_parties,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

LABEL: Final = "bought_by_guest_only"
GUESTS_RUN: Final = "guests-own-run"
HOSTS_RUN: Final = "hosts-own-run"
GUESTS: Final = re.compile(r"(?<![\d.])27,?1[6-9]\d\.\d|gcolumn_\d|" + LABEL)
HOSTS: Final = re.compile(r"(?<![\d.])31,?4[0-2]\d\.\d|hcolumn_\d")
BOTH: Final = re.compile(f"{GUESTS.pattern}|{HOSTS.pattern}")
KEY: Final = {"encrypt_param": {"method": "Paillier", "key_length": 1024}}
LEARNS: Final[dict[str, Any]] = {
    "optimizer": "rmsprop",
    "alpha": 0.01,
    "max_iter": 3,
    "batch_size": -1,
    "learning_rate": 0.15,
    "init_param": {"init_method": "zeros"},
    "early_stop": "weight_diff",
    **KEY,
}
RAW: Final = {"data": ["intersection_0.data"]}
STEPS: Final = {
    "reader_0": Step(
        module="Reader",
        guest={"table": {"name": NAMES[GUEST_ID], "namespace": "experiment"}},
        host={"table": {"name": NAMES[HOST_ID], "namespace": "experiment"}},
    ),
    "data_transform_0": Step(
        module="DataTransform",
        data={"data": ["reader_0.data"]},
        guest={"with_label": True, "label_name": LABEL, "label_type": "int"},
        host={"with_label": False},
    ),
    "intersection_0": Step(
        module="Intersection",
        data={"data": ["data_transform_0.data"]},
        cache=True,
        params={"intersect_method": "rsa", "rsa_params": {"key_length": 1024}},
    ),
    "statistic_0": Step(module="DataStatistics", data=RAW),
    "binning_0": Step(
        module="HeteroFeatureBinning",
        data=RAW,
        params={"bin_num": 5, "transform_param": {"transform_type": None}, **KEY},
    ),
    "pearson_0": Step(
        module="HeteroPearson",
        data=RAW,
        params={"column_indexes": -1, "fixpoint_bit_length": 1024},
    ),
    "selection_0": Step(
        module="HeteroFeatureSelection",
        data=RAW,
        isometric=["binning_0.model", "statistic_0.model", "pearson_0.model"],
        params={
            "filter_methods": ["iv_filter", "statistic_filter"],
            "iv_param": {"metrics": "iv", "filter_type": "threshold", "threshold": 0.1},
            "statistic_param": {
                "metrics": "mean",
                "filter_type": "threshold",
                "threshold": 1.0,
            },
        },
    ),
    "feature_scale_0": Step(
        module="FeatureScale",
        data={"data": ["selection_0.data"]},
        params={"method": "standard_scale"},
    ),
    "hetero_lr_0": Step(
        module="HeteroLR", data={"train_data": ["feature_scale_0.data"]}, params=LEARNS
    ),
    "evaluation_0": Step(module="Evaluation", data={"data": ["hetero_lr_0.data"]}),
}
PAGES: Final = ("", "/timeline", "/events", "/logs", "/trace", "/definition")
HEADERS: Final = ("Content-Security-Policy", "X-Content-Type-Options", "X-Frame-Options")


@dataclass(frozen=True, kw_only=True)
class World:
    """Two servers that ran the job, and what their boards answered."""

    pair: Pair
    job_id: str
    guest: Crawl
    host: Crawl


def write_data(folder: Path) -> dict[str, Path]:
    """Write each party's file with names and values of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for party, prefix, middle in ((GUEST_ID, "gcolumn", 27182.0), (HOST_ID, "hcolumn", 31415.0)):
        files[party] = folder / f"{NAMES[party]}.csv"
        with (DATA / f"{NAMES[party]}.csv").open(newline="") as source:
            rows = list(csv.DictReader(source))
        columns = [name for name in rows[0] if name.startswith("x")]
        named = {name: f"{prefix}_{number}" for number, name in enumerate(columns)}
        labels = ["y"] if "y" in rows[0] else []
        with files[party].open("w", newline="") as target:
            writer = csv.writer(target)
            writer.writerow(["id", *(LABEL for _ in labels), *named.values()])
            for row in rows:
                cells = [f"{middle + float(row[name]) / 2:.6f}" for name in columns]
                writer.writerow([row["id"], *(row[name] for name in labels), *cells])
    return files


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("privacy")
    files = write_data(folder / "data")
    with two_parties(folder) as pair:
        for party, name in ((pair.guest, GUEST_ID), (pair.host, HOST_ID)):
            assert party.upload(files[name], NAMES[name], drop=True).succeeded
        for party, name in ((pair.guest, GUESTS_RUN), (pair.host, HOSTS_RUN)):
            member = Presence(membership=Membership.PARTICIPANT, heartbeat_ms=1, rank=0)
            whole = State(round=0, size=1, members={f"{name}_0_0": member})
            state = stored.text_of(state_to_bytes(whole))
            assert party.post("/v1/rendezvous/write", {"run_id": name, "state": state})["data"]
        job_id = pair.guest.client.submit(*pipeline(STEPS, arbiter=True)).job_id
        for party in pair.all:
            party.client.job_traces.record(job_id, is_on=True)
        ends = pair.ends(job_id, within_s=240)
        assert set(ends.values()) == {"success"}, (ends, pair.guest.client.job(job_id))
        yield World(
            pair=pair,
            job_id=job_id,
            guest=crawl(pair.guest.url, starts(job_id, GUEST)),
            host=crawl(pair.host.url, [*starts(job_id, HOST), *starts(job_id, ARBITER)]),
        )
        pair.wait_idle()


def starts(job_id: str, site: Site) -> list[str]:
    """Return where a crawl begins: pages of the server, and those of a site's share."""
    share = f"/board/jobs/{job_id}/{site.role.value}/{site.party_id}"
    return ["/board/", "/board/rendezvous", *(f"{share}{page}" for page in PAGES)]


def leaks(answers: list[Answer], secrets: re.Pattern[str]) -> list[str]:
    """Return which answers hold a secret, with what stands around it."""
    found = []
    for answer in answers:
        hit = secrets.search(answer.text)
        if hit is not None:
            around = answer.text[max(0, hit.start() - 80) : hit.end() + 40]
            found.append(f"{answer}: ...{around!r}")
    return found


# --- the boards -----------------------------------------------------------------------------------


def test_every_link_answers(world: World) -> None:
    assert min(len(world.guest.answers), len(world.host.answers)) > 100
    for crawled in (world.guest, world.host):
        broken = [str(a) for a in crawled.answers if a.status not in (200, 210, 286)]
        assert broken == [], "\n".join(broken)


def test_no_page_has_a_defect(world: World) -> None:
    for crawled in (world.guest, world.host):
        bad = [str(a) for a in crawled.answers if re.search("internal error|defect of the", a.text)]
        assert bad == []


def test_every_answer_has_the_headers_that_keep_it_safe(world: World) -> None:
    for crawled in (world.guest, world.host):
        bad = [str(a) for a in crawled.answers if any(h not in a.headers for h in HEADERS)]
        assert bad == []


def test_the_crawl_saw_what_it_looks_for(world: World) -> None:
    """Each party sees its own names and cells, so the patterns do find them."""
    for crawled, site, own in ((world.guest, GUEST, GUESTS), (world.host, HOST, HOSTS)):
        share = f"/board/jobs/{world.job_id}/{site.role.value}/{site.party_id}"
        for page in ("binning_0/model", "statistic_0/model", "reader_0/data"):
            address = f"{share}/components/{page}"
            shown = [a for a in crawled.answers if a.url.partition("?")[0] == address]
            assert any(own.search(a.text) for a in shown), address
        assert {f"{share}/timeline", "/board/models", "/board/parties"} <= crawled.paths()


def test_the_guests_board_tells_nothing_of_the_hosts_data(world: World) -> None:
    assert leaks(world.guest.answers, HOSTS) == []


def test_the_hosts_board_tells_nothing_of_the_guests_data(world: World) -> None:
    assert leaks(world.host.answers, GUESTS) == []


def test_a_trace_tells_what_its_own_site_exchanged_and_with_whom(world: World) -> None:
    for crawled, site in ((world.guest, GUEST), (world.host, HOST), (world.host, ARBITER)):
        address = f"/board/jobs/{world.job_id}/{site.role.value}/{site.party_id}/trace"
        shown = next(a.text for a in crawled.answers if a.url == address)
        peers = set(re.findall(r'<td class="nowrap">(\w+ \d+)</td>', shown))
        others = {str(other) for other in (GUEST, HOST, ARBITER) if other != site}
        assert "hetero_lr_0" in shown
        assert "<code>paillier_pubkey</code>" in shown  # the ledger names each message
        assert "The largest" in shown  # single values were recorded
        assert others >= peers > set()


def test_runs_of_rendezvous_are_shown_at_their_own_server_alone(world: World) -> None:
    for crawled, own, other in (
        (world.guest, GUESTS_RUN, HOSTS_RUN),
        (world.host, HOSTS_RUN, GUESTS_RUN),
    ):
        shown = next(a.text for a in crawled.answers if a.url == "/board/rendezvous")
        assert f"{own}_0_0" in shown
        assert not any(other in a.text for a in crawled.answers)


def test_an_arbiters_pages_tell_no_data_at_all(world: World) -> None:
    own = re.compile(r"/arbiter/10000|site=arbiter-10000")
    pages = [a for a in world.host.answers if own.search(a.url)]
    assert len(pages) > 10
    assert leaks(pages, BOTH) == []


def test_the_hosts_board_tells_no_statistics_of_labels(world: World) -> None:
    told = label_statistics(world)
    own = [a for a in world.guest.answers if "binning_0/model" in a.url]
    assert any(numbers_in(a.text) & told for a in own)  # so such numbers are found
    about = [a for a in world.host.answers if re.search("binning_0|selection_0|/models/", a.url)]
    bad = [f"{a}: {n}" for a in about for n in sorted(numbers_in(a.text) & told)]
    assert bad == []


def label_statistics(world: World) -> set[str]:
    """Return IV, WOE and event rates that only the guest knows, with six significant digits."""
    body = {"job_id": world.job_id, "component_name": "binning_0", "role": "guest",
            "party_id": GUEST_ID}  # fmt: skip
    model = world.pair.guest.post("/v1/tracking/component/output/model", body)["data"]
    found: set[str] = set()

    def look(value: Any, name: str = "") -> None:
        if isinstance(value, dict):
            for key, member in value.items():
                look(member, key)
        elif isinstance(value, list):
            for member in value:
                look(member, name)
        elif isinstance(value, float) and re.search("iv|woe|rate", name, re.IGNORECASE):
            found.add(f"{value:.6g}")

    look(model)
    assert len(found) > 50
    return {number for number in found if len(number.lstrip("-0.")) >= 6}


def numbers_in(text: str) -> set[str]:
    """Return the numbers of a text with six significant digits."""
    plain = re.findall(r"(?<![\w.])-?\d+\.\d{3,}(?:e-?\d+)?", text)
    return {f"{float(number):.6g}" for number in plain}


# --- programs -------------------------------------------------------------------------------------


def asked(world: World, party: Party, site: Site) -> list[Answer]:
    """Return what the routes that look answer about the job at a site, as programs ask them."""
    share = {"job_id": world.job_id, "role": site.role.value, "party_id": site.party_id}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v1/job/config", share),
        ("POST", "/v1/job/query", share),
        ("POST", "/v1/job/list/job", {"job_id": world.job_id, "role": [site.role.value]}),
        ("POST", "/v1/operation/job_config/get", share),
        ("POST", "/v1/model/query", {"model_version": world.job_id, "role": site.role.value}),
        ("POST", "/v1/job/data/view/query", share),
        ("POST", "/v1/job/status", share),
        ("POST", "/v1/job/event", share),
        ("POST", "/v1/job/explain", share),
        ("POST", "/v1/job/report", share),
        ("POST", "/v1/job/ledger/query", {"job_id": world.job_id}),
        ("POST", "/v1/job/ledger/export", {"job_id": world.job_id}),
        ("POST", "/v1/job/trace/query", {"job_id": world.job_id}),
        ("POST", "/v1/rendezvous/list", {}),
        ("POST", "/v1/job/log/download", share),
        ("POST", "/v1/job/list/task", share),
        ("POST", "/v1/job/task/query", share),
        ("POST", "/v1/tracking/job/data_view", share),
        ("POST", "/v1/pipeline/dag/dependency", share),
        ("POST", "/v1/table/list", {}),
        ("GET", "/fateboard/job/query/status", {}),
        ("POST", "/fateboard/job/query/page/new", {}),
        ("POST", "/fateboard/v1/pipeline/dag/dependencies", share),
        ("GET", f"/fateboard/job/query/{world.job_id}/{site.role.value}/{site.party_id}", {}),
        (
            "GET",
            f"/fateboard/websocket/progress/{world.job_id}/{site.role.value}/{site.party_id}",
            {},
        ),
        ("POST", "/fateboard/job/download", {**camel(share), "type": "dsl"}),
        ("POST", "/fateboard/job/download", {**camel(share), "type": "conf"}),
    ]
    log = f"/fateboard/log/new/{world.job_id}/{site.role.value}/{site.party_id}/default"
    calls += [("POST", log, {"type": kind}) for kind in ("partyInfo", "partyDebug", "jobSchedule")]
    for name in STEPS:
        one = {**share, "component_name": name}
        shown = ("parameters", "metrics", "metric/all", "output/model", "output/data")
        calls += [("POST", f"/v1/tracking/component/{path}", one) for path in shown]
        calls += [
            ("POST", f"/fateboard/v1/tracking/component/{path}", one)
            for path in shown
            if path != "metric/all"
        ]
        calls += [
            ("POST", "/v1/tracking/component/summary/download", one),
            ("POST", "/v1/tracking/component/output/data/table", one),
            ("GET", "/v1/tracking/component/output/data/download", one),
            ("POST", "/fateboard/job/componentCommand", one),
            ("POST", f"{log.removesuffix('default')}{name}", {"type": "componentInfo"}),
        ]
    return [call(party, *one) for one in calls]


def camel(share: dict[str, Any]) -> dict[str, Any]:
    return {"jobId": share["job_id"], "role": share["role"], "partyId": share["party_id"]}


def call(party: Party, method: str, path: str, body: dict[str, Any]) -> Answer:
    got = requests.request(method, party.url + path, json=body, timeout=CALL_S)
    return Answer(
        url=f"{path} {json.dumps(body)}", found_on="-", status=got.status_code,
        kind=got.headers.get("Content-Type", ""), headers=dict(got.headers),
        text=text_of(got.content),
    )  # fmt: skip


def test_the_guests_routes_tell_programs_nothing_of_the_hosts_data(world: World) -> None:
    answers = asked(world, world.pair.guest, GUEST)
    assert leaks(answers, HOSTS) == []
    assert leaks(answers, GUESTS) != []


def test_the_hosts_routes_tell_programs_nothing_of_the_guests_data(world: World) -> None:
    answers = asked(world, world.pair.host, HOST)
    assert leaks(answers, GUESTS) == []
    assert leaks(answers, HOSTS) != []


def test_the_arbiters_routes_tell_programs_no_data(world: World) -> None:
    about = asked(world, world.pair.host, ARBITER)
    answers = [a for a in about if not a.url.startswith(("/v1/table/list", "/v1/job/log"))]
    assert leaks(answers, BOTH) == []


def test_another_partys_share_is_not_here(world: World) -> None:
    for party, site in ((world.pair.host, GUEST), (world.pair.guest, HOST)):
        share = f"/board/jobs/{world.job_id}/{site.role.value}/{site.party_id}"
        for page in ("", "/events", "/components/binning_0/model", "/components/reader_0/data"):
            got = requests.get(f"{party.url}{share}{page}", timeout=CALL_S)
            assert got.status_code == 404, f"{share}{page}"
            assert BOTH.search(got.text) is None
