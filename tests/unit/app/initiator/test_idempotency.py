"""Submits that are made again: one key, one job, one answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.base.errors.jobs import IdempotencyKeyReused, SubmitRefused
from fedflow.base.errors.requests import BadRequest
from fedflow.base.errors.store import StoreUnavailable
from fedflow.domain.records import Reply
from tests.unit.app.fakes import OneServer, conf, dsl

DAY_MS = 86_400_000


def submit(server: OneServer, key: str | None = "k", document: Any = None) -> Any:
    return server.core.submissions.submit(dsl(), document or conf(), keys=(key,))


def jobs(server: OneServer) -> list[str]:
    with server.store.read() as tx:
        return tx.schedules.active()


def test_a_repeated_submit_gets_the_same_answer_and_makes_no_second_job(alone: OneServer) -> None:
    alone.live()
    document = conf()
    document["job_parameters"]["common"]["unknown"] = 1
    first = submit(alone, document=document)
    assert first.warnings
    reordered = dict(reversed(list(document.items())))
    assert submit(alone, document=reordered) == first
    assert jobs(alone) == [first.job_id]
    alone.boot()  # what is kept in memory is gone
    assert submit(alone, document=document) == replace(first)
    assert submit(alone, None).job_id != first.job_id


def test_a_key_of_a_job_with_other_contents_is_refused(alone: OneServer) -> None:
    alone.live()
    first = submit(alone)
    with pytest.raises(IdempotencyKeyReused, match=first.job_id) as refused:
        submit(alone, document=conf(cores=1))
    assert refused.value.hint
    assert jobs(alone) == [first.job_id]


def test_the_job_parameter_is_a_key_too_and_two_that_differ_are_refused(alone: OneServer) -> None:
    alone.live()
    document = conf()
    document["job_parameters"]["common"]["idempotency_key"] = "k"
    first = submit(alone, None, document)
    assert submit(alone, "k", document) == first
    assert not any("idempotency_key" in w.path for w in first.warnings)
    with pytest.raises(BadRequest, match="differ"):
        submit(alone, "other", document)
    with pytest.raises(BadRequest, match="1 to 255"):
        submit(alone, "with blank")


def test_an_invalid_job_does_not_use_its_key_up(alone: OneServer) -> None:
    alone.live()
    wrong = conf(parameters={"common": {"a": {"bad": 1}}})
    with pytest.raises(InvalidJobSpec):
        submit(alone, document=wrong)
    made = submit(alone)
    assert jobs(alone) == [made.job_id]


def test_a_job_that_a_site_refused_does_not_use_its_key_up(guest: OneServer) -> None:
    guest.live()
    guest.parties.answer = lambda path, _: Reply(
        retcode=103 if path.endswith("/create") else 0, retmsg="no", error="SubmitRefused"
    )
    with pytest.raises(SubmitRefused):
        submit(guest)
    guest.parties.answer = lambda _path, _body: Reply(retcode=0)
    again = submit(guest, document=conf(cores=1))
    assert submit(guest, document=conf(cores=1)).job_id == again.job_id


def test_a_job_that_was_canceled_while_it_waited_is_still_that_of_its_key(alone: OneServer) -> None:
    alone.live()
    first = submit(alone)
    alone.core.jobs.stop(first.job_id)
    assert submit(alone) == first


def test_a_repeat_after_a_crash_before_the_answer_finds_the_job(alone: OneServer) -> None:
    alone.changes.wait_until = _crash  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        submit(alone)
    (job_id,) = jobs(alone)
    alone.boot()
    alone.live()
    alone.work()
    assert submit(alone).job_id == job_id


def _crash(*_: Any, **__: Any) -> bool:
    raise StoreUnavailable(reason="the server was killed")


def test_of_two_submits_at_once_one_makes_the_job_and_both_get_it(alone: OneServer) -> None:
    """The second looks for the key before the first stores it, and stores after it."""
    alone.live()
    checked = alone.catalog.check
    answers: list[Any] = []

    def check(module: str, parameters: Any, *, path: str, run: Any = None, **_: Any) -> Any:
        if not answers:
            answers.append(None)
            other = threading.Thread(target=lambda: answers.append(submit(alone)))
            other.start()
            other.join()
        return checked(module, parameters, path=path, run=run)

    alone.catalog.check = check  # type: ignore[method-assign]
    mine = submit(alone)
    assert answers[1] == mine
    assert jobs(alone) == [mine.job_id]
    assert [p.name for p in (alone.home / "jobs").iterdir()] == [mine.job_id]


def test_keys_are_kept_for_a_week(alone: OneServer) -> None:
    alone.live()
    first = submit(alone)
    alone.clock.ms += 6 * DAY_MS
    alone.core.detector.tick()
    with alone.store.read() as tx:
        assert tx.submits.get("k") is not None
    alone.clock.ms += 2 * DAY_MS
    alone.core.detector.tick()
    with alone.store.read() as tx:
        assert tx.submits.get("k") is None
    assert first.job_id
