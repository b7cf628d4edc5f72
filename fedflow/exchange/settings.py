"""Every setting of an exchange: one frozen tree with defaults, units and ranges.

`parse_exchange_settings` is the only way in. Nothing here reads a file or the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta

from fedflow.base.errors.start import BadExchangeSetting, BadSetting
from fedflow.base.settings import (
    LOOPBACK,
    Log,
    Port,
    SettingsSection,
    Tls,
    check_routes,
    check_tls_files,
    explained_by,
    parse_section,
)
from fedflow.exchange.parties import DIAL_IN
from fedflow.wire.exchange import EXCHANGE


class ExchangeLimits(SettingsSection, frozen=True, kw_only=True):
    """What parties may take."""

    calls: Annotated[int, Meta(ge=8, le=100_000)] = (
        1_024  #: open at once; one party has 3/4 at most
    )
    message_mib: Annotated[int, Meta(ge=9, le=256)] = 16  #: largest message
    #: what one party may send on average, MiB per second; null: any
    mib_per_s: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None


class StatusPort(SettingsSection, frozen=True, kw_only=True):
    """HTTP, for operators and Prometheus: /healthz, /readyz, /metrics."""

    host: str = "127.0.0.1"
    port: Port = 9391  #: 0 = any free port


class ExchangeSettings(SettingsSection, frozen=True, kw_only=True):
    """All settings of an exchange."""

    host: str = "127.0.0.1"  #: address that parties call
    port: Port = 9390  #: 0 = any free port
    tls: Tls = Tls()  #: the common name of the certificate is `exchange`
    #: party id -> host:port of its gRPC listener; several servers: commas between; `dial-in`: it
    #: cannot be called, and keeps connections to the exchange open
    parties: Mapping[str, str] = {}
    #: pairs of parties that may call each other; null: all
    pairs: tuple[tuple[str, str], ...] | None = None
    limits: ExchangeLimits = ExchangeLimits()
    status: StatusPort = StatusPort()
    log: Log = Log()

    @property
    def addresses(self) -> Mapping[str, str]:
        """Return where the parties are that can be called."""
        return {party: at for party, at in self.parties.items() if at != DIAL_IN}


def parse_exchange_settings(values: Mapping[str, Any]) -> ExchangeSettings:
    """Return the settings tree.

    Raises: BadExchangeSetting: with the paths of all unknown keys, or else of the first wrong
    value. NotOverExchange: a party has no address of its own.
    """
    with explained_by(BadExchangeSetting):
        settings = parse_section(_with_text_ids(values), ExchangeSettings)
        _check(settings)
    return settings


def _check(settings: ExchangeSettings) -> None:
    """Refuse what an exchange cannot be. Raises: BadSetting."""
    check_tls_files(settings.tls, "tls")
    if not settings.tls.on:
        raise BadSetting(path="tls", reason="an exchange knows parties by their certificates")
    if len(settings.parties) < 2:
        raise BadSetting(path="parties", reason="name two parties or more")
    check_routes(settings.parties, EXCHANGE, section="parties", or_else=DIAL_IN)
    for pair in settings.pairs or ():
        for party in pair:
            if party not in settings.parties:
                raise BadSetting(path="pairs", reason=f"{party!r} is not among the parties")
    if settings.status.host not in LOOPBACK:
        raise BadSetting(path="status.host", reason="it answers everybody: name a loopback address")


def _with_text_ids(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with party ids as text: YAML reads them as numbers."""
    changed = dict(values)
    parties, pairs = changed.get("parties"), changed.get("pairs")
    if isinstance(parties, Mapping):
        changed["parties"] = {str(party): address for party, address in parties.items()}
    if isinstance(pairs, list):
        changed["pairs"] = [
            [str(one) if type(one) is int else one for one in pair]
            if isinstance(pair, list)
            else pair
            for pair in pairs
        ]
    return changed
