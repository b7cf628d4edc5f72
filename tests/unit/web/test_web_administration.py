"""The routes of administrators, over the real use cases and a store in memory."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from flask.testing import FlaskClient

from fedflow import __version__
from fedflow.app.administration.accounts import Accounts
from fedflow.app.administration.info import Info, Probes, ServerIdentity
from fedflow.app.administration.keys import Keys
from fedflow.app.administration.leadership import Leadership
from fedflow.app.administration.permissions import PermissionRules, Permissions
from fedflow.app.administration.providers import Providers
from fedflow.app.administration.registry import Forwarded, Registry
from fedflow.app.administration.servers import Servers
from fedflow.app.administration.templates import Templates
from fedflow.app.administration_services import Administration
from fedflow.app.initiator.neighbours import Neighbours
from fedflow.app.initiator.preflight import Preflight
from fedflow.app.logs.job_logs import JobLogs
from fedflow.app.logs.lines import LogIndexes
from fedflow.app.protocol.circuit_breakers import CheckedParties, CircuitBreakers
from fedflow.app.protocol.folders import Folders
from fedflow.app.protocol.timing import Timing
from fedflow.app.queries.job_files import JobFiles
from fedflow.base.errors.parties import PartyUnreachable
from fedflow.base.errors.start import BadSetting
from fedflow.base.examples import examples_folder
from fedflow.domain.administration.records import RegisteredServer
from fedflow.domain.administration.servers import Instance
from fedflow.domain.job.engines import OwnEngines
from fedflow.domain.job.spec import ModuleInfo
from fedflow.domain.records import Reply
from fedflow.domain.site import Role, Site
from fedflow.rpc.site_keys import RsaSiteKeys
from fedflow.web.passwords import ScryptPasswords
from tests.memory_store import MemoryStore
from tests.support.providers import MemoryProviders
from tests.unit.web.applications import app_over
from tests.unit.web.conftest import JOB_ID, FixedClock, make_job

BOARD = RegisteredServer(name="FATEBOARD", host="127.0.0.1", port=8080)
PLACE = ServerIdentity(
    host="127.0.0.1", http_port=9380, grpc_host="127.0.0.1", grpc_port=9360, party_id="9999",
    insecure=False,
)  # fmt: skip


MEMORY = MemoryProviders()


class Catalog:
    """Two modules."""

    def modules(self) -> Mapping[str, Any]:
        return {
            name.lower(): ModuleInfo(
                module=name, roles=(Role.GUEST,), data_ports=(), needs_input=False, outputs=()
            )
            for name in ("Reader", "HeteroLR")
        }

    def describe(self) -> list[dict[str, Any]]:
        return [{"module": m.module, "aliases": []} for m in self.modules().values()]

    def packages(self) -> dict[str, str]:
        return {}

    def registered(self) -> Mapping[str, Any]:
        return {p.manifest.name: [p] for p in MEMORY.all()}

    def renew(self) -> None:
        """Nothing is kept."""

    def check(
        self, module: str, parameters: Mapping[str, Any], *, path: str, run: Any = None, **_: Any
    ) -> tuple[()]:
        """Every parameter is good."""
        return ()


class Parties:
    """Party 9999 is here, 10000 answers, 10001 does not."""

    def call(
        self, source: Site | None, destination: str, path: str, body: Any, **_more: Any
    ) -> Reply:
        if destination == "10001":
            raise PartyUnreachable(party_id="10001", address="h:1", reason="connection refused")
        if destination == "10002":
            return Reply(retcode=100, retmsg="No route")
        return Reply(retcode=0, data={"version": "1.11.2", "party_id": destination})

    def knows(self, party_id: str) -> bool:
        return party_id.startswith("1000") or party_id == "9999"

    def is_local(self, party_id: str) -> bool:
        return party_id == "9999"


class Caller:
    """Answers with a page for a browser."""

    content_type = "text/html"

    def call(
        self, server: RegisteredServer, method: str, endpoint: str, body: Mapping[str, Any]
    ) -> Forwarded:
        content = f"{server.name} {method} {endpoint} {dict(body)}".encode()
        return Forwarded(status=201, content=content, content_type=self.content_type)

    def reach(self, server: RegisteredServer) -> None:
        """Every server is up."""


class OnePlace:
    """One server, seen from its routes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = MemoryStore()
        self.caller = Caller()
        self.reload_error: Exception | None = None
        clock, catalog, folders, timing = FixedClock(), Catalog(), Folders(home), Timing()
        self.circuit_breakers = CircuitBreakers(clock=clock, timing=timing, rng=Random(1))
        parties = CheckedParties(Parties(), self.circuit_breakers, clock=clock)
        with self.store.transaction() as tx:
            tx.jobs.add(make_job())
        info = Info(
            store=self.store,
            engines=OwnEngines(),
            probes=Probes(executor_fault=str),
            place=PLACE,
            clock=clock,
        )
        self.permissions = Permissions(
            store=self.store, catalog=catalog, clock=clock, rules=PermissionRules(switch=True)
        )
        administration = Administration(
            accounts=Accounts(
                store=self.store, passwords=ScryptPasswords(), clock=clock, idle_ms=4_000,
                longest_ms=12_000,
            ),
            permissions=self.permissions,
            keys=Keys(
                store=self.store, signer=lambda: RsaSiteKeys(folders.site_key), parties=parties,
                own_party="9999", clock=clock,
            ),
            job_logs=JobLogs(store=self.store, folders=folders, indexes=LogIndexes()),
            providers=Providers(
                catalog, folders=MEMORY, book=MEMORY, host=MEMORY, clock=clock
            ),
            registry=Registry(
                store=self.store, clock=clock, parties=parties, caller=self.caller,
                listed={BOARD.name: BOARD},
            ),
            templates=Templates(examples=examples_folder(), clock=clock),
            job_files=JobFiles(store=self.store, folders=folders),
            neighbours=Neighbours(
                info=info, parties=parties, circuit_breakers=self.circuit_breakers,
                store=self.store,
                routes=lambda: {"10000": "h:1", "10001": "h:2", "default": "exchange:9"},
                preflight=Preflight(
                    parties=parties, circuit_breakers=self.circuit_breakers, clock=clock,
                    timing=timing,
                ),
                call_timeout_s=1.0,
            ),
            call_timeout_s=10.0,
            upload_max_bytes=7,
            read_again=self._read_again,
        )  # fmt: skip
        self.servers = self._server("this", "127.0.0.1:9380", "127.0.0.1:9360")
        services = SimpleNamespace(administration=administration, info=info, servers=self.servers)
        self.client: FlaskClient = app_over(services).test_client()

    def _server(self, name: str, http: str, grpc: str) -> Servers:
        """Let one more server of this party join."""
        own = Instance(
            instance_id=name, host="here", http="", grpc="", version="1", shared_mark="m",
            secret="s",
        )  # fmt: skip
        clock = FixedClock()
        made = Servers(
            own, store=self.store, leadership=Leadership(clock), clock=clock, shared=True
        )
        made.join(http=http, grpc=grpc)
        return made

    def _read_again(self) -> None:
        if self.reload_error is not None:
            raise self.reload_error

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        """Return the envelope of an answer that has HTTP status 200."""
        answer = self.client.post(f"/v1/{path}", json=body)
        assert answer.status_code == 200, answer.data
        found: dict[str, Any] = answer.json
        return found

    def data(self, path: str, **body: Any) -> Any:
        """Return the data of a success."""
        answer = self.post(path, **body)
        assert (answer["retcode"], answer["retmsg"]) == (0, "success"), answer
        return answer.get("data")


