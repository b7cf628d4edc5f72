"""The client's calls about this party's own data: uploads and tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fedflow.base.errors.data import BadData
from fedflow.client.connection import Connection
from fedflow.client.created_jobs import make_job
from fedflow.client.multipart import MultipartFile, Progress
from fedflow.client.tables import TableCalls
from fedflow.wire.api.jobs import Submitted, Uploaded
from fedflow.wire.api.tables import Preview, TableInfo, Upload


class DataCalls:
    """What can be asked about data."""

    _connection: Connection
    tables: TableCalls

    def upload(
        self,
        path: Path,
        *,
        namespace: str,
        table_name: str,
        head: bool = True,
        partition: int = 4,
        id_delimiter: str = ",",
        drop: bool = False,
        more: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Uploaded:
        """Send a file (CSV, Parquet, Arrow) to the server, which makes a table of it in a job.

        The file is streamed. `head`: its first line names the columns. `drop` replaces a table of
        the same name. `more` are other parameters of FATE's upload (`extend_sid`, `with_meta`,
        `meta`, ...). `progress` is told (bytes sent, bytes in all).

        Raises: BadData: the file cannot be read. TableExists.
        """
        parameters = {
            **(more or {}),
            "file": path.name,
            "namespace": namespace,
            "table_name": table_name,
            "head": int(head),
            "partition": partition,
            "id_delimiter": id_delimiter,
            "drop": int(drop),
            "use_local_data": 1,
        }
        try:
            file = path.open("rb")
        except OSError as exc:
            raise BadData(where=str(path), reason=exc.strerror or str(exc)) from exc
        with file:
            body = MultipartFile(file, name=path.name, progress=progress)
            envelope = self._connection.send_file(
                "/v1/data/upload", parameters, body, command="data/upload"
            )
        found: Uploaded = self._connection.typed(
            {
                "job_id": envelope.get("jobId"),
                "namespace": namespace,
                "table_name": table_name,
                **(envelope.get("data") or {}),
            },
            Uploaded,
            command="data/upload",
        )
        return found

    def upload_history(self, limit: int = 20, *, job_id: str | None = None) -> list[Upload]:
        """Return earlier uploads, newest first, also of tables that are gone; `limit` 0: all."""
        body = {"limit": limit} if job_id is None else {"limit": limit, "job_id": job_id}
        entries: list[dict[str, Upload]] = self._connection.look_up(
            "data/upload/history", body, list[dict[str, Upload]]
        )
        return [
            msgspec.structs.replace(upload, job_id=one)
            for uploads in entries
            for one, upload in uploads.items()
        ]

    def download(
        self, namespace: str, name: str, output_path: str, *, delimiter: str | None = None
    ) -> Submitted:
        """Start the job that writes a table as CSV to a path of the *server's* machine."""
        body = {"namespace": namespace, "table_name": name, "output_path": output_path}
        return make_job(
            self._connection,
            "data/download",
            body if delimiter is None else {**body, "delimiter": delimiter},
        )

    def copy_table(
        self, namespace: str, name: str, *, to_namespace: str, to_name: str, drop: bool = False
    ) -> Submitted:
        """Start the job that copies a table to another name (FATE: writer). Raises: TableExists."""
        body = {
            "namespace": namespace, "table_name": name, "output_namespace": to_namespace,
            "output_name": to_name, "drop": int(drop),
        }  # fmt: skip
        return make_job(self._connection, "data/writer", body)

    def table_info(self, namespace: str, name: str) -> TableInfo:
        """Return what the server knows of a table, also if it does not exist."""
        return self.tables.info(namespace, name)

    def table_preview(self, namespace: str, name: str, *, limit: int = 20) -> Preview:
        """Return the first rows of a table, at most 100. Raises: NoData, TableNotFound."""
        return self.tables.preview(namespace, name, limit=limit)

    def table_delete(self, namespace: str, name: str) -> None:
        """Delete a table and its files. Raises: ClientError: there is no such table."""
        self.tables.delete(namespace, name)
