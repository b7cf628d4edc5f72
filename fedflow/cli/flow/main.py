"""The program `flow`: its commands, made of the table, and its exit status.

It prints one JSON document, FATE's envelope. The exit status is 0 if its `retcode` is 0 (FATE's
client: always 0; `FEDFLOW_FLOW_EXIT_ZERO=1` restores that), else as in `exit_codes`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from fedflow import __version__
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.requests import BadDocument
from fedflow.cli.connecting import connect
from fedflow.cli.exit_codes import CliExitCode
from fedflow.cli.flow.commands import COMMANDS, NOUNS, Command
from fedflow.cli.flow.minimal import DATA_TYPES, MinParties, run_min
from fedflow.cli.flow.options import parameters, text, whole
from fedflow.cli.flow.toy import run_toy
from fedflow.cli.groups import Nouns, exit_code_of, run_program
from fedflow.cli.output import clean
from fedflow.cli.stored import Stored, forget_stored, from_conf, write_stored
from fedflow.client.client import Client

EXIT_ZERO: Final = "FEDFLOW_FLOW_EXIT_ZERO"


class Flow(Nouns):
    """The root group: ends the process with an exit status."""

    def main(self, *args: Any, **extra: Any) -> Any:
        options = {"prog_name": "flow", **extra, "standalone_mode": False}
        code = run_program(lambda: super(Flow, self).main(*args, **options))
        sys.exit(CliExitCode.OK if os.environ.get(EXIT_ZERO) == "1" else code)


@click.group(cls=Flow, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flow")
def cli() -> None:
    """FATE Flow's commands, for a fedflow server; `fedflow` has the same in better words."""


@cli.command()
@click.option("-c", "--server-conf-path", type=click.Path(path_type=Path), help="service_conf.yaml")
@click.option("--ip", help="Address of the server.")
@click.option("--port", type=click.IntRange(1, 65535), help="Its HTTP port.")
@click.option("--app-key", help="App key to sign with.")
@click.option("--secret-key", help="Secret key to sign with.")
@click.option("--reset", is_flag=True, help="Delete what was stored before.")
def init(
    server_conf_path: Path | None, ip: str | None, port: int | None, app_key: str | None,
    secret_key: str | None, reset: bool,
) -> None:  # fmt: skip
    """Store where the server is, and the keys to sign with, for `flow` and `fedflow`."""
    _answer(lambda: _init(server_conf_path, ip, port, app_key, secret_key, reset=reset))


def _init(
    conf: Path | None, ip: str | None, port: int | None, app_key: str | None, secret: str | None,
    *, reset: bool,
) -> dict[str, Any]:  # fmt: skip
    if reset:
        forget_stored()
    if conf is not None:
        from_conf(conf)
        write_stored(Stored(server_conf_path=str(conf.expanduser().absolute())))
    elif ip is not None and port is not None:
        if bool(app_key) != bool(secret):
            raise BadDocument(where="flow init", reason="app key and secret key go together")
        write_stored(Stored(ip=ip, port=port, app_key=app_key, secret_key=secret))
    elif not reset:
        raise BadDocument(where="flow init", reason="give --ip and --port, or -c with a conf")
    return {"retcode": 0, "retmsg": "Fate Flow CLI has been initialized successfully."}


# --- the table ------------------------------------------------------------------------------------


def _command(command: Command) -> click.Command:
    """Return a command of the table as click runs it."""

    def run(**values: Any) -> None:
        _answer(lambda: _call(command, values))

    return click.Command(
        command.verb, params=parameters(command.options), callback=run, help=command.help
    )


def _call(command: Command, values: Mapping[str, Any]) -> dict[str, Any]:
    from fedflow.cli.flow.call import call

    with connect(None) as client:
        return call(client.connection, command, values)


def _answer(do: Callable[[], Mapping[str, Any]]) -> None:
    """Print what a command answers; an error as FATE's clients know it.

    Raises: click.exceptions.Exit: it did not succeed.
    """
    try:
        answer = do()
    except FedflowError as exc:
        _refuse(exc)
    except BrokenPipeError:
        raise
    except OSError as exc:  # a file of this machine
        where = f"{exc.filename}: " if exc.filename else ""
        _print({"retcode": 100, "retmsg": f"{where}{exc.strerror or exc}"}, CliExitCode.ERROR)
    else:
        _print(answer, CliExitCode.OK if answer.get("retcode") == 0 else CliExitCode.ERROR)


def _refuse(error: FedflowError) -> NoReturn:
    """Print an error as an envelope. Raises: click.exceptions.Exit."""
    answer = {
        "retcode": error.retcode,
        "retmsg": f"{error.message} {error.hint}",
        "error": {"code": error.code, "name": error.name, "hint": error.hint},
    }
    _print(answer, exit_code_of(error))
    raise AssertionError("an error ends with an exit code that is not 0")


def _print(answer: Mapping[str, Any], code: CliExitCode) -> None:
    click.echo(clean(json.dumps(answer, indent=4, ensure_ascii=False)))
    if code is not CliExitCode.OK:
        raise click.exceptions.Exit(code)


# --- trials ---------------------------------------------------------------------------------------


def _toy(guest_party_id: str, host_party_id: str, timeout: int, task_cores: int) -> None:
    _try(
        lambda client: run_toy(
            client, guest_party_id, host_party_id, timeout_s=timeout, cores=task_cores, say=_say
        )
    )


def _min(
    data_type: str, guest_party_id: str, host_party_id: str, arbiter_party_id: str, *, sbt: bool
) -> None:
    parties = MinParties(guest=guest_party_id, host=host_party_id, arbiter=arbiter_party_id)
    _try(lambda client: run_min(client, parties, data_type, trees=sbt, say=_say))


def _try(trial: Callable[[Client], bool]) -> None:
    """Run a trial. Raises: click.exceptions.Exit: it did not go well."""
    try:
        with connect(None) as client:
            done = trial(client)
    except FedflowError as exc:
        _refuse(exc)
    if not done:
        raise click.exceptions.Exit(CliExitCode.JOB_FAILED)


def _say(line: str) -> None:
    click.echo(clean(line))


_GUEST = text("-gid", "--guest-party-id", help="Party id of the guest.", required=True)
_HOST = text("-hid", "--host-party-id", help="Party id of the host.", required=True)
_TRIALS = (
    click.Command(
        "toy",
        params=parameters(
            (_GUEST, _HOST, whole("--timeout", help="Longest wait in seconds.", default=300),
             whole("--task-cores", help="Cores of the job.", default=2))
        ),
        callback=_toy,
        help="Add two secret numbers between two parties.",
    ),
    click.Command(
        "min",
        params=[
            click.Option(["-t", "--data-type"], type=click.Choice(DATA_TYPES), default="fast",
                         help="Tables breast_hetero_*, or default_credit_hetero_*."),
            click.Option(["--sbt/--no-sbt"], default=True, help="Also SecureBoost."),
            *parameters(
                (_GUEST, _HOST,
                 text("-aid", "--arbiter-party-id", help="Party id.", required=True))
            ),
        ],
        callback=_min,
        help="Train models between three parties, predict with them, and compare their AUC.",
    ),
)  # fmt: skip


def _build() -> None:
    groups = {name: Nouns(name, help=text_) for name, text_ in NOUNS.items()}
    for command in COMMANDS:
        groups[command.noun].add_command(_command(command))
    for trial in _TRIALS:
        groups["test"].add_command(trial)
    for group in groups.values():
        cli.add_command(group)


_build()


def main() -> None:
    """Run the program; the console script `flow` calls it."""
    cli.main()


if __name__ == "__main__":
    main()