@pytest.fixture
def site(tmp_path: Path) -> OnePlace:
    return OnePlace(tmp_path)


# --- permissions ----------------------------------------------------------------------------------


def test_grants_are_given_shown_and_taken_back(site: OnePlace) -> None:
    one = {"name": "g", "namespace": "exp"}
    site.data("permission/grant", party_id=10000, component="reader, HeteroLR", dataset=one)
    site.data("permission/grant", party_id="10000", dataset=[one, {"name": "h", "namespace": "x"}])
    assert site.data("permission/query", party_id=10000) == {
        "component": ["heterolr", "reader"],
        "dataset": [one, {"name": "h", "namespace": "x"}],
    }
    site.data("permission/delete", party_id="10000", component="*", dataset="*")
    assert site.data("permission/query", party_id="10000") == {"component": [], "dataset": []}


def test_what_cannot_be_granted_is_code_100(site: OnePlace) -> None:
    assert site.post("permission/grant", party_id="1", component="nope")["retcode"] == 100
    site.permissions.rules = PermissionRules()
    for route in ("grant", "delete", "grant/privilege", "delete/privilege"):
        body = {"party_id": "1", "src_party_id": "1", "src_role": "guest", "component": "reader"}
        answer = site.post(f"permission/{route}", **body)
        assert (answer["retcode"], answer["error"]["name"]) == (100, "PermissionsOff")


