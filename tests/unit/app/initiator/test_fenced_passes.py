"""A pass of the scheduler that cannot write: another server leads, or the disk is full."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest

from fedflow.base.errors.start import NotLeading
from fedflow.base.errors.store import StoreUnavailable
from tests.unit.app.fakes import OneServer, conf, dsl


class Fenced:
    """A store that this server may read, but no more write."""

    def __init__(self, store: Any) -> None:
        self.read = store.read

    @contextmanager
    def transaction(self) -> Any:
        raise NotLeading(reason="another one does")
        yield


def test_a_server_that_leads_no_more_ends_its_pass_and_blames_no_job(
    alone: OneServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf(cores=1))[0]
    alone.clock.ms += 10**9  # the job has timed out
    monkeypatch.setattr(alone.core.scheduler, "_store", Fenced(alone.store))
    with pytest.raises(NotLeading):
        alone.core.scheduler.look_at([job_id])
    assert "could not be scheduled" not in caplog.text


class Full(Fenced):
    """A store whose disk is full."""

    @contextmanager
    def transaction(self) -> Any:
        raise StoreUnavailable(reason="the disk is full")
        yield


def test_a_store_that_cannot_be_written_is_a_line_in_the_log_and_no_traceback(
    alone: OneServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = alone.core.submissions.begin(dsl(), conf(cores=1))[0]
    alone.clock.ms += 10**9  # the job has timed out
    monkeypatch.setattr(alone.core.scheduler, "_store", Full(alone.store))
    alone.core.scheduler.look_at([job_id])
    told = next(r for r in caplog.records if "could not be scheduled" in r.getMessage())
    assert "the disk is full" in told.getMessage()
    assert told.exc_info is None
