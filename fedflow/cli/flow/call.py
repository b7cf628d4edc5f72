"""One command of the table, done: build the request, send it, keep what comes back."""

from __future__ import annotations

import tempfile
from pathlib import Path

from fedflow.cli.flow.commands import Command
from fedflow.cli.flow.requests import Request, Values
from fedflow.cli.flow.responses import CliResponse, Envelope
from fedflow.client.connection import Connection, RawAnswer, json_query
from fedflow.client.multipart import MultipartFile


def call(connection: Connection, command: Command, values: Values) -> Envelope:
    """Do a command and return what is printed.

    Raises: ServerNotReachable, ClientError; BadDocument: a file of the command line is not right;
        BadData: an archive of the server is not acceptable.
    """
    request = command.build(command.path, values)
    with tempfile.TemporaryDirectory(prefix="fedflow-") as folder:
        target = Path(folder) / "download"
        with target.open("wb") as file:
            if request.upload is not None:
                answer = _send_file(connection, request, request.upload)
            else:
                answer = connection.raw(
                    f"/v1/{request.path}", request.body, method=request.method, target=file
                )
        got = CliResponse(
            request=request,
            values=values,
            answer=answer,
            file=target if answer.disposition else None,
        )
        return command.keep(got)


def _send_file(connection: Connection, request: Request, path: Path) -> RawAnswer:
    fields = {key: str(value) for key, value in request.body.items()} if request.as_form else None
    query = "" if request.as_form else json_query(request.body)
    with path.open("rb") as file:
        body = MultipartFile(file, name=path.name, fields=fields)
        return connection.raw(f"/v1/{request.path}", None, content=body, query=query)
