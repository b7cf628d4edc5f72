"""Reads the file that tells this process what to run; `wire/task_spec.py` says its members."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fedflow.domain.site import Site
from fedflow.wire.task_spec import TaskSpec


class SpecError(ValueError):
    """The spec file cannot be used."""


_DECODER = msgspec.json.Decoder(TaskSpec)  # made once, before the fork: it takes a millisecond


def read_spec(path: Path) -> TaskSpec:
    """Return what the file says. Raises: SpecError: it cannot be read or is not a spec."""
    try:
        spec = _DECODER.decode(path.read_bytes())
        sites = [Site.from_key(key) for key in spec.sites]
        if spec.own_site not in sites:
            raise SpecError(f"{path}: {spec.site} is not one of the component's sites")
        if spec.task_id != spec.key.task_id:
            raise SpecError(f"{path}: the task id is not the job's and component's")
    except SpecError:
        raise
    except OSError as exc:
        raise SpecError(f"{path}: {exc.strerror}") from exc
    except (
        ValueError,
        RecursionError,
    ) as exc:  # msgspec's errors are ValueErrors; so is a bad site
        raise SpecError(f"{path}: {exc}") from exc
    return spec
