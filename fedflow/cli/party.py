"""`fedflow party`: Other parties: can they be reached?"""

from __future__ import annotations

import click

from fedflow.cli import suggestions
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.groups import Nouns
from fedflow.cli.output import moment
from fedflow.cli.session import Session, asks_server
from fedflow.wire.api.parties import Neighbour, PartyInfo, Ping
from fedflow.wire.api.traces import JobTrace


@click.group(cls=Nouns)
def command() -> None:
    """Other parties: can they be reached?"""


@command.command("list")
@asks_server
def list_(at: Session) -> None:
    """Show all other parties: whether they can be reached, and what waits for them."""
    found = at.client.parties.all()
    rows = [
        (n.party_id, _state(n), moment(n.since), moment(n.last_heard), n.waiting,
         moment(n.next_try), _round_trip(n), n.version, n.last_error if n.failures else None)
        for n in found
    ]  # fmt: skip
    at.out.listing(
        found,
        ("party", "state", "since", "last contact", "waiting", "next try", "round trip", "version",
         "last error"),
        rows,
        none="This server knows no other party.",
    )  # fmt: skip


@command.command()
@click.argument("party_id", shell_complete=suggestions.parties)
@asks_server
def show(at: Session, party_id: str) -> None:
    """Show whether calls to one party succeed."""
    found = at.client.parties.get(party_id)
    at.out.result(found, lambda: _facts(at, found))


@command.command()
@click.argument("party_id", shell_complete=suggestions.parties)
@asks_server
def ping(at: Session, party_id: str) -> None:
    """Call a party now and let it call back: tests both directions."""
    found = at.client.parties.ping(party_id)

    def text() -> None:
        at.out.note(f"Party {party_id} can be reached, and reaches this server.")
        _facts(at, found.party)
        _show_lines(at, found)

    def trouble() -> None:
        at.out.note("\n".join(found.broken))
        _show_lines(at, found)

    if found.ok:
        at.out.result(found, text)
        return
    at.out.result(found, trouble)
    raise SystemExit(CliExitCode.ERROR)


@command.command()
@click.argument("party_id", shell_complete=suggestions.parties)
@asks_server
def check(at: Session, party_id: str) -> None:
    """Show what another party's server says about itself, called by this server."""
    found = at.client.parties.check(party_id)
    at.out.result(found, lambda: _show(at, found, f"Party {party_id} answers."))


@command.command()
@click.argument("job_id", shell_complete=suggestions.jobs)
@click.option("--on/--off", "is_on", default=None, help="Record each value from now on, or stop.")
@click.option("--component", help="Only this component.", metavar="NAME")
@asks_server
def trace(at: Session, job_id: str, is_on: bool | None, component: str | None) -> None:
    """Show what a job's executors sent to other parties, received and waited for.

    Counts are always there; single values only while they are recorded. Contents never are.
    """
    found = at.client.job_traces.of(job_id, component)
    if is_on is not None:
        at.client.job_traces.record(job_id, is_on=is_on)
        found = at.client.job_traces.of(job_id, component)
    at.out.result(found, lambda: _trace(at, found, component))


@command.command()
@asks_server
def own(at: Session) -> None:
    """Show what this server sends to other parties about itself."""
    found = at.client.parties.own()
    at.out.result(found, lambda: _show(at, found, ""))


def _facts(at: Session, n: Neighbour) -> None:
    at.out.facts(
        (("party", n.party_id), ("address", n.address), ("state", _state(n)),
         ("since", moment(n.since)), ("last contact", moment(n.last_heard)),
         ("failures in a row", n.failures or None), ("last failure", moment(n.last_failure)),
         ("last error", n.last_error or None), ("next try", moment(n.next_try)),
         ("commands waiting", n.waiting), ("round trip", _round_trip(n)),
         ("protocol", n.protocol), ("version", n.version))
    )  # fmt: skip


def _show_lines(at: Session, found: Ping) -> None:
    """Show whether calls for the own server come over the exchanges that it dials in to."""
    for one in found.dial_in:
        since = f" since {moment(one.since)}" if one.since is not None else ""
        way = f"for this server come over the exchange {one.exchange}{since}"
        if one.connected:
            at.out.note(f"Calls {way}.")
            continue
        tried = f" Last try: {moment(one.last_try)}." if one.last_try is not None else ""
        at.out.note(f"No calls {way}: {one.last_error or 'it has not answered yet'}.{tried}")


def _state(n: Neighbour) -> str:
    """Return the state for people; a party that was never called has none."""
    if n.address is None:
        return "no route"
    if n.last_heard is None and n.last_failure is None:
        return "not called yet"
    words = {"closed": "reachable", "open": "unreachable", "half_open": "being tried"}
    return words.get(n.state, n.state)


def _round_trip(n: Neighbour) -> str | None:
    return None if n.round_trip_ms is None else f"{n.round_trip_ms:.1f} ms"


def _show(at: Session, found: PartyInfo, headline: str) -> None:
    if headline:
        at.out.note(headline)
    at.out.facts(
        (("party", found.party_id), ("version", found.version), ("host", found.host),
         ("HTTP port", found.http_port), ("gRPC port", found.grpc_port))
    )  # fmt: skip


def _trace(at: Session, found: JobTrace, component: str | None) -> None:
    if found.is_on:
        at.out.note("Each value is being recorded.")
    if not found.sessions:
        whose = f"task of {component}" if component else "task of the job"
        at.out.note(f"No {whose} exchanged values here since the server started.")
        return
    at.out.table(
        ("component", "site", "peer", "sent", "bytes", "arrived", "bytes", "receives", "waited s",
         "blocked s"),
        [
            (f"{one.component} {one.version}", one.site, peer.site, peer.sent, peer.sent_bytes,
             peer.arrived, peer.arrived_bytes, peer.receives, f"{peer.receive_s:.3f}",
             f"{peer.send_s:.3f}")
            for one in found.sessions
            for peer in one.peers
        ],
    )  # fmt: skip
    values = [(one, value) for one in found.sessions for value in one.values]
    if values:
        at.out.table(
            ("time", "component", "site", "what", "peer", "name", "tag", "bytes", "waited s"),
            [
                (moment(value.time_ms), one.component, one.site, value.kind, value.site,
                 value.name, value.tag, value.size, f"{value.waited_s:.3f}")
                for one, value in values
            ],
        )  # fmt: skip
