"""Names of headers, in HTTP and inside a packet.

Both spellings, `src_party_id` and `SRC-PARTY-ID`, mean the same.
Source: `docs/reference/packets.md#headers`, `docs/reference/rest.md#client-signature`,
`docs/reference/rest.md#site-signature`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FATE_VERSION: Final = "1.11.2"  #: whose formats we speak; FATE refuses a sender below 1.7.0
API_VERSION: Final = "v1"
SERVICE: Final = "fateflow"  #: the service name of FATE's proxies

# between parties
USER_AGENT: Final = "USER-AGENT"
SERVICE_NAME: Final = "SERVICE"
SOURCE_VERSION: Final = "SRC-FATE-VER"
SOURCE_PARTY: Final = "SRC-PARTY-ID"
DESTINATION_PARTY: Final = "DEST-PARTY-ID"
SOURCE_ROLE: Final = "SRC-ROLE"
SITE_SIGNATURE: Final = "SITE-SIGNATURE"  #: of the body, with the sending party's key
REQUEST_ID: Final = "X-FEDFLOW-REQUEST-ID"  #: ours: a repeat of a request is recognised by it
PROTOCOL: Final = "X-FEDFLOW-PROTOCOL"  #: ours: what the sender of a call speaks
ANSWER_PROTOCOL: Final = "X-FEDFLOW-ANSWER-PROTOCOL"  #: ours: what the one who answers speaks

# from an executor to its own server
TASK_TOKEN: Final = "X-Fedflow-Task-Token"  # noqa: S105  #: ours: the secret of a task attempt

# from a client that signs its requests
TIMESTAMP: Final = "TIMESTAMP"  #: milliseconds since the epoch, decimal
NONCE: Final = "NONCE"
APP_KEY: Final = "APP-KEY"  #: clients send `APP_KEY`
SIGNATURE: Final = "SIGNATURE"

UNDERSCORED: Final = ("APP_KEY",)
"""Names that clients send with an underscore; the HTTP server must not drop them."""


def plain_name(name: str) -> str:
    """Return a header name as we compare it: upper case, with hyphens."""
    return name.upper().replace("_", "-")


def plain_names(headers: Mapping[str, str]) -> dict[str, str]:
    """Return headers under names as we compare them."""
    return {plain_name(name): value for name, value in headers.items()}


def party_headers(
    *, source: str, destination: str, source_role: str, request_id: str | None,
    protocol: str | None = None,
) -> dict[str, str]:  # fmt: skip
    """Return the headers of a call from one party to another; `protocol` as in `wire/versions.py`.

    A call without a request id changes nothing at the receiver, so its repeat needs no answer from
    the store.
    """
    headers = {
        USER_AGENT: f"{SERVICE}/{FATE_VERSION}",
        SERVICE_NAME: SERVICE,
        SOURCE_VERSION: FATE_VERSION,
        SOURCE_PARTY: source,
        DESTINATION_PARTY: destination,
        SOURCE_ROLE: source_role,
    }
    if request_id:
        headers[REQUEST_ID] = request_id
    if protocol is not None:
        headers[PROTOCOL] = protocol
    return headers
