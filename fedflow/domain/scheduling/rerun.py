"""Which components of an ended job run again.

Source: `docs/reference/jobs.md#rerun`. FATE runs one level of downstream again;
here everything that depends on a new result does, so no component keeps a stale one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from fedflow.domain.job.dag import Dag
from fedflow.domain.records import ScheduledPartyTask, ScheduledTask
from fedflow.domain.site import Site
from fedflow.domain.states import TASK_SUCCEEDED, TaskStatus

WHOLE_JOB: Final = "pipeline"  #: FATE's word for all components


def choose(
    dag: Dag,
    statuses: Mapping[str, TaskStatus],
    *,
    components: Sequence[str] | None,
    force: bool,
    selected: Collection[str] | None = None,
) -> tuple[str, ...]:
    """Return the components that a rerun repeats, in topological order.

    Those that did not succeed, with `force` all; `components` limits them, and adds what these
    still need from upstream. Always with everything downstream. Of what `selected` (None: all)
    leaves out only results that would be stale are made void. Raises: KeyError: an unknown name.
    """
    wanted = list(dag.order)
    if components and WHOLE_JOB not in components:
        wanted = [name for name in components if statuses[name] is not None]
    runs = set(dag.order if selected is None else selected)
    chosen = {
        name for name in wanted if name in runs and (force or statuses[name] not in TASK_SUCCEEDED)
    }
    stack = list(chosen)
    while stack:
        missing = [
            up
            for up in dag.upstream(stack.pop())
            if up not in chosen and statuses[up] not in TASK_SUCCEEDED
        ]
        chosen.update(missing)
        stack.extend(missing)
    chosen.update(
        name
        for name in dag.descendants(*chosen)
        if name in runs or statuses[name] in TASK_SUCCEEDED
    )
    return tuple(name for name in dag.order if name in chosen)


def next_attempt(
    task: ScheduledTask,
    sites: Sequence[Site],
    *,
    epoch: int,
    retries: int = 0,
    infrastructure_retries: int = 0,
) -> ScheduledTask:
    """Return a further attempt of a task, which waits to be started."""
    return ScheduledTask(
        component=task.component,
        version=task.version + 1,
        status=TaskStatus.WAITING,
        parties=tuple(ScheduledPartyTask(site=s, status=TaskStatus.WAITING) for s in sites),
        epoch=epoch,
        retries=retries,
        cache_key=task.cache_key if epoch == task.epoch else None,  # a rerun may change parameters
        infrastructure_retries=infrastructure_retries,
    )