def test_all_tables_are_granted_shown_and_revoked(site: OnePlace) -> None:
    for word in ("all", "*"):
        site.data("permission/grant", party_id="10000", component="reader", dataset="all")
        assert site.data("permission/query", party_id="10000") == {
            "component": ["reader"], "dataset": [{"name": "*", "namespace": "*"}],
        }  # fmt: skip
        site.data("permission/delete", party_id="10000", dataset=word)
        assert site.data("permission/query", party_id="10000")["dataset"] == []


@pytest.mark.parametrize(
    "dataset", ["*", "g", "ALL", "all,g", ["all"], {"name": "g"}, [{"namespace": "n"}], 5]
)
def test_a_table_is_granted_by_name_and_namespace_only(site: OnePlace, dataset: Any) -> None:
    answer = site.post("permission/grant", party_id="1", dataset=dataset)
    assert (answer["retcode"], answer["error"]["name"]) == (101, "BadRequest")


def test_privileges_of_the_older_form_are_lists(site: OnePlace) -> None:
    who = {"src_party_id": 10000, "src_role": "guest"}
    given = {"privilege_role": "host", "privilege_command": "all", "privilege_component": "reader"}
    site.data("permission/grant/privilege", **who, **given)
    assert site.data("permission/query/privilege", **who) == {
        "src_party_id": "10000", "role": "guest", "privilege_role": ["host"],
        "privilege_command": ["create", "stop", "run"], "privilege_component": ["reader"],
    }  # fmt: skip
    site.data("permission/delete/privilege", **who, privilege_command="all", privilege_role="host")
    found = site.data("permission/query/privilege", **who)
    assert (found["privilege_role"], found["privilege_command"]) == ([], [])


# --- keys -----------------------------------------------------------------------------------------


def test_a_partners_key_is_saved_updated_and_deleted(site: OnePlace, tmp_path: Path) -> None:
    pem = RsaSiteKeys(tmp_path / "other.pem").public_pem()
    assert site.data("key/public/save", party_id=10000, key=pem) == "save success"
    assert site.data("key/public/save", party_id="10000", key=pem) == "update success"
    assert site.data("key/query", party_id="10000") == pem
    site.data("key/public/delete", party_id=10000)
    assert "data" not in site.post("key/query", party_id="10000", key_name="public")


def test_the_private_key_is_refused_and_the_public_one_given(site: OnePlace) -> None:
    refused = site.post("key/query", party_id="9999", key_name="private")
    assert (refused["retcode"], refused["error"]["name"]) == (108, "PrivateKeyKept")
    assert "data" not in refused
    assert site.data("key/query", party_id="9999").startswith("-----BEGIN PUBLIC KEY-----")
    assert site.post("key/public/save", party_id="10000", key="x")["error"]["name"] == "BadKey"


# --- components and providers ---------------------------------------------------------------------


def test_components_and_providers_have_fates_shape(site: OnePlace) -> None:
    assert site.data("component/get")["reader"]["default_provider"] == "fate_flow"
    assert site.data("component/heterolr/get")["alias"] == ["HeteroLR"]
    assert "data" not in site.post("component/nope/get")
    found = site.data("provider/get")
    assert found["fate"][__version__]["components"] == ["heterolr"]
    assert site.data("provider/fate/get") == {"fate": found["fate"]}
    assert "data" not in site.post("provider/nope/get")
    assert set(site.data("provider/registry/get")) == {
        "components", "providers", "default_settings",
    }  # fmt: skip


