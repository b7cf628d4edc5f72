"""`flow_sdk` of fate-client 1.11.3, unsigned and signed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.clients.conftest import Deployment
from tests.clients.environments import Environment, Keys
from tests.e2e.jobs import example
from tests.e2e.servers import QUICK, standalone, two_parties

_SCRIPT = """
import json, sys
from flow_sdk.client import FlowClient

ip, port, app_key, secret_key, conf_path, dsl_path, job_id, out = sys.argv[1:9]
keys = {"app_key": app_key, "secret_key": secret_key} if app_key else {}
client = FlowClient(ip, int(port), "v1", **keys)
found = {}
found["versions"] = [client.remote_version.api(), client.remote_version.fate(),
                     client.remote_version.fate_flow()]
found["list"] = client.job.list(limit=2)
found["query"] = client.job.query(job_id=job_id, role="guest", party_id=9999)
found["view"] = client.job.view(job_id=job_id, role="guest", party_id=9999)
found["tasks"] = client.task.query(job_id=job_id, component_name="hetero_lr_0")
found["task_list"] = client.task.list(limit=2)
found["components"] = client.component.list(job_id=job_id)
one = dict(job_id=job_id, role="guest", party_id=9999, component_name="hetero_lr_0")
for name in ("metrics", "metric_all", "parameters", "output_model", "output_data_table",
             "get_summary"):
    found[name] = getattr(client.component, name)(**one)
found["output_data"] = client.component.output_data(**one, output_path=out)
found["log"] = client.job.log(job_id=job_id, output_path=out)
found["info"] = client.table.info(namespace="experiment", table_name="breast_hetero_guest")
found["privileges"] = client.privilege.query(src_party_id=10000, src_role="host")
found["queue"] = client.queue.clean()
found["tag"] = client.tag.create(tag_name="by_sdk")
found["tags"] = client.tag.list(limit=5)
found["untag"] = client.tag.delete(tag_name="by_sdk")
found["submitted"] = client.job.submit(config_data=json.load(open(conf_path)),
                                       dsl_data=json.load(open(dsl_path)))
found["stopped"] = client.job.stop(job_id=found["submitted"].get("jobId"))
print()
print(json.dumps(found))
"""


def run_sdk(deployment: Deployment, job_id: str) -> None:
    client = deployment.guest
    dsl, conf = example(iterations=30)
    keys = client.keys or Keys("", "")
    port = deployment.pair.guest.place.http_port
    paths = (client.file("conf.json", conf), client.file("dsl.json", dsl))
    found = client.python(
        _SCRIPT, "127.0.0.1", port, keys.app_key, keys.secret_key, *paths, job_id, client.cwd
    )
    assert found.pop("versions")[0] == "v1"
    bad = {name: answer for name, answer in found.items() if answer.get("retcode") != 0}
    assert not bad, bad
    assert [row["f_job_id"] for row in found["query"]["data"]] == [job_id]
    assert found["info"]["data"]["count"] == 569
    assert len(found["get_summary"]["data"]["coef"]) == 10


def test_the_sdk_works_without_signatures(deployment: Deployment, job_id: str) -> None:
    run_sdk(deployment, job_id)


KEYS = Keys("bank", "a long secret of the bank")
SIGNED = {
    **QUICK,
    "FEDFLOW__AUTHENTICATION__CLIENT__SWITCH": "true",
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_APP_KEY": KEYS.app_key,
    "FEDFLOW__AUTHENTICATION__CLIENT__HTTP_SECRET_KEY": KEYS.secret_key,
}


@pytest.fixture(scope="module", params=["standalone", "federated"])
def signed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    """Give servers that ask for signatures, and a client that signs."""
    folder = tmp_path_factory.mktemp(f"signed_{request.param}")
    with ExitStack() as stack:
        start = standalone if request.param == "standalone" else two_parties
        pair = stack.enter_context(start(folder, settings=SIGNED))
        work = folder / "work"
        work.mkdir()
        found = Deployment(request.param, pair, Environment("fate-client", work, keys=KEYS))
        found.upload_example()
        yield found


def test_the_sdk_and_the_command_work_with_signatures(signed: Deployment) -> None:
    job_id = signed.submit(*example(iterations=2))
    assert signed.wait(signed.guest, job_id)["f_status"] == "success"
    run_sdk(signed, job_id)
    client = signed.guest
    assert client.ok("server", "versions")["API"] == "v1"
    assert client.flow("queue", "clean")["retcode"] == 0
    assert client.flow("provider", "list")["retcode"] == 0


def test_without_the_right_keys_nothing_is_answered(signed: Deployment) -> None:
    stranger = Environment("fate-client", signed.client.cwd, keys=Keys("bank", "wrong"))
    answer = stranger.at(signed.pair.guest.url).flow("job", "list")
    assert answer["retcode"] == 109
    assert "data" not in answer
    unsigned = Environment("fate-client", signed.client.cwd).at(signed.pair.guest.url)
    assert unsigned.flow("job", "list")["retcode"] == 109
    signed.client.forget()


pytestmark = pytest.mark.timeout(600)
