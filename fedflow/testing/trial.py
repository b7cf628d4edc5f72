"""A component tried on CSV files: all its sites in this process, with tables on disk."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

import fedflow
from fedflow.base.errors.components import ProviderRefused
from fedflow.base.errors.data import BadData
from fedflow.components.registry import ComponentRegistry, load_provider, load_registry
from fedflow.domain.job.missing_modules import unknown_component
from fedflow.domain.site import Site
from fedflow.executor.provider_folder import ProviderFolders
from fedflow.sdk.component import spec_of
from fedflow.sdk.context import Inputs
from fedflow.sdk.outputs import Model
from fedflow.sdk.table import Table, TableKind, TableSchema
from fedflow.tables.local import LocalTableStore
from fedflow.testing.run import RunResult, place_of, run_component
from fedflow.testing.tables import local_store

OUTPUTS = ("data", "data_1", "data_2", "data_3")


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """What is tried."""

    component: Any  #: class or function
    sites: tuple[Site, ...]
    files: Mapping[Site, Mapping[str, Path]]  #: by site and input port
    params: Mapping[Site, Mapping[str, Any]]
    models: Mapping[Site, Mapping[str, Model]] = field(default_factory=dict)  #: as `Inputs.model`
    label: str | None = None  #: column with the label, where a file has it
    raw: bool = False  #: tables hold text, as an upload makes them
    cores: int = 1
    timeout_s: float = 60.0


def find_component(name: str, *, folder: Path | None = None) -> Any:
    """Return a component by module name, or as `module:attribute`; of a provider `folder` if given.

    What is imported is found from the folder, else from where this process runs. Raises:
    UnknownComponent, ModuleNotYet. ProviderRefused: what the name or the folder says cannot be
    imported.
    """
    if folder is not None:
        manifest = ProviderFolders((folder.resolve(),), own=True).read(str(folder.resolve()))
        sys.path.insert(0, manifest.path)
        with _told(manifest.label):
            registry = load_provider(manifest.components)
        if registry.problems:
            raise ProviderRefused(provider=manifest.label, reason="; ".join(registry.problems))
        return _found(name, registry)
    if ":" not in name:
        return _found(name, load_registry())
    sys.path.insert(0, str(Path.cwd()))
    module, _, attribute = name.partition(":")
    with _told(name):
        offered = getattr(importlib.import_module(module), attribute)
        spec_of(offered)
    return offered


def _found(name: str, registry: ComponentRegistry) -> Any:
    """Return a component of a registry. Raises: UnknownComponent, ModuleNotYet."""
    if name.lower() not in registry.offers:
        raise unknown_component(name, registry.names)
    return registry.find(name).factory


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Raises: ProviderRefused: the import did not succeed, with its own error as the cause."""
    try:
        yield
    except (Exception, SystemExit) as exc:
        reason = f"its components cannot be imported: {type(exc).__name__}: {exc}{_place(exc)}"
        raise ProviderRefused(provider=what, reason=reason) from exc


def _place(exc: BaseException) -> str:
    """Return the last line outside of Python and fedflow that an error passed, if there is one."""
    frames = traceback.extract_tb(exc.__traceback__)
    return place_of((frame.filename, frame.lineno or 0) for frame in reversed(frames))


def place_and_traceback(error: BaseException) -> tuple[str, str]:
    """Return where in the author's code an error arose, and its traceback from there on.

    Of an error that did not pass that code the traceback is its sentence.
    """
    start = error.__traceback__
    own = str(Path(fedflow.__file__).parent)
    while start is not None and start.tb_frame.f_code.co_filename.startswith(own):
        start = start.tb_next
    text = traceback.format_exception(type(error), error, start)
    return _place(error), "".join(text)


def run_trial(trial: Trial, folder: Path) -> dict[Site, RunResult]:
    """Return what the run left at each site; tables lie below `folder`.

    Raises: BadData: a file cannot be read. TimeoutError.
    """
    stores = {site: local_store(folder / site.key / "tables") for site in trial.sites}
    ports = sorted({port for files in trial.files.values() for port in files})
    inputs = {}
    for site in trial.sites:
        files = trial.files.get(site, {})
        tables = {
            port: read_file(stores[site], files[port], label=trial.label, raw=trial.raw)
            if port in files
            else None
            for port in ports
        }
        data = {port: [("file", table)] for port, table in tables.items()}
        inputs[site] = Inputs(data=data, model=trial.models.get(site, {}))
    return run_component(
        trial.component,
        sites=trial.sites,
        work_dir=folder,
        params=trial.params,
        inputs=inputs,
        tables=stores,
        cores=trial.cores,
        timeout_s=trial.timeout_s,
        output_names=OUTPUTS,
    )


def read_file(store: LocalTableStore, path: Path, *, label: str | None, raw: bool) -> Table:
    """Return a table of a CSV file whose first column is the id, all others numbers or text.

    Raises: BadData: it is no CSV file, has no rows, or a cell is no number.
    """
    text = csv.ConvertOptions(strings_can_be_null=False)
    try:
        names = csv.open_csv(path).schema.names
        text.column_types = dict.fromkeys(names, pa.string())
        if not raw:
            text.column_types |= dict.fromkeys(names[1:], pa.float64())
        rows = csv.read_csv(path, convert_options=text)
    except (pa.ArrowInvalid, FileNotFoundError, IsADirectoryError) as exc:
        raise BadData(where=str(path), reason=str(exc).splitlines()[0]) from exc
    schema = _schema(names, label=label, raw=raw)
    with store.create(schema) as writer:
        writer.write(rows.select(list(schema.names)))
        return writer.close()


def _schema(names: Sequence[str], *, label: str | None, raw: bool) -> TableSchema:
    first, *others = names
    if raw or label not in others:
        kind = TableKind.RAW if raw else TableKind.INSTANCES
        return TableSchema(kind=kind, id=first, columns=tuple(others))
    columns = tuple(name for name in others if name != label)
    return TableSchema(kind=TableKind.INSTANCES, id=first, label=label, columns=columns)
