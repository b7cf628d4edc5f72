"""What the web doors need to know of the server's settings."""

from __future__ import annotations

from dataclasses import field

from fedflow.base.values import dataclass


@dataclass(frozen=True, kw_only=True)
class ClientKeys:
    """The key pair that clients sign their requests with."""

    app_key: str
    secret: str = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class BoardSettings:
    """Who may look at the board."""

    asks: bool = False  #: people sign in; else everybody is an admin
    host_names: tuple[str, ...] = ()  #: that the conf gives this server
    has_tls: bool = False  #: browsers come through a proxy with TLS
    #: tells the cookies of servers on one machine apart, as browsers do not; None: their port does
    cookie_mark: str | None = None


@dataclass(frozen=True, kw_only=True)
class WebSettings:
    """The HTTP doors."""

    board: BoardSettings | None = BoardSettings()  #: None: there is no board
    #: under which it answers unsigned requests, in small letters, beside addresses and localhost
    host_names: frozenset[str] = frozenset()
    client_keys: ClientKeys | None = None  #: None: client requests need no signature
    clock_skew_s: float = 60.0  #: a signed request may be this much older or newer than now
    allow_party_http: bool = False  #: serve party routes over plain HTTP, source unproven
    body_bytes: int = 32 * 1024 * 1024  #: largest body of any request but uploads
    upload_bytes: int = 100 * 1024 * 1024 * 1024  #: largest upload
