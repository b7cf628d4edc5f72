"""`/v1/component/woe_array` over the real use cases and a store in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.models.model import ModelKey
from fedflow.domain.site import Site
from tests.unit.app.fakes import GUEST, HOST, participant
from tests.unit.app.models.test_models import MODEL, MODEL_ID, started
from tests.unit.domain.models.test_woe import ONE, guest, host
from tests.unit.web.test_web_model import Api

EXTRACT, MERGE = "component/woe_array/extract", "component/woe_array/merge"
ARRAYS = {"h_0": {"woeArray": [1.0, 0.0, -1.5]}, "h_1": {"woeArray": [0.25, -0.5]}}


def share(site: Site, **more: Any) -> dict[str, Any]:
    named = {"model_id": MODEL_ID, "model_version": "1", "component_name": "a"}
    return {**named, "role": site.role.value, "party_id": site.party_id, **more}


def trained(folder: Path, param: dict[str, Any], *, name: str = "FeatureBinningParam") -> Api:
    """Return a host's server with the model of one task."""
    api = Api(participant(folder))
    task = started(api.server)
    model = {**MODEL, "meta_name": "FeatureBinningMeta", "param_name": name, "param": param}
    api.server.report(task, "success", model=model)
    api.server.ask("job_stop", task.job, status="success")
    return api


def as_guest(api: Api) -> Api:
    """Let the guest's share hold the model too: the same contents under its key."""
    models = api.server.core.models
    host_key = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
    key = ModelKey(site=GUEST, model_id=MODEL_ID, model_version="1")
    version, components = models.version(host_key), models.components(host_key)
    with api.server.store.transaction() as tx:
        tx.models.put(replace(version, key=key))
        for component in components:
            tx.models.put_component(replace(component, key=key))
    return api


def test_a_guest_extracts_what_its_model_has_of_a_host(tmp_path: Path) -> None:
    api = as_guest(trained(tmp_path, guest(ONE)))
    answer = api.post(EXTRACT, share(GUEST))
    assert (answer["retcode"], answer["data"]) == (0, ARRAYS)
    assert api.post(EXTRACT, share(GUEST, host_party_id=10000))["data"] == ARRAYS


def test_a_host_merges_arrays_into_its_stored_model(tmp_path: Path) -> None:
    api = trained(tmp_path, host())
    models = api.server.core.models
    key = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
    before = models.version(key)
    answer = api.post(MERGE, share(HOST, woe_array=ARRAYS))
    assert (answer["retcode"], answer["data"]) == (0, share(HOST))
    columns = models.load(key, "a").param["binning_result"]["binning_result"]
    assert columns["age"]["woe_array"] == [1.0, 0.0, -1.5]
    [component] = models.components(key)
    after = models.version(key)
    assert after.size_bytes == component.size_bytes > before.size_bytes
    assert api.post(MERGE, share(HOST, woe_array=ARRAYS))["retcode"] == 0
    assert models.components(key) == [component]


def test_what_was_merged_stands_in_the_archive(tmp_path: Path) -> None:
    api = trained(tmp_path, host())
    api.post(MERGE, share(HOST, woe_array=ARRAYS))
    with api.client.post("/v1/model/export", json=share(HOST)) as exported:
        assert api.import_(exported.data, force_update=1).status_code == 200
    key = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
    columns = api.server.core.models.load(key, "a").param["binning_result"]["binning_result"]
    assert columns["pay"]["woe_array"] == [0.25, -0.5]


@pytest.mark.parametrize(
    ("path", "body", "status", "error", "says"),
    [
        (EXTRACT, share(HOST), 400, "WrongWoeArrays", "model of a guest"),
        (MERGE, share(GUEST, woe_array=ARRAYS), 400, "WrongWoeArrays", "model of a host"),
        (MERGE, share(HOST, woe_array={"h_0": {"woeArray": [1]}}), 400, "WrongWoeArrays", "1 num"),
        (MERGE, share(HOST, woe_array=[]), 400, "BadRequest", "woe_array"),
        (MERGE, share(HOST), 400, "MissingArgument", "woe_array"),
        (MERGE, share(HOST, woe_array=ARRAYS, component_name="b"), 404, "ModelComponentNotFound",
         "component b"),
        (MERGE, share(HOST, woe_array=ARRAYS, model_version="2"), 404, "ModelNotFound", "version"),
        (EXTRACT, share(GUEST), 404, "ModelNotFound", "guest"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_changes_nothing(
    path: str, body: Any, status: int, error: str, says: str, tmp_path: Path
) -> None:
    api = trained(tmp_path, host())
    key = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
    before = api.server.core.models.components(key)
    answer = api.client.post(f"/v1/{path}", json=body)
    assert answer.status_code == status
    assert answer.get_json()["error"]["name"] == error
    assert says in answer.get_json()["retmsg"]
    assert api.server.core.models.components(key) == before


def test_another_components_model_is_refused(tmp_path: Path) -> None:
    api = trained(tmp_path, host(), name="OneHotParam")
    answer = api.post(MERGE, share(HOST, woe_array=ARRAYS))
    assert answer["error"]["name"] == "WrongWoeArrays"
    assert "OneHotParam, not FeatureBinningParam" in answer["retmsg"]


def test_a_change_that_comes_between_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = trained(tmp_path, host())
    models = api.server.core.models
    key = ModelKey(site=HOST, model_id=MODEL_ID, model_version="1")
    write, others = models.write, [{"h_0": {"woeArray": [7, 8, 9]}}]

    def interrupted(model: Any) -> Any:
        if others:
            assert api.post(MERGE, share(HOST, woe_array=others.pop()))["retcode"] == 0
        return write(model)

    monkeypatch.setattr(models, "write", interrupted)
    only = {"h_1": ARRAYS["h_1"]}
    assert api.post(MERGE, share(HOST, woe_array=only))["retcode"] == 0
    columns = models.load(key, "a").param["binning_result"]["binning_result"]
    assert columns["age"]["woe_array"] == [7, 8, 9]
    assert columns["pay"]["woe_array"] == [0.25, -0.5]
