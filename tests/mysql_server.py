"""A private MariaDB for tests, where no server answers.

`python -m tests.mysql_server answers` tells whether one does; `start DIR [OPTION ...]` makes a data
folder below DIR, starts `mariadbd` on a kernel-chosen loopback port and prints its URL; `stop DIR`
ends it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pymysql

_START_S = 60.0


def answers(port: int = 3306) -> bool:
    """Tell whether root may connect at 127.0.0.1:`port` without a password."""
    try:
        pymysql.connect(host="127.0.0.1", port=port, user="root", connect_timeout=3).close()
    except pymysql.MySQLError:
        return False
    return True


def start(folder: Path, *options: str) -> str:
    """Start a server below `folder`, return its URL. Raises: RuntimeError: it does not come up."""
    data = folder / "data"
    user = pwd.getpwuid(os.getuid()).pw_name
    install = shutil.which("mariadb-install-db") or "mysql_install_db"
    subprocess.run(
        [
            install,
            "--no-defaults",
            f"--datadir={data}",
            f"--user={user}",
            "--auth-root-authentication-method=normal",
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                "mariadbd",
                "--no-defaults",
                f"--datadir={data}",
                f"--user={user}",
                "--bind-address=127.0.0.1",
                f"--port={port}",
                f"--socket={folder / 'socket'}",
                f"--pid-file={folder / 'pid'}",
                *options,
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        if answers(port):
            return f"mysql://root@127.0.0.1:{port}/"
        time.sleep(0.2)
    raise RuntimeError(f"mariadbd did not start; see {folder / 'log'}")


def stop(folder: Path) -> None:
    """End the server below `folder` and wait until it is gone."""
    pid_file = folder / "pid"
    if not pid_file.exists():
        return
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and pid_file.exists():
        time.sleep(0.2)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["answers"]:
            sys.exit(not answers())
        case ["start", folder, *options]:
            print(start(Path(folder), *options))
        case ["stop", folder]:
            stop(Path(folder))
        case _:
            sys.exit(__doc__)
