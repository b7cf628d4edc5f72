"""Where a site computes its party job: on its server's machine, or on its Spark cluster.

The choice is made when a site accepts a job (and again for a rerun, which may change parameters),
and stored with it (`JobRecord.engine`); everything later reads it there: what the party job
takes, from which engine, and whether its tasks get a Spark application.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fedflow.base.errors.executors import EngineMissing
from fedflow.base.values import dataclass
from fedflow.domain.site import Role, Site

if TYPE_CHECKING:  # a worker reads records, which name an engine, and parses no conf
    from fedflow.domain.job.conf import Conf
    from fedflow.domain.job.parameters import JobParameters

STANDALONE: Final = "STANDALONE"  #: processes of the server's machine
SPARK: Final = "SPARK"

SECTIONS: Final = {STANDALONE: "fate_on_standalone.standalone", SPARK: "fate_on_spark.spark"}
"""Where the conf of a server says what its engines have."""

_KEY: Final = "computing_engine"
_NEVER_SPARK: Final = frozenset({Role.ARBITER, Role.LOCAL})
"""An arbiter has no rows, only keys and sums; a local job moves data and models, and computes
nothing. So neither needs the cluster, nor is a party without one kept from being an arbiter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnEngines:
    """What the server of a site has."""

    default: str = STANDALONE  #: for jobs that do not say
    spark: bool = False  #: there is a cluster

    @property
    def names(self) -> tuple[str, ...]:
        """Return the engines, this machine first."""
        return (STANDALONE, SPARK) if self.spark else (STANDALONE,)

    def at(self, site: Site, parameters: JobParameters) -> str:
        """Return the engine of a party job at one of this server's sites.

        EGGROLL and LINKIS_SPARK are not engines of this version: the default is used for them.
        """
        if site.role in _NEVER_SPARK:
            return STANDALONE
        asked = parameters.computing_engine
        return asked if asked in (STANDALONE, SPARK) else self.default

    def check(self, conf: Conf, site: Site, parameters: JobParameters) -> None:
        """Raises: EngineMissing: the job asks for an engine that this server does not have."""
        engine = self.at(site, parameters)
        if engine not in self.names:
            raise EngineMissing(path=_path(conf, site), engine=engine, where=str(site))


def _path(conf: Conf, site: Site) -> str:
    """Return where the conf says on which engine a site computes."""
    layers = conf.job_parameters.with_paths(site.role, conf.index_of(site), "job_parameters")
    naming = [path for path, values in layers if values.get(_KEY) is not None]
    return f"{(naming or [layers[0][0]])[-1]}.{_KEY}"
