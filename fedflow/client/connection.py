"""One server's REST API as calls that return typed values or raise the server's own error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Literal
from urllib.parse import quote, urlsplit

import msgspec
import requests

from fedflow.base.errors import (
    BadSetting,
    ClientError,
    FedflowError,
    InvalidJobSpec,
    NoData,
    Problem,
    ServerNotReachable,
    all_errors,
)
from fedflow.base.settings import LOOPBACK
from fedflow.client.multipart import MultipartFile
from fedflow.client.signing import Signed

Method = Literal["GET", "POST"]

_CONNECT_TIMEOUT_S = 5.0
_UPLOAD_TIMEOUT_S = 600.0  #: after the last byte was sent: the server may still write it to disk
_CHUNK_BYTES = 1 << 20
_NO_DATA = 210  #: FATE's HTTP status for "there is nothing to download"


class Connection:
    """Sends requests to one server and understands its envelope."""

    def __init__(
        self, address: str, *, app_key: str | None, secret: str | None, timeout_s: float
    ) -> None:
        self.address = _url(address)
        self._timeout = (min(_CONNECT_TIMEOUT_S, timeout_s), timeout_s)
        self._session = requests.Session()
        self._session.headers["User-Agent"] = "fedflow-client"
        if urlsplit(self.address).hostname in LOOPBACK:
            self._session.trust_env = False  # no proxy and no .netrc for this very machine
        if bool(app_key) != bool(secret):
            raise BadSetting(path="app_key", reason="app key and secret go together")
        if app_key and secret:
            self._session.auth = Signed(app_key, secret)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        answer: Any,
        command: str,
        method: Method = "POST",
    ) -> Any:
        """Return the envelope's `data` as the type `answer`.

        Raises: ServerNotReachable, ClientError, or the error that the server names.
        """
        envelope = self.envelope(path, body, command=command, method=method)
        return self.typed(envelope.get("data"), answer, command=command)

    def envelope(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        command: str,
        method: Method = "POST",
    ) -> dict[str, Any]:
        """Return the whole envelope of a successful answer, with `retcode`, `data` and `meta`."""
        with self._answer(method, path, command=command, **_json(body)) as response:
            return self._read_envelope(response, command)

    def typed(self, value: Any, answer: Any, *, command: str) -> Any:
        """Return `value` as the type `answer`. Raises: ClientError: it does not fit."""
        try:
            return msgspec.convert(value, answer)
        except msgspec.ValidationError as exc:
            raise self._unexpected(command, f"the answer is not as expected: {exc}") from exc

    def send_file(
        self, path: str, parameters: Mapping[str, Any], body: MultipartFile, *, command: str
    ) -> dict[str, Any]:
        """Send a file with its parameters as JSON in the query; return the envelope.

        Source: reference/flow-rest-api.md section 1.6.
        """
        query = quote(msgspec.json.encode(parameters).decode(), safe="")
        with self._answer(
            "POST",
            f"{path}?{query}",
            command=command,
            timeout_s=_UPLOAD_TIMEOUT_S,
            data=body,
            headers={"Content-Type": body.content_type},
        ) as response:
            return self._read_envelope(response, command)

    def fetch(
        self,
        path: str,
        body: Mapping[str, Any],
        target: IO[bytes],
        *,
        command: str,
        method: Method = "POST",
    ) -> None:
        """Write a download into `target`. Raises: NoData: there is nothing to download."""
        with self._answer(method, path, command=command, stream=True, **_json(body)) as response:
            if _is_json(response) or response.status_code != 200:
                self._read_envelope(response, command)
                raise self._unexpected(command, "the answer is no file")
            for chunk in response.iter_content(_CHUNK_BYTES):
                target.write(chunk)

    def read(self, path: str, body: Mapping[str, Any], *, command: str) -> Any:
        """Return a JSON download, which has no envelope unless it failed."""
        with self._answer("POST", path, command=command, **_json(body)) as response:
            if response.status_code != 200:
                self._read_envelope(response, command)
            value = self._decode(response, command)
            if isinstance(value, dict) and isinstance(value.get("retcode"), int):
                return self._read_envelope(response, command).get("data")
            return value

    def answers(self, path: str) -> bool:
        """Tell whether the server answers a GET of `path` with HTTP 200."""
        try:
            with self._answer("GET", path, command=path) as response:
                return response.status_code == 200
        except (ServerNotReachable, ClientError):
            return False

    def look(self, path: str) -> dict[str, Any]:
        """Return the JSON object of a GET whatever its HTTP status."""
        with self._answer("GET", path, command=path) as response:
            value = self._decode(response, path)
            if not isinstance(value, dict):
                raise self._unexpected(path, "the answer is not a JSON object")
            return value

    # --- the exchange ---------------------------------------------------------------------------

    @contextmanager
    def _answer(
        self,
        method: Method,
        path: str,
        *,
        command: str,
        timeout_s: float | None = None,
        **options: Any,
    ) -> Iterator[requests.Response]:
        """Send a request; translate what can go wrong on the way, also while reading the answer."""
        connect_s, read_s = self._timeout
        timeout = (connect_s, max(read_s, timeout_s or 0.0))
        try:
            with self._session.request(
                method, self.address + path, timeout=timeout, allow_redirects=False, **options
            ) as response:
                yield response
        except requests.ConnectionError as exc:
            raise ServerNotReachable(address=self.address, reason=_reason(exc)) from exc
        except requests.ReadTimeout as exc:
            raise self._unexpected(command, f"no answer within {timeout[1]:g} seconds") from exc
        except requests.Timeout as exc:
            reason = f"no connection within {timeout[0]:g} seconds"
            raise ServerNotReachable(address=self.address, reason=reason) from exc
        except requests.RequestException as exc:
            raise self._unexpected(command, _reason(exc)) from exc

    def _read_envelope(self, response: requests.Response, command: str) -> dict[str, Any]:
        """Return the envelope of a success. Raises: what the server says went wrong."""
        value = self._decode(response, command)
        if not isinstance(value, dict) or not isinstance(value.get("retcode"), int):
            raise self._unexpected(command, f"HTTP {response.status_code} without a return code")
        if value["retcode"] != 0 or response.status_code != 200:
            raise self._refusal(value, response.status_code, command)
        return value

    def _decode(self, response: requests.Response, command: str) -> Any:
        try:
            return msgspec.json.decode(response.content)
        except (msgspec.DecodeError, RecursionError, UnicodeError) as exc:
            reason = f"HTTP {response.status_code} with something that is no JSON"
            raise self._unexpected(command, reason) from exc

    def _refusal(self, envelope: Mapping[str, Any], status: int, command: str) -> FedflowError:
        text = str(envelope.get("retmsg") or "no reason given")
        member = envelope.get("error")
        named = _named(member, text) if isinstance(member, dict) else None
        if named is not None:
            return named
        if status == _NO_DATA:
            return NoData(reason=text)
        return self._unexpected(command, text)

    def _unexpected(self, command: str, reason: str) -> ClientError:
        return ClientError(command=command, address=self.address, reason=reason)


# --- addresses, bodies ----------------------------------------------------------------------------


def _url(address: str) -> str:
    """Return the address as a URL without a path. Raises: BadSetting."""
    text = address if "://" in address else f"http://{address}"
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.path in ("", "/")
        fine = fine and not (parts.query or parts.fragment or parts.username)
        port = parts.port  # raises for what is no port number
    except ValueError:
        fine, port = False, None
    if not fine or port == 0:
        raise BadSetting(path="server", reason=f"{address!r} is not like http://127.0.0.1:9380")
    return f"{parts.scheme}://{parts.netloc}"


def _json(body: Mapping[str, Any] | None) -> dict[str, Any]:
    if body is None:
        return {}
    return {
        "data": msgspec.json.encode(body),
        "headers": {"Content-Type": "application/json"},
    }


def _is_json(response: requests.Response) -> bool:
    return response.headers.get("Content-Type", "").startswith("application/json")


# --- errors -------------------------------------------------------------------------------------


def _named(member: Mapping[str, Any], text: str) -> FedflowError | None:
    """Return the error that a server names, as the class it has here, or None if there is none."""
    kinds = {kind.__name__: kind for kind in all_errors()}
    kind = kinds.get(str(member.get("name")))
    if kind is None:
        return None
    problems = member.get("problems")
    if kind is InvalidJobSpec and isinstance(problems, list):
        return InvalidJobSpec([_problem(p) for p in problems if isinstance(p, dict)])
    error = kind.__new__(kind)  # its constructor would want the fields that only the server knows
    error.fields = {}
    error.message = text.removesuffix(str(member.get("hint", ""))).strip()
    error.args = (error.message,)
    return error


def _problem(member: Mapping[str, Any]) -> Problem:
    return Problem(
        str(member.get("path", "$")), str(member.get("message", "")), str(member.get("rule", ""))
    )


def _reason(exc: BaseException) -> str:
    """Return the system's words for why a connection failed, for example `Connection refused`."""
    seen: set[int] = set()
    pending: list[Any] = [exc]
    while pending:
        one = pending.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, OSError) and one.errno is not None:
            return (one.strerror or os.strerror(one.errno)).lower()
        pending += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return str(exc)
