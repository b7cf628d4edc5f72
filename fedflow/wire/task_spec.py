"""The file that tells a worker what to run: the server writes it, readable for this user only, and
the worker reads it. JSON, one object; `TaskSpec` says its members.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from fedflow.domain.records import TableRecord, TaskKey
from fedflow.domain.site import Site

_Name = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z_-]{1,165}\Z")]
_Absolute = Annotated[str, msgspec.Meta(pattern=r"^/[^\x00]*\Z")]


class ModelInput(msgspec.Struct, frozen=True, kw_only=True):
    """A model of an upstream component, as two plain JSON objects."""

    meta_name: str
    param_name: str
    meta: dict[str, Any]
    param: dict[str, Any]


class CacheInput(msgspec.Struct, frozen=True, kw_only=True):
    """A cache of an upstream component, or of the one that a CacheLoader names."""

    tables: dict[str, TableRecord] = {}
    meta: dict[str, Any] = {}
    private: dict[str, Any] = {}


class TaskInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What upstream components produced: per port [component, table or null], and models."""

    data: dict[str, list[tuple[str, TableRecord | None]]] = {}
    model: dict[str, ModelInput] = {}
    cache: dict[str, CacheInput] = {}


class ProviderSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Where the component comes from, if it does not come with fedflow."""

    name: str
    version: str
    components: str  #: `module:attribute`


class SparkSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The Spark application of the job at this site, which runs the task's heavy work."""

    application: _Absolute  #: its folder, see `spark/application.py`
    tables_uri: str  #: folder that driver and Spark's workers both reach, for tables
    cores: Annotated[int, msgspec.Meta(ge=1)]  #: of all its executors
    partitions: Annotated[int, msgspec.Meta(ge=1)]  #: into which new tables are cut
    small_rows: Annotated[int, msgspec.Meta(ge=0)]  #: tables up to so many stay in the driver
    small_work_s: Annotated[float, msgspec.Meta(ge=0)]  #: so does less work than this, seconds
    wait_s: Annotated[float, msgspec.Meta(gt=0)]  #: longest wait for it, and for its executors


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a component at one site. Members that are not named here are ignored."""

    launch_id: str
    token: str
    job_id: _Name
    component: _Name
    module: str
    task_version: Annotated[int, msgspec.Meta(ge=0)]
    task_id: _Name
    session: str
    site: str
    sites: list[str]
    parameters: dict[str, Any]
    inputs: TaskInputs
    server_socket: _Absolute
    federation_socket: _Absolute
    federation_run: str = ""
    tables_root: _Absolute
    work_dir: _Absolute
    log_dir: _Absolute
    party_log_dir: _Absolute | None = None  #: where all tasks of the site log too
    receive_timeout_s: Annotated[float, msgspec.Meta(gt=0)]
    output_data: list[str] = []
    output_model: list[str] = []
    output_cache: list[str] = []
    cores: Annotated[int, msgspec.Meta(ge=1)] = 1
    memory_bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None
    log_level: str = "INFO"
    launch: Annotated[int, msgspec.Meta(ge=0)] = 0  #: of this attempt at this site, from 0
    elastic: dict[str, Any] | None = None  #: settings of an elastic job
    strict: bool = False  #: a warning fails the task
    has_certificate: bool = False  #: the server can sign for the task
    nn_folder: _Absolute | None = None  #: of the site's own models of HomoNN
    provider: ProviderSpec | None = None
    spark: SparkSpec | None = None  #: None: the task computes on this machine

    @property
    def own_site(self) -> Site:
        return Site.from_key(self.site)

    @property
    def key(self) -> TaskKey:
        return TaskKey(
            job_id=self.job_id,
            component=self.component,
            version=self.task_version,
            site=self.own_site,
        )

    @property
    def output_namespace(self) -> str:
        """Return the namespace of the attempt's output tables. Source: FATE's id formats."""
        return f"output_data_{self.task_id}_{self.task_version}"

    @property
    def cache_namespace(self) -> str:
        """Return the namespace of the tables that the attempt keeps for later jobs."""
        return f"output_cache_{self.task_id}_{self.task_version}"
