"""A private MariaDB of one party, which may be killed, frozen and started again."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql

from tests.e2e.servers import wait_for

START_S = 60.0
NAME = "fedflow"
USER = (
    "fedflow"  #: may do everything with its own database, and write nothing while it is read-only
)


class Database:
    """One `mariadbd` with a folder of its own, where `prefix` starts processes."""

    def __init__(self, folder: Path, *, port: int, prefix: Sequence[str]) -> None:
        self._folder = folder
        self.port = port
        self._prefix = list(prefix)
        self._user = pwd.getpwuid(os.getuid()).pw_name
        self._socket = folder / "socket"
        self._has_user = False
        self.process: subprocess.Popen[bytes] | None = None
        self.crashes = 0  #: how often it ended by itself
        folder.mkdir(parents=True)
        program = shutil.which("mariadb-install-db") or "mysql_install_db"
        subprocess.run(
            [program, "--no-defaults", f"--datadir={folder / 'data'}", f"--user={self._user}",
             "--auth-root-authentication-method=normal"],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, str]:
        """Return the settings of a server that keeps its state here."""
        return {
            "FEDFLOW__DATABASE__ENGINE": "mysql",
            "FEDFLOW__DATABASE__NAME": NAME,
            "FEDFLOW__DATABASE__HOST": "127.0.0.1",
            "FEDFLOW__DATABASE__PORT": str(self.port),
            "FEDFLOW__DATABASE__USER": USER,
            "FEDFLOW__DATABASE__PASSWD": '""',
        }

    def start(self) -> None:
        """Start it and wait until it answers. Raises: AssertionError."""
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self._prefix, "mariadbd", "--no-defaults",
                    f"--datadir={self._folder / 'data'}", f"--user={self._user}",
                    "--bind-address=127.0.0.1", f"--port={self.port}",
                    f"--socket={self._socket}", f"--pid-file={self._folder / 'pid'}",
                    "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M",
                ],
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        wait_for(self._answers, "mariadbd to answer", within_s=START_S)
        if not self._has_user:
            self._execute(f"CREATE USER {USER}@localhost IDENTIFIED BY ''")
            self._execute(f"GRANT ALL ON {NAME}.* TO {USER}@localhost")
            self._has_user = True

    def kill(self) -> None:
        """kill -9."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()

    def revive(self) -> None:
        """Start it again if it ended by itself, as a machine's service manager would."""
        process = self.process
        if process is not None and process.poll() is not None:
            self.crashes += 1
            self.start()

    def stop(self) -> None:
        """End it in good order."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            self.process.wait(START_S)
            self.process = None

    def set_read_only(self, is_read_only: bool) -> None:
        """Let it refuse all writes of the server, or take them again."""
        self._execute(f"SET GLOBAL read_only = {int(is_read_only)}")

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return what a SELECT finds."""
        with self._connection(NAME) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def _execute(self, statement: str) -> None:
        with self._connection(None) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _answers(self) -> bool:
        try:
            self._connection(None).close()
        except pymysql.MySQLError:
            return False
        return True

    def _connection(self, name: str | None) -> Any:
        return pymysql.connect(
            unix_socket=str(self._socket), user="root", database=name, connect_timeout=3
        )
