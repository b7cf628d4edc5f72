"""`fedflow tls`: Certificates for trials."""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from fedflow.base.values import dataclass
from fedflow.cli import session
from fedflow.cli.groups import Nouns
from fedflow.cli.output import Output
from fedflow.rpc.certificates import load_ca, make_ca, make_certificate

_PARTY = re.compile(r"[0-9A-Za-z]{1,32}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PartyFiles:
    """The three PEM files that a party's server needs."""

    party_id: str
    ca: Path
    certificate: Path
    key: Path


@click.group(cls=Nouns)
def command() -> None:
    """Certificates for trials."""


@command.command()
@click.option(
    "--dir",
    "folder",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the files; an existing authority is used again.",
)
@click.option(
    "--party", "parties", multiple=True, required=True, metavar="ID", help="Party id; repeat it."
)
@click.option("--host", "hosts", multiple=True, help="Host name or IP address of the servers.")
@click.option("--days", default=365, show_default=True, type=click.IntRange(1, 3650))
@session.as_json
def create(
    folder: Path, *, parties: tuple[str, ...], hosts: tuple[str, ...], days: int, as_json: bool
) -> None:
    """Create an authority, and a certificate with its key for every party.

    Give each party ca.pem and its own two files, nothing else: whoever has ca.key can speak for
    any party.
    """
    for party in parties:
        if not _PARTY.fullmatch(party):
            raise click.UsageError(f"{party!r} is not a party id")
    made = create_files(folder, parties, hosts=hosts, days=days)
    out = Output(as_json=as_json)

    def text() -> None:
        for files in made:
            out.note(
                f"party {files.party_id}: --tls-ca {files.ca} --tls-cert {files.certificate}"
                f" --tls-key {files.key}"
            )

    out.result(made, text)


def create_files(
    folder: Path, parties: tuple[str, ...], *, hosts: tuple[str, ...] = (), days: int = 30
) -> list[PartyFiles]:
    """Write ca.pem, ca.key, and <party>.pem and <party>.key of every party into `folder`.

    Keys can be read by their owner only. Raises: click.UsageError: a party's file exists already,
    or the folder cannot be written. BadSetting: the authority in the folder cannot be used.
    """
    made = [
        PartyFiles(
            party_id=party,
            ca=folder / "ca.pem",
            certificate=folder / f"{party}.pem",
            key=folder / f"{party}.key",
        )
        for party in parties
    ]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ca, ca_key = folder / "ca.pem", folder / "ca.key"
        if ca.exists():
            authority = load_ca(ca.read_bytes(), ca_key.read_bytes())
        else:
            authority = make_ca("fedflow trial authority", days=days)
            _write(ca_key, authority.key_pem(), mode=0o600)
            _write(ca, authority.certificate, mode=0o644)
        for files in made:
            pair = make_certificate(files.party_id, authority=authority, hosts=hosts, days=days)
            _write(files.key, pair.key, mode=0o600)
            _write(files.certificate, pair.certificate, mode=0o644)
    except OSError as exc:
        raise click.UsageError(f"{exc.filename or folder}: {exc.strerror or exc}") from exc
    return made


def _write(path: Path, content: bytes, *, mode: int) -> None:
    """Write a new file that never had looser rights than `mode`."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
