"""What is known of a job before it is stored, all at once, and that looking stores nothing."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.app.initiator.validation import ValidationReport
from fedflow.base.errors.parties import PartiesNotReady, PartyUnreachable
from fedflow.domain.records import JobFilter, Reply
from tests.unit.app.fakes import HOST, OneServer, conf, dsl


def look(guest: OneServer, dsl_: Any = None, conf_: Any = None) -> ValidationReport:
    return guest.core.submissions.validation.validate(
        dsl() if dsl_ is None else dsl_, conf() if conf_ is None else conf_
    )


def rules(found: ValidationReport) -> list[tuple[str, str]]:
    return [(p.path, p.rule) for p in found.problems]


def nothing_is_stored(guest: OneServer) -> bool:
    with guest.store.read() as tx:
        return not tx.schedules.active() and not tx.jobs.find(JobFilter())


def test_a_good_job_has_a_spec_and_no_problems_and_nothing_is_stored(guest: OneServer) -> None:
    found = look(guest)
    assert found.spec is not None
    assert found.problems == ()
    assert found.here == {"9999"}
    assert nothing_is_stored(guest)
    assert not guest.parties.calls


def test_a_job_that_cannot_be_read_has_its_problems_and_no_spec(guest: OneServer) -> None:
    found = look(guest, dsl(a="Nothing", b="Nobody"), {**conf(), "role": {}})
    assert found.spec is None
    assert {rule for _, rule in rules(found)} == {"RoleError", "InitiatorError", "ModuleNotFound"}


def test_problems_of_several_steps_are_told_together(guest: OneServer) -> None:
    given = conf(cores=10_000, guest=[9999], host=[77777])
    found = look(guest, None, given)
    assert rules(found) == [
        ("$.conf.role", "NoRoute"), ("$.conf.job_parameters", "NotEnoughResources"),
    ]  # fmt: skip


def test_a_job_of_another_initiator_is_told_at_its_initiator(guest: OneServer) -> None:
    given = {**conf(), "initiator": {"role": "host", "party_id": 10000}}
    assert ("$.conf.initiator.party_id", "SubmitRefused") in rules(look(guest, None, given))


def test_a_party_without_a_route_is_told_at_the_roles(guest: OneServer) -> None:
    found = look(guest, None, conf(guest=[9999], host=[77777]))
    assert rules(found) == [("$.conf.role", "NoRoute")]


def test_a_job_that_never_fits_is_told_with_what_it_needs(guest: OneServer) -> None:
    found = look(guest, None, conf(cores=10_000))
    assert rules(found) == [("$.conf.job_parameters", "NotEnoughResources")]
    assert "10000" in found.problems[0].message


def test_a_table_that_this_server_has_not_is_told_where_it_is_named(guest: OneServer) -> None:
    given = conf()
    given["component_parameters"] = {
        "common": {"r": {"table": {"namespace": "n", "name": "absent"}}},
        "role": {"host": {"0": {"r": {"table": {"namespace": "n", "name": "of the host"}}}}},
    }
    found = look(guest, dsl(r="Reader"), given)
    assert rules(found) == [("$.conf.component_parameters.common.r.table", "TableNotFound")]
    assert "n.absent" in found.problems[0].message
    assert "of the host" not in str(found.problems)


def test_a_predict_job_of_an_unknown_model_is_told(guest: OneServer) -> None:
    given = conf()
    given["job_parameters"]["common"] |= {
        "job_type": "predict", "model_id": "guest-9999#model", "model_version": "1",
    }  # fmt: skip
    found = look(guest, {}, given)
    assert found.spec is None
    assert [rule for _, rule in rules(found)] == ["ModelNotFound"]


@pytest.mark.parametrize("conf_", [None, 1, [], "x", {}])
def test_what_is_no_conf_is_a_problem_and_no_crash(guest: OneServer, conf_: Any) -> None:
    found = guest.core.submissions.validation.validate(dsl(), conf_)
    assert found.spec is None
    assert found.problems


def checks(guest: OneServer) -> list[str]:
    return [path for _, path, _ in guest.parties.calls if path.endswith("/host/10000/check")]


def test_a_site_that_would_refuse_is_named_and_one_that_cannot_tell_is_no_error(
    guest: OneServer,
) -> None:
    spec = look(guest).spec
    assert spec is not None
    answers = {
        "TableNotFound": Reply(retcode=100, retmsg="no such table", error="TableNotFound"),
        "RouteNotFound": Reply(retcode=100, retmsg="no such route", error="RouteNotFound"),
    }
    found = {}
    for name, answer in answers.items():
        guest.parties.answer = lambda path, _body, said=answer: (
            said if path.endswith("/check") else Reply(retcode=0)
        )
        told = guest.core.submissions.validation.ask(spec)
        found[name] = [(one.objection, one.was_asked) for one in told if one.site == HOST]
    assert found == {"TableNotFound": [("no such table", True)], "RouteNotFound": [("", False)]}
    assert nothing_is_stored(guest)


def test_asking_calls_the_parties_each_time_and_names_what_is_broken(guest: OneServer) -> None:
    spec = look(guest).spec
    assert spec is not None
    guest.core.submissions.validation.ask(spec)
    assert len(checks(guest)) == 1
    guest.core.submissions.validation.ask(spec)
    assert len(checks(guest)) == 2

    def lost(path: str, body: Any) -> Reply:
        raise PartyUnreachable(party_id="10000", address="h:1", reason="connection refused")

    guest.parties.answer = lost
    with pytest.raises(PartiesNotReady) as caught:
        guest.core.submissions.validation.ask(spec)
    assert caught.value.fields["hops"][0]["to"] == "10000"
    assert nothing_is_stored(guest)
