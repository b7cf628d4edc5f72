"""The times that scheduling goes by, as one value. Seconds and milliseconds as the names say."""

from __future__ import annotations

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """How long things may take; the conf has keys for what people may want to change."""

    create_timeout_ms: int = 10_000  #: all sites must have accepted a job within this time
    lease_ms: int = 60_000  #: a silent party is lost after this time
    heartbeat_ms: int = 5_000  #: pause between two heartbeats to a party
    watched_heartbeat_ms: int = 1_000  #: the same while somebody watches a job
    collect_ms: int = 500  #: the same while a job's status is collected there (PULL)
    call_timeout_s: float = 10.0  #: deadline of one call to another party
    preflight_timeout_s: float = 3.0  #: all parties of a job must have answered within this time
    retry_base_ms: int = 50  #: first pause before a command is sent again; doubles each time
    retry_cap_ms: int = 5_000  #: longest pause before a command is sent again
    denied_base_ms: int = 100  #: first pause before cores are asked for again; doubles each time
    denied_cap_ms: int = 2_000  #: longest pause before cores are asked for again
    starving_after_ms: int = 300_000  #: a job that waits for longer goes before all others
    final_deadline_ms: int = (
        7 * 86_400_000
    )  #: how long the end of a job is sent to a party that is away
    launch_grace_ms: int = 5_000  #: a launch without a process is repeated after this time
    stop_grace_s: float = 3.0  #: pause between SIGTERM and SIGKILL
    received_keep_ms: int = 86_400_000  #: how long replies to requests are kept
    submit_key_keep_ms: int = 7 * 86_400_000  #: how long idempotency keys of submits are kept
    hold_limit_ms: int = 7 * 86_400_000  #: a job that is held for longer times out
    stop_wait_s: float = 5.0  #: how long a stop request waits for the end before it answers