def test_a_provider_is_registered_from_a_folder_and_deleted(site: OnePlace) -> None:
    path = MEMORY.offer("lab", "1.0", {"module": "Mean", "aliases": []})
    answer = site.client.post("/v1/provider/register", json={"path": path})
    added = answer.json["data"]
    assert (added["name"], added["version"], added["components"]) == ("lab", "1.0", ["mean"])
    assert site.data("provider/lab/get")["lab"]["default"] == {"version": "1.0"}
    assert site.post("provider/delete", name="lab", version="1.0")["retcode"] == 0
    assert "data" not in site.post("provider/lab/get")
    answer = site.client.post("/v1/provider/delete", json={"name": "lab", "version": "1.0"})
    assert answer.status_code == 400


def test_packages_of_fate_are_not_registered(site: OnePlace) -> None:
    body = {"name": "fate", "version": "1.11", "path": "/srv/x"}
    answer = site.client.post("/v1/provider/register", json=body)
    assert (answer.status_code, answer.json["error"]["name"]) == (400, "ProviderRefused")
    body["class_path"] = {"interface": "components.components.Components"}
    answer = site.client.post("/v1/provider/register", json=body)
    assert (answer.status_code, answer.json["error"]["name"]) == (501, "NotSupportedYet")


# --- logs, templates, job files -------------------------------------------------------------------


def test_logs_are_read_by_lines_with_addresses_masked(site: OnePlace) -> None:
    folder = site.home / "logs" / JOB_ID / "guest" / "9999"
    folder.mkdir(parents=True)
    (folder / "INFO.log").write_text("a\nfrom 10.0.0.1\nc\n")
    which = {"log_type": "partyInfo", "job_id": JOB_ID, "role": "guest", "party_id": 9999}
    assert site.data("log/size", **which) == {"size": 3}
    assert site.data("log/cat", **which, begin="2", end=2) == [
        {"line_num": 2, "content": "from xxx.xxx.xxx.xxx"}
    ]
    assert site.data("log/size", **which, instance_id="flow-127.0.0.1-9380") == {"size": 3}
    elsewhere = site.client.post("/v1/log/cat", json={**which, "instance_id": "flow-x-1"})
    assert elsewhere.status_code == 404
    assert site.post("log/size", **{**which, "job_id": "none"})["retcode"] == 102


def test_the_template_is_an_archive(site: OnePlace) -> None:
    answer = site.client.post("/v1/template/download", json={"min_data": 1})
    assert answer.status_code == 200
    assert "template.tar.gz" in answer.headers["Content-Disposition"]
    with tarfile.open(fileobj=io.BytesIO(answer.data), mode="r:gz") as tar:
        tops = {name.partition("/")[0] for name in tar.getnames()}
    answer.close()
    assert tops == {"fate_examples", "fateflow_examples"}


def test_only_a_jobs_own_files_are_loaded(site: OnePlace) -> None:
    path = site.home / "jobs" / JOB_ID / "job_dsl.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"components": {}}')
    for route in ("operation/json_conf/load", "worker/config/load"):
        assert site.data(route, config_path=str(path)) == {"components": {}}
        refused = site.post(route, config_path="/etc/passwd")
        assert (refused["retcode"], refused["error"]["name"]) == (101, "FileNotAllowed")


def test_a_jobs_configuration_is_found_or_http_404(site: OnePlace) -> None:
    which = {"job_id": JOB_ID, "role": "guest", "party_id": 9999}
    found = site.data("operation/job_config/get", **which)
    assert set(found) == {"dsl", "runtime_conf", "runtime_conf_on_party", "train_runtime_conf"}
    assert found["dsl"] == make_job().dsl
    for wrong, status in (({"job_id": "x"}, 404), ({"role": "x"}, 400), ({"role": None}, 400)):
        answer = site.client.post("/v1/operation/job_config/get", json={**which, **wrong})
        assert answer.status_code == status


