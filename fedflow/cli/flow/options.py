"""The options of FATE's commands, with the names under which their values are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import click

from fedflow.base.values import dataclass
from fedflow.cli import suggestions
from fedflow.cli.suggestions import Suggest


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One option; its value is known by its long name with underscores."""

    names: tuple[str, ...]
    help: str
    kind: Any = str
    required: bool = False
    default: Any = None
    is_flag: bool = False
    multiple: bool = False
    suggest: Suggest | None = None  #: what a shell offers for it

    @property
    def key(self) -> str:
        """Return the name of its value."""
        longest = next(name for name in self.names if name.startswith("--"))
        return longest.partition("/")[0].strip("-").replace("-", "_")

    def needed(self) -> Option:
        """Return the same option, which must be given."""
        return replace(self, required=True)

    def parameter(self) -> click.Option:
        """Return the option as click takes it."""
        switch = any("/" in name for name in self.names)
        more: dict[str, Any] = {} if self.is_flag or switch else {"type": self.kind}
        if self.default is not None or switch:  # a default, even None, makes an option optional
            more["default"] = self.default
        return click.Option(
            [*self.names, self.key],
            help=self.help,
            required=self.required,
            is_flag=self.is_flag or switch,
            multiple=self.multiple,
            shell_complete=self.suggest,
            **more,
        )


_FILE: Final = click.Path(dir_okay=False)
_FOLDER: Final = click.Path()

JOB: Final = Option(names=("-j", "--job-id"), help="Id of the job.", suggest=suggestions.jobs)
ROLE: Final = Option(names=("-r", "--role"), help="Role: guest, host, arbiter or local.")
PARTY: Final = Option(names=("-p", "--party-id"), help="Party id.", suggest=suggestions.parties)
COMPONENT: Final = Option(
    names=("-cpn", "--component-name"),
    help="Name of the component.",
    suggest=suggestions.components,
)
STATUS: Final = Option(names=("-s", "--status"), help="Status of the job.")
LIMIT: Final = Option(
    names=("-l", "--limit"), kind=int, default=10, help="How many, 10 if left out."
)
CONF: Final = Option(
    names=("-c", "--conf-path"), kind=_FILE, required=True, help="JSON file with the parameters."
)
OUTPUT: Final = Option(names=("-o", "--output-path"), kind=_FOLDER, help="Folder for the files.")
NAMESPACE: Final = Option(
    names=("-n", "--namespace"), help="Namespace of the table.", suggest=suggestions.namespaces
)
TABLE: Final = Option(
    names=("-t", "--table-name"), help="Name of the table.", suggest=suggestions.tables
)
MODEL_ID: Final = Option(
    names=("--model-id",), help="Model id.", required=True, suggest=suggestions.models
)
VERSION: Final = Option(
    names=("--model-version",), help="Model version.", required=True, suggest=suggestions.versions
)
TAG: Final = Option(names=("-t", "--tag-name"), help="Name of the tag.", required=True)
DROP: Final = Option(names=("--drop",), is_flag=True, help="Replace a table of this name.")
CPN_LIST: Final = Option(names=("--cpn-list",), help="Components, separated by commas.")
CPN_PATH: Final = Option(names=("--cpn-path",), kind=_FILE, help="File that lists the components.")

SHARE: Final = (JOB.needed(), ROLE.needed(), PARTY.needed(), COMPONENT.needed())
"""One component of a job at one site."""
FILTERS: Final = (JOB, ROLE, PARTY, STATUS)


def flag(name: str, text: str) -> Option:
    """Return a flag."""
    return Option(names=(name,), is_flag=True, help=text)


def text(*names: str, help: str, required: bool = False, **more: Any) -> Option:
    """Return an option that takes a text."""
    return Option(names=names, help=help, required=required, **more)


def file(*names: str, help: str, required: bool = False) -> Option:
    """Return an option that takes a file."""
    return Option(names=names, help=help, required=required, kind=_FILE)


def whole(*names: str, help: str, default: int | None = None) -> Option:
    """Return an option that takes a whole number."""
    return Option(names=names, help=help, kind=int, default=default)


def parameters(options: Sequence[Option]) -> list[click.Parameter]:
    """Return options as click takes them."""
    return [option.parameter() for option in options]
