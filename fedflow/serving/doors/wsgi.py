"""A WSGI application around one function; the two HTTP ports are such applications."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.serving_process import NoSuchServingRoute, TokenNotValid
from fedflow.base.values import dataclass
from fedflow.http.server import Wsgi

logger = logging.getLogger(__name__)

JSON: Final = "application/json"
DOCUMENT: Final = "/openapi.json"
_STATUS: Final = {one.value: f"{one.value} {one.phrase}" for one in HTTPStatus}


def _plain(value: Any) -> Any:
    """Return a number of numpy as one of Python."""
    if hasattr(value, "item"):
        return value.item()
    raise NotImplementedError(f"{type(value).__name__} is no JSON")


_encoder: Final = msgspec.json.Encoder(enc_hook=_plain)


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpCall:
    """A request; its body is read already."""

    method: str
    path: str
    body: bytes
    environ: Mapping[str, Any]

    def header(self, name: str) -> str:
        """Return a header, such as `caseId`; an empty text: there is none."""
        return str(self.environ.get("HTTP_" + name.upper().replace("-", "_"), ""))

    @property
    def content_type(self) -> str:
        """Return the type of the body, without parameters."""
        return str(self.environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()

    def query(self) -> dict[str, str]:
        """Return the parameters of the URL; of several with one name the last."""
        return dict(parse_qsl(self.environ.get("QUERY_STRING", ""), max_num_fields=100))


@dataclass(frozen=True, kw_only=True, slots=True)
class HttpAnswer:
    """A response."""

    status: int = 200
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()  #: beside type and length


def json_answer(value: object, *, status: int = 200) -> HttpAnswer:
    """Return a value as JSON."""
    return HttpAnswer(status=status, body=_encoder.encode(value))


def error_answer(error: FedflowError) -> HttpAnswer:
    """Return an error as FATE writes it, with its HTTP status."""
    return json_answer(
        {"retcode": error.retcode, "retmsg": str(error.message), "hint": error.hint},
        status=error.http,
    )


def application(
    answer: Callable[[HttpCall], HttpAnswer], document: Callable[[], dict[str, Any]]
) -> Wsgi:
    """Return the application; an error of `answer` becomes its response.

    `document` returns the port's OpenAPI document, which everybody may read.
    """

    def answer_all(call: HttpCall) -> HttpAnswer:
        if call.path == DOCUMENT and call.method in ("GET", "HEAD"):
            return json_answer(document())
        return answer(call)

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        found = _answered(answer_all, environ)
        headers = [("Content-Type", found.content_type), ("Content-Length", str(len(found.body)))]
        start_response(_STATUS[found.status], [*headers, *found.headers])
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else found.body]

    return serve


def _answered(answer: Callable[[HttpCall], HttpAnswer], environ: dict[str, Any]) -> HttpAnswer:
    path = str(environ.get("PATH_INFO", "")).encode("latin-1").decode("utf-8", "replace")
    try:
        body = environ["wsgi.input"].read()
        method = environ["REQUEST_METHOD"]
        return answer(HttpCall(method=method, path=path, body=body, environ=environ))
    except FedflowError as exc:
        return error_answer(exc)
    except Exception:
        logger.exception("A request failed", extra={"action": "request_failed"})
        return json_answer({"retcode": 110, "retmsg": "internal error"}, status=500)


def no_route(call: HttpCall) -> NoSuchServingRoute:
    """Return the error of a request that no port's routes have."""
    return NoSuchServingRoute(method=ascii(call.method)[1:-1][:16], path=ascii(call.path)[:200])


def check_token(call: HttpCall, token: str | None) -> None:
    """Raises: TokenNotValid: a token is asked for, and the request has not got it."""
    if token is None:
        return
    given = call.header("Authorization").encode("utf-8", "surrogateescape")
    if not hmac.compare_digest(given, f"Bearer {token}".encode()):
        raise TokenNotValid
