"""Wires the use cases of administrators, and puts reloaded settings in force."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from fedflow.app.administration.accounts import Accounts
from fedflow.app.administration.keys import Keys
from fedflow.app.administration.modules import Modules
from fedflow.app.administration.providers import Providers
from fedflow.app.administration.registry import Registry
from fedflow.app.administration.templates import Templates
from fedflow.app.administration_services import Administration
from fedflow.app.core import Core
from fedflow.app.initiator.neighbours import Neighbours
from fedflow.app.logs.job_logs import JobLogs
from fedflow.app.logs.lines import LogIndexes
from fedflow.app.ports.components import ProviderHost, ProviderRegistry
from fedflow.app.queries.job_files import JobFiles
from fedflow.base.errors.start import BadSetting
from fedflow.base.examples import examples_folder
from fedflow.base.public_settings import shown_settings
from fedflow.base.settings import Settings
from fedflow.base.values import dataclass
from fedflow.domain.administration.records import RegisteredServer
from fedflow.executor.provider_folder import ProviderFolders
from fedflow.federation.settings import MIB
from fedflow.rpc.client.http import HttpServers
from fedflow.rpc.client.routes import RouteTable
from fedflow.server.adapters import permission_rules, routes_of
from fedflow.web.passwords import ScryptPasswords


@dataclass(frozen=True, kw_only=True, slots=True)
class Neighbourhood:
    """What the use cases of administrators need of the rest of the server."""

    core: Core
    modules: Modules
    provider_book: ProviderRegistry
    provider_host: ProviderHost
    keys: Keys
    routes: RouteTable
    neighbours: Neighbours


def build_administration(
    settings: Settings, given: Neighbourhood, *, reread: Callable[[], Settings] | None
) -> Administration:
    """Return the use cases; `reread` returns the settings as the conf has them now."""
    core, kernel = given.core, given.core.kernel
    store, folders, clock = kernel.store, kernel.folders, kernel.clock
    registry = Registry(
        store=store,
        clock=clock,
        parties=core.parties,
        caller=HttpServers(),
        listed=listed_servers(settings),
    )
    in_force = [settings]

    def read_again() -> None:
        if reread is not None:
            in_force[0] = _put_in_force(settings, reread(), given, registry)

    return Administration(
        accounts=Accounts(
            store=store,
            passwords=ScryptPasswords(),
            clock=clock,
            idle_ms=int(settings.board.session_idle_s * 1000),
            longest_ms=int(settings.board.session_s * 1000),
        ),
        permissions=core.permissions,
        keys=given.keys,
        job_logs=JobLogs(store=store, folders=folders, indexes=LogIndexes()),
        providers=Providers(
            given.modules,
            folders=ProviderFolders(
                (
                    folders.providers,
                    *(Path(f) for f in settings.provider.allowed_folders),
                )
            ),
            book=given.provider_book,
            host=given.provider_host,
            clock=clock,
        ),
        registry=registry,
        neighbours=given.neighbours,
        templates=Templates(examples=examples_folder(), clock=clock),
        job_files=JobFiles(store=store, folders=folders),
        call_timeout_s=settings.scheduling.call_timeout_s,
        upload_max_bytes=settings.upload.max_mib * MIB,
        read_again=read_again if reread is not None else None,
        settings=lambda: shown_settings(in_force[0]),
    )


def listed_servers(settings: Settings) -> dict[str, RegisteredServer]:
    """Return the servers of the conf by upper-case name."""
    return {
        name.upper(): RegisteredServer(
            name=name.upper(), host=one.host, port=one.port, protocol=one.protocol
        )
        for name, one in settings.servers.items()
    }


def _put_in_force(
    old: Settings, new: Settings, given: Neighbourhood, registry: Registry
) -> Settings:
    """Use new routes, permissions and servers; return what is in force now.

    Raises: BadSetting: a restart is needed.
    """
    if new.party_id != old.party_id:
        raise BadSetting(path="party_id", reason="it changes with a restart only")
    given.routes.replace(routes_of(msgspec.structs.replace(new, tls=old.tls)))
    given.core.permissions.rules = permission_rules(new)
    registry.listed = listed_servers(new)
    return msgspec.structs.replace(
        old,
        routes=new.routes,
        partners=new.partners,
        permission=new.permission,
        servers=new.servers,
    )
