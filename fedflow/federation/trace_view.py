"""Traces of sessions as people see them."""

from __future__ import annotations

from collections.abc import Mapping

from fedflow.federation.session import SessionKey
from fedflow.federation.trace import Trace
from fedflow.wire.api.traces import JobTrace, PeerTraffic, SessionTrace, TracedValue


def view_of(traces: Mapping[SessionKey, Trace], *, is_on: bool) -> JobTrace:
    """Return traces, which may still change meanwhile, in the order of their components."""
    return JobTrace(
        sessions=tuple(_session(key, traces[key]) for key in sorted(traces, key=_order)),
        is_on=is_on,
    )


def _order(key: SessionKey) -> tuple[str, str]:
    return key[0], key[1].key


def _session(key: SessionKey, trace: Trace) -> SessionTrace:
    name, site = key
    component, _, version = name.partition("_")[2].rpartition("_")
    return SessionTrace(
        component=component,
        version=int(version) if version.isdecimal() else 0,
        site=site.key,
        is_on=trace.is_on,
        peers=tuple(
            PeerTraffic(
                site=peer.key,
                sent=of.sent,
                sent_bytes=of.sent_bytes,
                arrived=of.arrived,
                arrived_bytes=of.arrived_bytes,
                receives=of.receives,
                receive_s=of.receive_s,
                send_s=of.send_s,
            )
            for peer, of in trace.peers.copy().items()
        ),
        values=tuple(
            TracedValue(
                time_ms=int(record.time_s * 1000),
                kind=record.kind,
                site=record.site.key,
                name=record.name,
                tag=record.tag,
                size=record.size,
                waited_s=record.waited_s,
            )
            for record in trace.records.copy()
        ),
    )
