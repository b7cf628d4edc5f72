"""Real servers, hostile parties: attacks them for a while, and reports what came of it."""

from __future__ import annotations

import secrets
import sys
import tempfile
from datetime import datetime
from pathlib import Path

import click
import pytest

from fedflow.base.clock import SystemClock
from tests.attack.every import ALL
from tests.attack.report import to_text
from tests.attack.run import Result, quiet_per_task, run_all
from tests.attack.scene import scene


@click.command(help=__doc__)
@click.option("--minutes", default=2.0, show_default=True, help="How long attacks are done.")
@click.option("--seed", type=int, help="Of what is sent, and in which order.  [default: a new one]")
@click.option("--only", "names", help="Only these attacks, with commas between them.")
@click.option(
    "--scale",
    default=1.0,
    show_default=True,
    help="How many tries of each: 1 is meant for a machine that is busy.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the report is written, as Markdown.  [default: it is only shown]",
)
def main(
    minutes: float, seed: int | None, names: str | None, scale: float, report: Path | None
) -> None:
    known = {attack.name: attack for attack in ALL}
    chosen = names.split(",") if names else list(known)
    if unknown := set(chosen) - known.keys():
        raise click.UsageError(
            f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    seed = secrets.randbelow(1_000_000) if seed is None else seed

    def say(line: str) -> None:
        click.echo(f"{datetime.now():%H:%M:%S} {line}", err=True)

    say(f"seed {seed}")
    results: list[Result] = []
    texts = []
    for servers in (1, 2):
        attacks = [known[name] for name in chosen if known[name].servers == servers]
        if not attacks:
            continue
        try:
            with (
                tempfile.TemporaryDirectory(prefix="attack-", ignore_cleanup_errors=True) as folder,
                scene(Path(folder), servers=servers) as stage,
            ):
                quiet = quiet_per_task(stage)
                until_s = SystemClock().monotonic_s() + 60 * minutes * len(attacks) / len(chosen)
                found = list(
                    run_all(stage, attacks, seed=seed, scale=scale, until_s=until_s, say=say)
                )
        except pytest.skip.Exception as exc:
            say(f"left out: {', '.join(attack.name for attack in attacks)}: {exc}")
            continue
        results += found
        texts.append(f"servers of 9999: {servers}\n" + to_text(found, seed=seed, quiet=quiet))
    text = "\n\n".join(texts)
    if report is not None:
        report.write_text(text + "\n")
    click.echo(text)
    sys.exit(1 if any(one.violations for one in results) else 0)


if __name__ == "__main__":
    main()
