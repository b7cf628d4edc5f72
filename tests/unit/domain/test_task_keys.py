"""Names of tasks and of their sessions: no two attempts share one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from fedflow.base.ids import PartyId, is_job_id
from fedflow.domain.records import TaskKey
from fedflow.domain.site import Role, Site
from fedflow.wire.paths import fits

SITE = Site(Role.GUEST, PartyId("9999"))
JOB_IDS = st.sampled_from(["2" * 20, "2" * 21, "2" * 24, "2" * 24 + "0", "2" * 23 + "10"])
COMPONENTS = st.from_regex(r"[0-9_a-]{1,6}", fullmatch=True)
KEYS = st.builds(
    lambda job_id, component, version: TaskKey(
        job_id=job_id, component=component, version=version, site=SITE
    ),
    JOB_IDS, COMPONENTS, st.integers(0, 30),
)  # fmt: skip


def _key(job_id: str, component: str, version: int) -> TaskKey:
    return TaskKey(job_id=job_id, component=component, version=version, site=SITE)


@given(KEYS, KEYS)
@example(_key("2" * 24, "int_0", 0), _key("2" * 24, "int", 0))
@example(_key("2" * 24, "0_1", 0), _key("2" * 24, "0", 10))
def test_two_attempts_have_one_session_only_if_they_are_one(one: TaskKey, other: TaskKey) -> None:
    assert is_job_id(one.job_id)
    assert fits("component", one.component)
    assert (one.session == other.session) == (one == other)
    same_task = (one.job_id, one.component) == (other.job_id, other.component)
    assert (one.task_id == other.task_id) == same_task
