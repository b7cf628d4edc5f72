"""The admin API of a party's serving processes, as the Flow server uses it.

Source: docs/serving.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import requests

from fedflow.app.ports.serving import BindOptions, ServingProcessState, ServingReply, TriedReply
from fedflow.client.serving_states import UNANSWERED, base_url, first_answer, read_states
from fedflow.wire.deployed_model import DeployedModel

UNREACHABLE: Final = 100  #: FATE's code of a serving that does not answer
NO_ANSWER: Final = "it does not answer"

_CONNECT_S: Final = 3.0
_ANSWER_S: Final = 30.0  #: of a step; preparing builds and tests a model
_MOST_BYTES: Final = 64 << 10  #: of an answer


class HttpServingServers:
    """Satisfies `app.ports.serving.ServingServers`."""

    def __init__(self, addresses: Sequence[str], *, token: str | None) -> None:
        """`addresses` are `host:port` or URLs of admin ports."""
        self._addresses = addresses
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def prepare(
        self, load_id: str, share: DeployedModel, sample: Mapping[str, str] | None
    ) -> list[ServingReply]:
        body = {"load_id": load_id, "share": msgspec.to_builtins(share), "sample": sample}
        return self._each("POST", "loads", body)

    def commit(self, load_id: str) -> list[ServingReply]:
        return self._each("POST", f"loads/{quote(load_id, safe='')}/commit")

    def abort(self, load_id: str) -> list[ServingReply]:
        return self._each("POST", f"loads/{quote(load_id, safe='')}/abort")

    def unload(self, model_id: str, model_version: str, load_id: str) -> list[ServingReply]:
        version = quote(model_version, safe="")
        query = urlencode({"model_id": model_id, "load_id": load_id})
        return self._each("DELETE", f"models/{version}?{query}")

    def bind(
        self, service_id: str, model_id: str, model_version: str, how: BindOptions
    ) -> list[ServingReply]:
        version = {"model_id": model_id, "model_version": model_version}
        body: dict[str, Any] = {
            "service_id": service_id,
            **version,
            "weight": how.weight,
            "shadow": how.shadow,
        }
        if how.rules is not None:
            body["rules"] = [{**version, **rule} for rule in how.rules]
        if how.options is not None:
            body["options"] = how.options
        replies = []
        for address in self._addresses:
            reply = self._ask(address, "POST", "bindings", body)
            replies.append(reply)
            if reply.salt:  # so users have the same version at all processes
                body["salt"] = reply.salt
        return replies

    def roll_back(self, service_id: str) -> list[ServingReply]:
        return self._each("POST", f"bindings/{quote(service_id, safe='')}/rollback")

    def unbind(self, service_id: str) -> list[ServingReply]:
        return self._each("DELETE", f"bindings/{quote(service_id, safe='')}")

    def states(self) -> list[ServingProcessState]:
        return read_states(self._addresses, self._headers)

    def tried(
        self, service_id: str, features: Mapping[str, Any], ids: Mapping[str, Any]
    ) -> TriedReply:
        return first_answer(self._addresses, self._headers, service_id, features, ids)

    def _each(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> list[ServingReply]:
        given = {} if body is None and method == "POST" else body  # a POST has a JSON body
        return [self._ask(address, method, path, given) for address in self._addresses]

    def _ask(
        self, address: str, method: str, path: str, body: Mapping[str, Any] | None
    ) -> ServingReply:
        try:
            with requests.Session() as session:
                url = base_url(address, session)
                response = session.request(
                    method,
                    f"{url}/admin/v1/{path}",
                    json=body,
                    headers=self._headers,
                    timeout=(_CONNECT_S, _ANSWER_S),
                    allow_redirects=False,
                    stream=True,
                )
                with response:
                    content = response.raw.read(_MOST_BYTES + 1, decode_content=True)
        except UNANSWERED:
            return ServingReply(address=address, retcode=UNREACHABLE, retmsg=NO_ANSWER)
        return _reply(address, response.status_code, content)


def _reply(address: str, status: int, content: bytes) -> ServingReply:
    """Return what an answer says; one that cannot be read is no success."""
    try:
        answer = msgspec.json.decode(content) if len(content) <= _MOST_BYTES else None
    except msgspec.DecodeError:
        answer = None
    said = answer if isinstance(answer, dict) else {}
    retcode, retmsg = said.get("retcode"), said.get("retmsg")
    if type(retcode) is not int or not isinstance(retmsg, str) or (status != 200) == (not retcode):
        reason = f"it is no serving process: HTTP {status}"
        return ServingReply(address=address, retcode=UNREACHABLE, retmsg=reason)
    data = said.get("data")
    salt = data.get("salt") if isinstance(data, dict) else None
    return ServingReply(
        address=address,
        retcode=retcode,
        retmsg=retmsg[:1_000],
        salt=salt if isinstance(salt, str) else "",
    )
