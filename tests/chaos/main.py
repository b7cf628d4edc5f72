"""Real servers, real faults: runs parties for a while, hurts them, and reports what came of it."""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
from datetime import datetime
from pathlib import Path
from typing import Literal, NoReturn

import click

from tests.chaos.elastic import run_elastic, scenarios
from tests.chaos.faults import ALL, KILLS
from tests.chaos.namespaces import permitted
from tests.chaos.report import to_json, to_text
from tests.chaos.run import Options, run

MOST_PARTIES = 3  #: without --elastic


@click.command(help=__doc__)
@click.option("--minutes", default=30.0, show_default=True, help="How long faults are done.")
@click.option("--parties", type=click.IntRange(2, 10), default=2, show_default=True)
@click.option(
    "--store",
    type=click.Choice(["sqlite", "mysql"]),
    default="sqlite",
    show_default=True,
    help="mysql: a private MariaDB per party.",
)
@click.option(
    "--network",
    type=click.Choice(["auto", "netns", "proxy"]),
    default="auto",
    show_default=True,
    help="auto: namespaces if they are permitted.",
)
@click.option(
    "--servers",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="Of the first party; 2 need mysql, and use the proxy.",
)
@click.option("--seed", type=int, help="Of faults and jobs.  [default: a new one]")
@click.option(
    "--users",
    type=click.IntRange(1, 32),
    default=4,
    show_default=True,
    help="Jobs under way at a time.",
)
@click.option("--faults", "kinds", help="Only these, with commas between them.")
@click.option(
    "--clock-offset",
    "offset_s",
    default=0.0,
    show_default=True,
    help="Seconds by which the second party's clock is off the whole time.",
)
@click.option(
    "--soak",
    type=click.IntRange(min=1),
    metavar="JOBS",
    help="Only kill processes until so many jobs were accepted.",
)
@click.option("--elastic", is_flag=True, help="Faults at the stages of horizontal trainings.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where report and evidence are written.  [default: a new folder]",
)
def main(
    minutes: float, parties: int, store: str, network: Literal["auto", "netns", "proxy"],
    servers: int, seed: int | None, users: int, kinds: str | None, offset_s: float,
    soak: int | None, elastic: bool, out: Path | None,
) -> None:  # fmt: skip
    if elastic:
        _run_elastic(minutes, max(3, parties), seed)
    if parties > MOST_PARTIES:
        raise click.UsageError(f"only --elastic has more than {MOST_PARTIES} parties")
    chosen = kinds.split(",") if kinds else KILLS if soak else tuple(ALL)
    if unknown := set(chosen) - ALL.keys():
        raise click.UsageError(
            f"no such fault: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}"
        )
    if network == "netns" and not permitted():
        raise click.UsageError("network namespaces need root, iproute2 and /dev/net/tun")
    if servers > 1 and (store != "mysql" or network == "netns"):
        raise click.UsageError("two servers of a party need --store mysql, and no namespaces")
    options = Options(
        seed=secrets.randbelow(1_000_000) if seed is None else seed,
        parties=parties,
        mysql=store == "mysql",
        servers=servers,
        namespaces=network == "netns" or (network == "auto" and servers == 1 and permitted()),
        minutes=24 * 60.0 if soak else minutes,
        users=users,
        offset_s=offset_s,
        kinds={name: ALL[name] for name in chosen},
        jobs=soak,
        say=lambda line: click.echo(f"{datetime.now():%H:%M:%S} {line}", err=True),
    )
    out = out or Path(tempfile.mkdtemp(prefix="fedflow-chaos-"))
    out.mkdir(parents=True, exist_ok=True)
    click.echo(f"seed {options.seed}, report in {out}", err=True)
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        outcome = run(options, Path(folder), evidence=out / "evidence")
    (out / "report.json").write_text(json.dumps(to_json(outcome), indent=1))
    (out / "report.md").write_text(to_text(outcome) + "\n")
    click.echo(to_text(outcome))
    sys.exit(1 if outcome.anomalies else 0)


def _run_elastic(minutes: float, parties: int, seed: int | None) -> NoReturn:
    """Hurt horizontal trainings, and exit with 1 if one did not end as it must."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed

    def say(line: str) -> None:
        click.echo(f"{datetime.now():%H:%M:%S} {line}")

    say(f"seed {seed}, {parties} parties")
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        results = run_elastic(
            scenarios(seed), Path(folder), parties=parties, minutes=minutes, say=say
        )
    wrong = sum(len(one.anomalies) for one in results)
    say(f"{len(results)} scenarios, {wrong} anomalies")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