# --- servers, services, forward -------------------------------------------------------------------


def test_servers_are_registered_and_found_under_both_paths(site: OnePlace) -> None:
    site.data("server/hooks/register", host="10.0.0.1", port="81")
    site.data("server/service/market/register", host="m", port=82, protocol="https")
    found = {"host": "10.0.0.1", "port": 81, "protocol": "http"}
    assert site.data("server/Hooks/get") == site.data("server/service/hooks/get") == found
    assert set(site.data("server/get")) == {"HOOKS", "MARKET", "FATEBOARD"}
    assert site.data("server/service/get") == site.data("server/get")
    assert "data" not in site.post("server/nope/get")
    assert site.post("server/x/register", host="a b", port=1)["retcode"] == 103


def test_services_are_registered_in_both_forms(site: OnePlace) -> None:
    site.data("server/hooks/register", host="h", port=81)
    one = {"server_name": "hooks", "service_name": "signature", "uri": "/sign", "method": "POST"}
    assert site.data("service/registry", **one, params={"a": 1}) == {}
    api = {"signature": {"uri": "/s2", "method": "GET", "headers": {"X": "y"}}}
    assert site.data("service/registry", other={"host": "o", "port": 5, "api": api}) == {}
    found = site.data("service/query", service_name="signature")["service_info"]
    assert [(s["f_server_name"], s["f_url"], s["f_method"]) for s in found] == [
        ("HOOKS", "http://h:81/sign", "POST"),
        ("OTHER", "http://o:5/s2", "GET"),
    ]
    asked = {"service_name": "signature", "server_name": "other"}
    assert site.data("service/query", **asked)["service_info"] == found[1:]
    for bad in ({"server_name": "hooks"}, {"x": {"host": 1}}, {**one, "uri": "file:///etc"}):
        assert site.post("service/registry", **bad)["retcode"] in (101, 103)


def test_a_page_of_another_server_cannot_run_as_ours(site: OnePlace) -> None:
    head = {"METHOD": "POST", "ENDPOINT": "/x", "DEST-PARTY-ID": 9999}
    answer = site.client.post("/v1/forward/fateboard", json={"header": head, "body": {"a": 1}})
    assert (answer.status_code, answer.data) == (201, b"FATEBOARD POST /x {'a': 1}")
    assert answer.mimetype == "text/plain"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    site.caller.content_type = "application/json; charset=utf-8"
    headers = {"METHOD": "GET", "ENDPOINT": "/y"}
    answer = site.client.post("/v1/forward/fateboard/do", json={"b": 2}, headers=headers)
    assert (answer.mimetype, answer.data) == ("application/json", b"FATEBOARD GET /y {'b': 2}")


def test_a_server_that_the_conf_does_not_list_is_404_in_band(site: OnePlace) -> None:
    site.data("server/inner/register", host="10.0.0.1", port=80)
    answer = site.post("forward/inner/do", header={"METHOD": "POST", "ENDPOINT": "/x"}, body={})
    assert (answer["retcode"], answer["error"]["name"]) == (404, "ServerNotListed")


# --- this server and its neighbours ---------------------------------------------------------------


def test_this_server_says_who_it_is(site: OnePlace) -> None:
    about = site.data("info/common")
    assert (about["host"], about["http_port"], about["party_id"]) == ("127.0.0.1", 9380, "9999")
    found = site.data("server/fateflow/info")
    assert list(found) == ["flow-127.0.0.1-9380"]
    assert found["flow-127.0.0.1-9380"]["grpc_port"] == 9360
    assert site.data("info/fateboard") == {"host": "127.0.0.1", "port": 8080}
    assert site.client.post("/v1/info/eggroll").status_code == 503
    assert site.data("version/set", federatedId="x") == "x"
    assert set(site.data("version/get", module="PYTHON")) == {"PYTHON", "API"}


