"""What FATE accepts is accepted with a warning; a strict job is refused for it."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.base.errors.documents import InvalidJobSpec
from fedflow.domain.job.parameters import JobParameters
from fedflow.domain.job.warning import JobWarning
from fedflow.domain.records import JobRecord
from tests.unit.app.fakes import GUEST, HOST, OneServer, conf, dsl

PATH = "$.conf.component_parameters.common"


def doubtful() -> dict[str, Any]:
    """Return a conf with parameters of no component, and doubtful ones of component `a`."""
    return conf(parameters={"common": {"zzz": {"x": 1}, "a": {"doubtful": 1}}})


def stored(server: OneServer, job_id: str) -> list[JobRecord]:
    return [server.job(job_id, site) for site in (GUEST, HOST)]


def test_warnings_are_answered_logged_and_stored(
    alone: OneServer, caplog: pytest.LogCaptureFixture
) -> None:
    alone.live()
    submitted = alone.core.submissions.submit(dsl(a="Step"), doubtful())
    assert submitted.warnings == (
        JobWarning(
            code="UnknownComponentName",
            path=f"{PATH}.zzz",
            message="there is no component of this name in the DSL; this has no effect",
            hint="Correct the name, or take it out.",
        ),
        JobWarning(
            code="NoEffect",
            path=f"{PATH}.a.doubtful",
            message="is not used (at guest 9999, host 10000)",
        ),
    )
    own, other = stored(alone, submitted.job_id)
    assert own.warnings == submitted.warnings
    assert other.warnings == submitted.warnings[:1]  # what that site saw for itself
    logged = [r for r in caplog.records if r.levelname == "WARNING"]
    assert [getattr(r, "job_id", None) for r in logged] == [submitted.job_id] * 2
    assert f"{PATH}.zzz" in logged[0].getMessage()


def test_a_strict_job_is_refused_and_nothing_is_created(alone: OneServer) -> None:
    alone.live()
    with pytest.raises(InvalidJobSpec) as caught:
        alone.core.submissions.submit(dsl(a="Step"), doubtful(), strict=True)
    assert [(p.path, p.rule) for p in caught.value.problems] == [
        (f"{PATH}.zzz", "UnknownComponentName"),
        (f"{PATH}.a.doubtful", "NoEffect"),
    ]
    with alone.store.read() as tx:
        assert tx.schedules.get(caught.value.fields["job_id"]) is None
    assert alone.core.submissions.submit(dsl(a="Step"), conf(), strict=True).warnings == ()


def test_a_server_may_be_strict_where_a_job_says_nothing(alone: OneServer) -> None:
    alone.live()
    alone.core.kernel.specs._defaults = JobParameters(strict=True)
    with pytest.raises(InvalidJobSpec):
        alone.core.submissions.submit(dsl(a="Step"), doubtful())
    lenient = doubtful()
    lenient["job_parameters"]["common"]["strict"] = False
    assert len(alone.core.submissions.submit(dsl(a="Step"), lenient).warnings) == 2


def test_a_draft_is_told_its_warnings_and_as_mistakes_if_it_is_strict(alone: OneServer) -> None:
    alone.live()
    validation = alone.core.submissions.validation
    report = validation.validate(dsl(a="Step"), doubtful())
    assert (len(report.warnings), report.problems) == (2, ())
    strict = doubtful()
    strict["job_parameters"]["common"]["strict"] = True
    report = validation.validate(dsl(a="Step"), strict)
    assert (report.warnings, [p.rule for p in report.problems]) == (
        (),
        ["UnknownComponentName", "NoEffect"],
    )


def test_notes_that_only_inform_refuse_no_strict_job(alone: OneServer) -> None:
    alone.live()
    asked = conf()
    asked["job_parameters"]["common"] |= {"reuse": True, "strict": True}
    first = alone.core.submissions.submit(dsl(a="Step"), asked)
    assert alone.job(first.job_id, GUEST).parameters["strict"] is True
