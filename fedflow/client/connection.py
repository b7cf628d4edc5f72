"""One server's REST API as calls that return typed values or raise the server's own error.

A call that changes nothing, or that the server knows again by its key (`safe`), is sent again when
the connection broke or none could be made, as while a server restarts; any other call is sent once,
because it may have arrived.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final, Literal, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import requests

from fedflow.base.clock import pause
from fedflow.base.decoding import read_as
from fedflow.base.errors.catalog import all_errors
from fedflow.base.errors.data import NoData
from fedflow.base.errors.documents import InvalidJobSpec, Problem
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import ClientError
from fedflow.base.errors.start import BadSetting, ServerNotReachable
from fedflow.base.settings import LOOPBACK
from fedflow.base.values import dataclass
from fedflow.client.multipart import MultipartFile
from fedflow.client.signing import Signed

Method = Literal["GET", "POST"]
T = TypeVar("T")

_CONNECT_TIMEOUT_S = 5.0
_UPLOAD_TIMEOUT_S = 600.0  #: after the last byte was sent: the server may still write it to disk
_CHUNK_BYTES = 1 << 20
_PAUSES_S: Final = (0.1, 0.4)  #: before a safe call is sent again, one per repetition
_NO_DATA = 210  #: FATE's HTTP status for "there is nothing to download"


class Connection:
    """Sends requests to one server and understands its envelope."""

    def __init__(
        self, address: str, *, app_key: str | None, secret: str | None, timeout_s: float,
        repeats: bool = True,
    ) -> None:  # fmt: skip
        self.address = url_of(address)
        self._pauses_s = _PAUSES_S if repeats else ()
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

    def look_up(self, command: str, body: Mapping[str, Any], answer: Any) -> Any:
        """Return `data` of a call that changes nothing, as the type `answer`. Raises: as `ask`."""
        return self.ask(f"/v1/{command}", body, answer=answer, command=command, safe=True)

    def find(self, command: str, body: Mapping[str, Any], row: Any) -> list[Any]:
        """Return FATE's rows that fit as the type `row`.

        Some routes answer a retcode without an error's name if nothing fits: an empty list here.
        """

        def once() -> list[dict[str, Any]]:
            with self._answer("POST", f"/v1/{command}", command=command, **_json(body)) as response:
                value = self._decode(response, command)
                nothing = isinstance(value, dict) and value.get("retcode") in (100, 101)
                if nothing and not value.get("data") and "error" not in value:
                    return []
                return self._read_envelope(response, command).get("data") or []

        found: list[Any] = self.typed(self._repeated(once), list[row], command=command)
        return found

    def do(self, command: str, body: Mapping[str, Any], answer: Any = None) -> Any:
        """Make a call that changes something; return `data` as the type `answer`, None: unread.

        Raises: as `ask`.
        """
        envelope = self.envelope(f"/v1/{command}", body, command=command)
        if answer is None:
            return None
        return self.typed(envelope.get("data"), answer, command=command)

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        answer: Any,
        command: str,
        method: Method = "POST",
        safe: bool = False,
    ) -> Any:
        """Return the envelope's `data` as the type `answer`.

        Raises: ServerNotReachable, ClientError, or the error that the server names.
        """
        envelope = self.envelope(path, body, command=command, method=method, safe=safe)
        return self.typed(envelope.get("data"), answer, command=command)

    def envelope(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        command: str,
        method: Method = "POST",
        safe: bool = False,
    ) -> dict[str, Any]:
        """Return the whole envelope of a successful answer, with `retcode`, `data` and `meta`."""

        def once() -> dict[str, Any]:
            with self._answer(method, path, command=command, **_json(body)) as response:
                return self._read_envelope(response, command)

        return self._repeated(once) if safe or method == "GET" else once()

    def raw(
        self,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        method: Method = "POST",
        content: MultipartFile | None = None,
        query: str = "",
        target: IO[bytes] | None = None,
    ) -> RawAnswer:
        """Send a request and return what came back, whatever the server says.

        `content` is sent instead of `body`; a file that is answered goes to `target`. Raises:
        ServerNotReachable, ClientError: no answer in time.
        """
        options: dict[str, Any] = _json(body)
        if content is not None:
            options = {"data": content, "headers": {"Content-Type": content.content_type}}
            options["timeout_s"] = _UPLOAD_TIMEOUT_S
        full = f"{path}?{query}" if query else path
        with self._answer(method, full, command=path, stream=True, **options) as response:
            disposition = response.headers.get("Content-Disposition", "")
            if target is not None and response.status_code == 200 and disposition:
                for chunk in response.iter_content(_CHUNK_BYTES):
                    target.write(chunk)
                return RawAnswer(status=200, disposition=disposition)
            return RawAnswer(status=response.status_code, text=response.text)

    def typed(self, value: Any, answer: Any, *, command: str) -> Any:
        """Return `value` as the type `answer`. Raises: ClientError: it does not fit."""
        try:
            return read_as(value, answer)
        except msgspec.ValidationError as exc:
            raise self._unexpected(command, f"the answer is not as expected: {exc}") from exc

    def send_file(
        self, path: str, parameters: Mapping[str, Any], body: MultipartFile, *, command: str
    ) -> dict[str, Any]:
        """Send a file with its parameters as JSON in the query; return the envelope.

        Source: docs/reference/rest.md#upload-and-download.
        """
        return self.send_form(f"{path}?{json_query(parameters)}", body, command=command)

    def send_form(self, path: str, body: MultipartFile, *, command: str) -> dict[str, Any]:
        """Send a multipart body; return the envelope."""
        with self._answer(
            "POST",
            path,
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
    ) -> str:
        """Write a download into `target` and return its Content-Disposition.

        Raises: NoData: there is nothing to download.
        """
        with self._answer(method, path, command=command, stream=True, **_json(body)) as response:
            if _is_json(response) or response.status_code != 200:
                self._read_envelope(response, command)
                raise self._unexpected(command, "the answer is no file")
            for chunk in response.iter_content(_CHUNK_BYTES):
                target.write(chunk)
            return response.headers.get("Content-Disposition", "")

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

    def _repeated(self, call: Callable[[], T]) -> T:
        """Make a call that changes nothing; again after a pause if it did not reach a server."""
        for pause_s in self._pauses_s:
            try:
                return call()
            except ServerNotReachable:
                pause(pause_s, threading.Event())
        return call()

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


@dataclass(frozen=True, kw_only=True, slots=True)
class RawAnswer:
    """What a server answered: a text, or nothing because it was a file and was written away."""

    status: int
    text: str = ""
    disposition: str = ""  #: Content-Disposition of the file


# --- addresses, bodies ----------------------------------------------------------------------------


def url_of(address: str) -> str:
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


def json_query(parameters: Mapping[str, Any]) -> str:
    """Return parameters as FATE's upload takes them: JSON, percent-encoded, as the whole query."""
    return quote(msgspec.json.encode(parameters).decode(), safe="")


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
    return kind.repeated(text.removesuffix(str(member.get("hint", ""))).strip())


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
