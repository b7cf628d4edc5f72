"""What is found out before a job is stored, and what a refusal says."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from fedflow.app.administration.permissions import PermissionRules
from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.errors.parties import (
    ModulesMissing,
    NoRoute,
    PartiesNotReady,
    PartyTooOld,
    PartyUnreachable,
)
from fedflow.base.errors.requests import BadRequest
from fedflow.base.messages import Message, beside
from fedflow.domain.phases import SitePhase
from fedflow.domain.records import Reply, ScheduledSite
from fedflow.domain.site import Site
from fedflow.wire.versions import BEFORE, OURS, Speaks
from tests.unit.app.fakes import GUEST, OneServer, conf, dsl

WAY = "/party/preflight"


def submit(guest: OneServer, conf_: Any = None) -> str:
    guest.live()
    return guest.core.submissions.submit(dsl(), conf_ or conf()).job_id


def preflights(guest: OneServer) -> list[str]:
    return [party for party, path, _ in guest.parties.calls if path == WAY]


def refuses(guest: OneServer, objections: dict[str, Any]) -> None:
    """Let parties answer a preflight as given: an error, a reply, or objections."""

    def answer(path: str, body: Any) -> Reply:
        given = objections.get(body.get("party_id")) if path == WAY else None
        if isinstance(given, Exception):
            raise given
        if isinstance(given, Reply):
            return given
        return Reply(retcode=0, data={"objections": given or []})

    guest.parties.answer = answer


def lost(party_id: str) -> PartyUnreachable:
    return PartyUnreachable(party_id=party_id, address="h:1", reason="connection refused")


def stored(guest: OneServer) -> list[str]:
    with guest.store.read() as tx:
        return tx.schedules.active() + list(tx.outbox.destinations())


# --- the initiator --------------------------------------------------------------------------------


def test_a_burst_of_submits_makes_one_call(guest: OneServer) -> None:
    for _ in range(5):
        submit(guest)
    assert preflights(guest) == ["10000"]
    _, _, body = next(c for c in guest.parties.calls if c[1] == WAY)
    assert body["uses"] == [["host", "Step"]]
    guest.clock.ms += 31_000
    submit(guest)
    assert preflights(guest) == ["10000", "10000"]


def test_a_job_with_another_module_is_asked_about(guest: OneServer) -> None:
    submit(guest)
    guest.core.submissions.submit(dsl(a="Keys"), conf())
    guest.core.submissions.submit(dsl(a="Step", b="Keys"), conf())
    assert preflights(guest) == ["10000", "10000"]


def test_a_refusal_names_every_broken_hop_and_stores_nothing(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001", "10002"})
    refuses(
        guest,
        {
            "10000": lost("10000"),
            "10001": [{"from": "10001", "to": "9999",
                       "reason": "10001 cannot reach 9999 at g:1: no answer within 2 s"}],
            "10002": Reply(retcode=109, retmsg="its certificate is not known", error="NotSigned"),
        },
    )  # fmt: skip
    everybody = conf(guest=[9999], host=[10000, 10001, 10002, 10003])
    with pytest.raises(PartiesNotReady) as refused:
        submit(guest, everybody)
    message = refused.value.message
    assert "9999 cannot reach 10000 at h:1: connection refused" in message
    assert "10001 cannot reach 9999 at g:1: no answer within 2 s" in message
    assert "10002 does not accept 9999: its certificate is not known" in message
    assert "No route to party 10003" in message
    hops = [(hop["from"], hop["to"]) for hop in refused.value.data]
    assert hops == [("9999", "10000"), ("10001", "9999"), ("9999", "10002"), ("9999", "10003")]
    assert stored(guest) == []


def test_a_defect_while_one_of_several_parties_is_asked_is_no_consent(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    refuses(guest, {"10001": RuntimeError("a defect of this server")})
    with pytest.raises(RuntimeError, match="a defect of this server"):
        submit(guest, conf(guest=[9999], host=[10000, 10001]))
    assert stored(guest) == []


def test_a_missing_route_alone_is_told_as_ever(guest: OneServer) -> None:
    with pytest.raises(NoRoute, match="10009"):
        submit(guest, conf(guest=[9999], host=[10009]))


def test_a_party_that_objects_is_asked_again_by_the_next_submit(guest: OneServer) -> None:
    refuses(guest, {"10000": [{"from": "9999", "to": "10000", "reason": "no module Step"}]})
    with pytest.raises(PartiesNotReady, match="no module Step"):
        submit(guest)
    refuses(guest, {})
    submit(guest)


def lacks(module: str) -> dict[str, Any]:
    """Return what party 10000 says of a module that it does not have."""
    made = Message(
        "{party} has no module {module} (it is fedflow {version})", "10000", module, "0.1.0"
    )
    return {"from": "9999", "to": "10000", "reason": str(made), **beside(made)}


def test_missing_modules_alone_are_an_error_of_their_own_with_the_hint_that_fits(
    guest: OneServer,
) -> None:
    refuses(guest, {"10000": [lacks("CenterAll"), lacks("FedMean")]})
    with pytest.raises(ModulesMissing, match="10000 has no module FedMean") as refused:
        submit(guest)
    assert "provider register" in refused.value.hint
    other = {"from": "10000", "to": "9999", "reason": "10000 cannot reach 9999"}
    refuses(guest, {"10000": [lacks("CenterAll"), other]})
    with pytest.raises(PartiesNotReady) as mixed:
        submit(guest)
    assert type(mixed.value) is PartiesNotReady


def test_a_known_dead_party_refuses_at_once_and_is_tried_again_a_second_later(
    guest: OneServer,
) -> None:
    for _ in range(3):
        guest.core.circuit_breakers.failed(
            "10000", Message("{address}: {reason}", address="h:1", reason="connection refused")
        )
    with pytest.raises(PartiesNotReady, match="connection refused; last tried"):
        submit(guest)
    assert preflights(guest) == []
    guest.clock.ms += 1_100
    submit(guest)
    assert guest.core.circuit_breakers.opened() == []


def test_submits_at_once_share_the_answer_of_one_call(guest: OneServer) -> None:
    entered, go = threading.Event(), threading.Event()
    calls = []

    def answer(path: str, body: Any) -> Reply:
        if path == WAY:
            calls.append(body)
            entered.set()
            assert go.wait(20)
        return Reply(retcode=0)

    guest.parties.answer = answer
    spec = guest.core.submissions._specs.get("x", dsl(), conf())
    threads = [threading.Thread(target=guest.core.preflight.check, args=(spec,)) for _ in range(6)]
    threads[0].start()
    assert entered.wait(20)
    for thread in threads[1:]:
        thread.start()
    go.set()
    for thread in threads:
        thread.join(20)
    assert len(calls) == 1


def test_a_site_that_is_asked_for_its_reports_is_not_asked_to_call_back(guest: OneServer) -> None:
    pull = conf()
    pull["job_parameters"]["common"]["federated_status_collect_type"] = "PULL"
    guest.live()
    guest.core.preflight.check(guest.core.submissions._specs.get("x", dsl(), pull))
    assert guest.parties.calls[-1][2]["call_back_s"] is None
    guest.core.preflight.check(guest.core.submissions._specs.get("y", dsl(), conf()))
    assert len(preflights(guest)) == 2


def test_a_mistake_of_the_job_needs_no_call(guest: OneServer) -> None:
    with pytest.raises(InvalidJobSpec):
        guest.core.submissions.submit(dsl(a="Nonsense"), conf())
    assert preflights(guest) == []


@pytest.mark.parametrize(
    "reply",
    [Reply(retcode=105, retmsg="starting", error="ExecutorNotReady"),
     Reply(retcode=106, retmsg="later"),
     Reply(retcode=100, retmsg="internal error", error="InternalError")],
)  # fmt: skip
def test_a_party_that_cannot_say_yet_is_left_to_the_jobs_own_commands(
    guest: OneServer, reply: Reply
) -> None:
    refuses(guest, {"10000": reply})
    submit(guest)
    guest.core.submissions.submit(dsl(), conf())
    assert preflights(guest) == ["10000", "10000"]  # nothing was remembered


# --- versions -------------------------------------------------------------------------------------


def test_a_party_of_the_release_before_is_only_asked_whether_it_is_there(guest: OneServer) -> None:
    guest.parties.answer = lambda path, _: (
        Reply(retcode=108, retmsg="may not be called", speaks=BEFORE.header)
        if path == WAY
        else Reply(retcode=0, speaks=BEFORE.header)
    )
    spec = guest.core.submissions._specs.get("x", dsl(), conf())
    guest.core.preflight.check(spec)
    assert [path for _, path, _ in guest.parties.calls] == [WAY, "/party/info/common"]
    guest.core.preflight.check(spec, fresh=True)
    assert guest.parties.calls[2:] == [("10000", "/party/info/common", {})]


def test_a_command_that_the_neighbour_does_not_know_is_not_sent(guest: OneServer) -> None:
    guest.core.circuit_breakers.take("10000", Reply(retcode=0, speaks=BEFORE.header))
    with pytest.raises(PartyTooOld, match="initiator_control") as refused:
        guest.core.parties.call(
            GUEST, "10000", "/initiator/1/guest/9999/control", {},
            request_id="r", job_id="1", deadline_s=1.0,
        )  # fmt: skip
    assert "protocol 2" in refused.value.message
    assert guest.parties.calls == []


def test_a_party_without_a_common_protocol_is_refused_with_both_versions(guest: OneServer) -> None:
    theirs = Speaks(lowest=3, highest=4, product="9.0.0")
    guest.parties.answer = lambda _path, _body: Reply(retcode=0, speaks=theirs.header)
    with pytest.raises(PartiesNotReady) as refused:
        submit(guest)
    assert str(theirs) in refused.value.message
    assert str(OURS) in refused.value.message
    assert stored(guest) == []


# --- the other party ------------------------------------------------------------------------------


def ask(host: OneServer, **changes: Any) -> list[dict[str, str]]:
    body = {
        "party_id": "10000",
        "initiator_role": "guest",
        "uses": [["host", "Step"]],
        "call_back_s": 2.0,
        **changes,
    }
    objections: list[dict[str, str]] = host.ask("preflight", body=body).data["objections"]
    return objections


def test_a_party_calls_back_once_and_has_no_objection(host: OneServer) -> None:
    assert ask(host) == []
    assert ask(host) == []
    assert [path for _, path, _ in host.parties.calls] == ["/party/info/common"]
    assert host.outbox("9999") == []


def test_a_party_that_calls_is_called_back_though_a_call_to_it_has_just_failed(
    host: OneServer,
) -> None:
    for _ in range(3):
        host.core.circuit_breakers.failed(
            "9999", Message("{address}: {reason}", address="g:1", reason="connection refused")
        )
    assert not host.core.circuit_breakers.may_try("9999")
    assert ask(host) == []
    assert host.core.circuit_breakers.may_try("9999")


def test_a_way_back_that_is_broken_is_told_without_its_address(host: OneServer) -> None:
    def is_down(_path: str, _body: Any) -> Reply:
        raise PartyUnreachable(party_id="9999", address="g:1", reason="no answer within 2 s")

    host.parties.answer = is_down
    [hop] = ask(host)
    assert (hop["from"], hop["to"]) == ("10000", "9999")
    assert hop["reason"] == "10000 cannot reach 9999 at …"
    assert ask(host, call_back_s=None) == []


def test_a_party_without_a_route_back_says_so(host: OneServer) -> None:
    host.parties.known = frozenset()
    [hop] = ask(host, uses=[["host", "FutureLR"]])  # and no more: it is a stranger
    assert hop["reason"] == "10000 cannot reach 9999: it has no route to it"
    assert ask(host, uses=[["host", "FutureLR"]], call_back_s=None) == []


def test_modules_that_are_absent_or_not_granted_are_told(host: OneServer) -> None:
    host.core.permissions.rules = PermissionRules(switch=True, component=True)
    host.core.permissions.grant("9999", components=["step"])
    hops = ask(host, uses=[["host", "Step"], ["host", "Reader"], ["host", "FutureLR"]])
    reasons = [hop["reason"] for hop in hops]
    assert len(reasons) == 2
    assert "10000: Party 9999 may not use the component Reader at this site" in reasons[0]
    assert "10000 has no module FutureLR" in reasons[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"party_id": None},
        {"party_id": "../x"},
        {"initiator_role": "king"},
        {"uses": None},
        {"uses": [["host"]]},
        {"uses": [["king", "Step"]]},
        {"uses": [7]},
        {"uses": [["host", "Step"]] * 5001},
        {"call_back_s": "soon"},
        {"call_back_s": -1},
        {"call_back_s": 1e300},
    ],
)
def test_a_preflight_that_cannot_be_read_is_refused(
    host: OneServer, changes: dict[str, Any]
) -> None:
    with pytest.raises(BadRequest):
        ask(host, **changes)
    assert host.parties.calls == []


def test_a_preflight_for_another_party_is_refused(host: OneServer) -> None:
    with pytest.raises(WrongSite):
        ask(host, party_id="10001")


# --- elastic jobs ---------------------------------------------------------------------------------


def elastic(guest: OneServer, least: int) -> Any:
    modules = guest.catalog._modules
    modules["step"] = replace(modules["step"], absence="rounds")
    given = conf(guest=[9999], host=[10000, 10001])
    given["job_parameters"]["common"]["elastic"] = {"min_parties": least}
    return given


def test_an_elastic_job_begins_without_a_host_that_does_not_answer(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    refuses(guest, {"10000": lost("10000")})
    guest.live()
    submitted = guest.core.submissions.submit(dsl(), elastic(guest, 2))
    (warned,) = submitted.warnings
    assert (warned.code, warned.path) == ("PartyAbsent", "$.conf.role.host")
    assert warned.message.startswith("the job begins without host 10000: 9999 cannot reach 10000")
    phases = {s.site.key: s.phase.value for s in guest.scheduled(submitted.job_id).sites}
    assert phases["host-10000"] == "absent"
    assert phases["host-10001"] != "absent"


def test_an_elastic_job_without_enough_parties_is_refused(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    refuses(guest, {"10000": lost("10000")})
    with pytest.raises(PartiesNotReady):
        submit(guest, elastic(guest, 3))
    assert stored(guest) == []


def test_a_host_with_an_objection_is_no_absent_one(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    objection = {"from": "9999", "to": "10000", "reason": "10000 has no module Step"}
    refuses(guest, {"10000": [objection]})
    with pytest.raises(PartiesNotReady):
        submit(guest, elastic(guest, 1))


def test_explain_says_from_when_to_when_a_host_was_absent(guest: OneServer) -> None:
    guest.parties.known = frozenset({"10000", "10001"})
    refuses(guest, {"10000": lost("10000")})
    guest.live()
    job_id = guest.core.submissions.submit(dsl(), elastic(guest, 2)).job_id
    site = Site.from_key("host-10000")
    (away,) = guest.core.explanations.explain(job_id).absences
    assert (away.site, away.until_ms) == (site.key, None)
    assert "9999 cannot reach 10000" in away.reason
    moved = ScheduledSite(site=site, phase=SitePhase.GRANTED)
    with guest.store.transaction() as tx:
        tx.schedules.set_site(job_id, moved, seen=SitePhase.ABSENT, now_ms=guest.clock.now_ms())
    (over,) = guest.core.explanations.explain(job_id).absences
    assert (over.site, over.until_ms) == (site.key, guest.clock.now_ms())