def test_the_servers_of_this_party_are_listed_and_one_can_be_drained(site: OnePlace) -> None:
    (only,) = site.data("server/list")
    assert (only["state"], only["leads"], only["is_this"]) == ("up", True, True)
    answer = site.post("server/drain")
    assert (answer["retcode"], answer["error"]["name"]) == (103, "NoOtherServer")
    assert site.data("server/list")[0]["leads"]
    site._server("other", "10.0.0.2:81", "[::1]:91")
    mine, other = site.data("server/drain")
    assert (mine["instance_id"], mine["state"], mine["leads"]) == ("this", "draining", False)
    assert (other["http"], other["grpc"], other["state"]) == ("10.0.0.2:81", "[::1]:91", "up")
    assert "secret" not in mine
    found = site.data("server/fateflow/info")
    assert list(found) == ["flow-127.0.0.1-9380", "flow-10.0.0.2-81"]
    assert found["flow-10.0.0.2-81"]["grpc_port"] == 91


def test_a_party_is_asked_who_it_is(site: OnePlace) -> None:
    assert site.data("info/party/10000")["party_id"] == "10000"
    for party, retcode in (("10001", 104), ("10002", 103), ("777", 104), ("a.b", 101)):
        assert site.post(f"info/party/{party}")["retcode"] == retcode
    assert site.post("info/party/1/2")["error"]["name"] == "NotSupportedYet"


def test_parties_are_listed_with_how_the_calls_to_them_go(site: OnePlace) -> None:
    site.permissions.grant("10005", components=["*"])
    for _ in range(3):
        assert site.post("info/party/10001")["retcode"] == 104
    rows = {row["party_id"]: row for row in site.data("party/list")}
    assert list(rows) == ["10000", "10001", "10005"]
    never, dead, granted = rows.values()
    assert (never["state"], never["last_heard"], never["address"]) == ("closed", None, "h:1")
    assert (dead["state"], dead["failures"]) == ("open", 3)
    assert dead["last_error"] == "h:1: connection refused"
    assert dead["since"] == dead["last_failure"] == clock_ms(site)
    assert granted["address"] == "exchange:9"
    assert site.data("party/list", party_id="10001") == [dead]
    answer = site.client.get("/v1/party/list")
    assert answer.json is not None
    assert answer.json["data"] == list(rows.values())
    assert site.circuit_breakers.opened() == ["10001"]


def clock_ms(site: OnePlace) -> int:
    return site.circuit_breakers._clock.now_ms()


def test_a_ping_names_what_is_broken(site: OnePlace) -> None:
    well = site.data("party/ping", party_id="10000")
    assert (well["broken"], well["party"]["state"]) == ([], "closed")
    [sentence] = site.data("party/ping", party_id="10001")["broken"]
    assert sentence == "9999 cannot reach 10001 at h:1: connection refused"
    [sentence] = site.data("party/ping", party_id="10002")["broken"]
    assert sentence == "10002 does not accept 9999: No route"
    assert site.data("party/ping", party_id="9999")["broken"] == []


@pytest.mark.parametrize(
    ("route", "body", "error"),
    [
        ("party/ping", {}, "MissingArgument"),
        ("party/ping", {"party_id": "../x"}, "BadRequest"),
        ("party/ping", {"party_id": "777"}, "NoRoute"),
        ("party/list", {"party_id": "777"}, "NoRoute"),
        ("party/list", {"party_id": "a b"}, "BadRequest"),
    ],
)
def test_a_party_that_is_none_is_refused(
    site: OnePlace, route: str, body: dict[str, Any], error: str
) -> None:
    assert site.post(route, **body)["error"]["name"] == error
    assert site.circuit_breakers.parties() == []


def test_reloading_answers_the_job_defaults_or_says_what_is_wrong(site: OnePlace) -> None:
    found = site.data("server/reload")
    assert found["server_registry"] is None
    assert found["job_default_config"] == site.data("server/config/job/default")
    assert found["job_default_config"]["task_cores"] == 4
    assert found["job_default_config"]["remote_request_timeout"] == 10_000
    site.reload_error = BadSetting(path="routes.1", reason="no")
    assert site.post("server/reload")["error"]["path"] == "routes.1"
