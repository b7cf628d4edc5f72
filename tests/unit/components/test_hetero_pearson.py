"""HeteroPearson against numpy: within a party, across parties under encryption, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.base.errors.error import FedflowError
from fedflow.components.pearson import products
from fedflow.components.pearson.correlation import correlations, inflation_factors, standardize
from fedflow.components.pearson.hetero_pearson import HeteroPearson
from fedflow.components.samples.alignment import ids_digest
from fedflow.components.waiting import PATIENCE_S
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Outputs
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.testing.federation import LocalFederation, SiteFederation
from fedflow.testing.memory_tables import MemoryTableStore
from fedflow.testing.run import RunResult, outputs_of, run_component

GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
HOST_2 = Site(Role.HOST, "10001")  # type: ignore[arg-type]
DATA = Path(__file__).parents[3] / "examples" / "data"
QUICK: dict[str, Any] = {"column_indexes": -1, "fixpoint_bit_length": 1024}


def party(seed: int, columns: int, *, rows: int = 90) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)) * 5 + 3
    shared = np.linspace(-1, 1, rows)[:, None] * rng.normal(size=columns) * 5
    values = mixed + shared
    ids = [f"u{i}" for i in range(rows)]
    return {"id": ids, **{f"x{i}": values[:, i] for i in range(columns)}}


def results(
    data: dict[Site, dict[str, Any] | pa.Table],
    path: Path,
    *,
    params: dict[Site, dict[str, Any]] | None = None,
    **others: Any,
) -> dict[Site, RunResult]:
    tables = {site: MemoryTableStore().add(columns) for site, columns in data.items()}
    inputs = {s: Inputs(data={"data": [("i_0", t)]}, model={}) for s, t in tables.items()}
    given = {site: QUICK | (params or {}).get(site, {}) for site in data}
    return run_component(
        HeteroPearson, sites=list(data), work_dir=path, params=given, inputs=inputs, **others
    )


def matrix(columns: dict[str, Any] | pa.Table, names: list[str] | None = None) -> Any:
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    names = names or [name for name in table.column_names if name.startswith("x")]
    return np.column_stack([table.column(name).to_numpy() for name in names])


def expected(guest: Any, host: Any) -> Any:
    both = np.corrcoef(guest, host, rowvar=False)
    return both[: guest.shape[1], guest.shape[1] :]


def test_both_parties_of_the_example_get_what_numpy_says(tmp_path: Path) -> None:
    data: dict[Site, Any] = {
        site: pyarrow.csv.read_csv(DATA / f"breast_hetero_{site.role.value}.csv")
        for site in (GUEST, HOST)
    }
    found = results(data, tmp_path)
    outputs = outputs_of(found)
    cross = expected(matrix(data[GUEST]), matrix(data[HOST]))
    for site, output in outputs.items():
        assert output.data == ()
        assert np.allclose(output.summary["corr"], cross, rtol=0, atol=1e-9)
        assert np.array_equal(output.summary["corr"], outputs[GUEST].summary["corr"])
        local = np.corrcoef(matrix(data[site]), rowvar=False)
        assert np.allclose(output.summary["local_corr"], local, rtol=0, atol=1e-12)
        assert found[site].metrics["statistic", "correlation"].metric_type == "CORRELATION_GRAPH"
        assert found[site].progress[-1] == 1.0
    assert outputs[GUEST].summary["num_local_features"] == 10
    assert outputs[GUEST].summary["num_remote_features"] == 20
    assert outputs[GUEST].summary["corr"][0][0] == pytest.approx(0.969539, abs=1e-6)
    assert outputs[GUEST].summary["corr"][0][1] == pytest.approx(0.352573, abs=1e-6)
    published = [137.2402, 1.2452, 137.144, 38.2426, 2.182, 11.4717, 7.0522, 10.8103, 1.7316]
    model = outputs[GUEST].model
    assert model is not None
    assert model.param["local_vif"] == pytest.approx([*published, 5.3482], abs=5e-5)


@pytest.mark.parametrize(("guest", "host"), [(1, 1), (3, 20), (20, 3), (17, 17)])
def test_any_numbers_of_columns_and_blocks_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guest: int, host: int
) -> None:
    monkeypatch.setattr(products, "ROWS_PER_BLOCK", 40)
    data: dict[Site, Any] = {GUEST: party(1, guest), HOST: party(2, host)}
    outputs = outputs_of(results(data, tmp_path))
    cross = expected(matrix(data[GUEST]), matrix(data[HOST]))
    for output in outputs.values():
        assert np.allclose(output.summary["corr"], cross, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("guest", "host"), [(2, 3), (20, 1)])
def test_nobody_gets_more_than_ten_digits(tmp_path: Path, guest: int, host: int) -> None:
    """Who multiplies knows its noise: lower digits would show it the exact sums."""
    data: dict[Site, Any] = {GUEST: party(1, guest), HOST: party(2, host)}
    for output in outputs_of(results(data, tmp_path)).values():
        found = np.array(output.summary["corr"])
        assert np.array_equal(found, found.round(10))


def test_the_model_has_fates_fields_and_no_foreign_names(tmp_path: Path) -> None:
    host = {"id": party(2, 1)["id"], "secret_a": party(2, 1)["x0"], "secret_b": party(3, 1)["x0"]}
    data = {GUEST: party(1, 3), HOST: host}
    params: dict[Site, dict[str, Any]] = {
        GUEST: {"column_indexes": [2], "column_names": ["x0"]},
        HOST: {"column_indexes": [], "column_names": ["secret_b"]},
    }
    outputs = outputs_of(results(data, tmp_path, params=params))
    model = outputs[GUEST].model
    assert model is not None
    assert (model.meta_name, model.meta) == ("HeteroPearsonModelMeta", {"shapes": [2, 1]})
    assert model.param_name == "HeteroPearsonModelParam"
    cross = expected(matrix(data[GUEST], ["x0", "x2"]), matrix(host, ["secret_b"]))
    assert model.param["corr"] == pytest.approx(cross.ravel().tolist(), abs=1e-8)
    assert len(model.param["local_corr"]) == 4
    assert {k: v for k, v in model.param.items() if not k.endswith(("corr", "vif"))} == {
        "party": "('guest', 9999)",
        "parties": ["('guest', 9999)", "('host', 10000)"],
        "shape": 2,
        "shapes": [2, 1],
        "names": ["x0", "x2"],
        "all_names": [{"names": ["x0", "x2"]}, {"names": ["host_10000_x1"]}],
        "anonymous_map": [
            {"anonymous": "guest_9999_x0", "name": "x0"},
            {"anonymous": "guest_9999_x2", "name": "x2"},
        ],
        "model_name": "HeteroPearson",
    }
    assert "secret" not in json.dumps([model.param, outputs[GUEST].summary], allow_nan=False)
    of_host = outputs[HOST].model
    assert of_host is not None
    assert of_host.param["all_names"] == [
        {"names": ["guest_9999_x0", "guest_9999_x2"]},
        {"names": ["secret_b"]},
    ]
    assert of_host.param["local_vif"] == pytest.approx([1.0])


def test_without_the_other_party_hosts_may_be_many(tmp_path: Path) -> None:
    data: dict[Site, Any] = {GUEST: party(1, 2), HOST: party(2, 2), HOST_2: party(3, 4)}
    alone: dict[str, Any] = {"cross_parties": False, "calc_local_vif": False}
    params = {GUEST: alone | {"need_run": False}, HOST: alone, HOST_2: alone}
    outputs = outputs_of(results(data, tmp_path, params=params))
    assert outputs[GUEST].passed
    model = outputs[HOST_2].model
    assert model is not None
    assert model.param["corr"] == model.param["local_vif"] == []
    assert model.param["shapes"] == [4]
    assert set(outputs[HOST].summary) == {"num_local_features", "local_corr"}


def test_with_its_model_it_does_nothing(tmp_path: Path) -> None:
    data: dict[Site, Any] = {HOST: party(2, 2)}
    alone = {HOST: {"cross_parties": False}}
    model = outputs_of(results(data, tmp_path, params=alone))[HOST].model
    assert model is not None
    table = MemoryTableStore().add(data[HOST])
    inputs = Inputs(data={"test_data": [("i_0", table)]}, model={"hetero_pearson_0": model})
    again = run_component(
        HeteroPearson, sites=[HOST], work_dir=tmp_path, params={HOST: QUICK}, inputs={HOST: inputs}
    )
    assert outputs_of(again) == {HOST: Outputs()}


def test_inflation_factors_are_those_of_regressions() -> None:
    values = matrix(party(5, 4))
    found = inflation_factors(correlations(standardized(values)))
    for index in range(4):
        others = np.column_stack([np.delete(values, index, axis=1), np.ones(len(values))])
        rest = np.linalg.lstsq(others, values[:, index])[1][0]
        spread = np.var(values[:, index]) * len(values)
        assert found[index] == pytest.approx(spread / rest, rel=1e-8)


def test_a_column_that_is_a_sum_of_others_has_a_finite_factor() -> None:
    values = matrix(party(5, 2))
    values = np.column_stack([values, values.sum(axis=1)])
    factors = inflation_factors(correlations(standardized(values)))
    assert np.all(np.abs(factors) < 100)


def standardized(values: Any) -> Any:
    columns = [standardize(column, name="x", where="") for column in values.T]
    return np.column_stack(columns)


def test_columns_far_from_1_are_standardized() -> None:
    values = matrix(party(5, 2))
    for scale in (1e-300, 1.0, 1e300):
        assert np.allclose(standardized(values * scale), standardized(values))


def test_values_close_to_each_other_are_standardized() -> None:
    low = 0.1
    for _ in range(20):
        low, high = np.nextafter(low, 1.0) * 1.7, np.nextafter(np.nextafter(low, 1.0) * 1.7, 9e9)
        found = standardize(np.array([low] * 9 + [high]), name="x", where="")
        assert found == pytest.approx([-1 / 3] * 9 + [3.0])


def test_what_takes_long_to_compute_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: dict[str, float | None] = {}
    original = SiteFederation.recv

    def noting(self: SiteFederation, name: str, **more: Any) -> Any:
        waited[name] = more.get("timeout_s")
        return original(self, name, **more)

    monkeypatch.setattr(SiteFederation, "recv", noting)
    results({GUEST: party(1, 2), HOST: party(2, 3)}, tmp_path)
    assert waited.pop("pearson_columns") is None
    steps = {"sample_ids", "paillier_pubkey", "standardized", "inner_products", "correlations"}
    assert waited.keys() == steps
    assert set(waited.values()) == {PATIENCE_S}


def refused(kind: type[FedflowError], found: dict[Site, RunResult]) -> str:
    errors = [r.error for r in found.values()]
    mine = [e for e in errors if isinstance(e, kind)]
    assert mine, errors
    assert all(isinstance(e, kind | PeerFailed) for e in errors)
    return str(mine[0])


def test_constant_and_missing_values_are_refused(tmp_path: Path) -> None:
    data: dict[Site, Any] = {GUEST: party(1, 2), HOST: party(2, 2)}
    data[HOST]["x1"] = np.full(90, 7.25)
    message = refused(BadData, results(data, tmp_path))
    assert "'x1'" in message
    assert "90 rows" in message
    assert "7.25" not in message
    data[HOST]["x1"] = np.where(np.arange(90) == 5, np.nan, party(2, 2)["x1"])
    assert "1 missing" in refused(BadData, results(data, tmp_path))


def test_too_few_rows_for_the_others_columns_are_refused(tmp_path: Path) -> None:
    data: dict[Site, Any] = {GUEST: party(1, 2, rows=20), HOST: party(2, 10, rows=20)}
    assert "20 common rows are too few for 10" in refused(BadData, results(data, tmp_path))


def test_other_rows_are_refused(tmp_path: Path) -> None:
    data: dict[Site, Any] = {GUEST: party(1, 2), HOST: party(2, 2)}
    data[HOST]["id"] = data[HOST]["id"][::-1]
    assert "order" in refused(BadData, results(data, tmp_path))


def test_across_parties_there_is_one_host(tmp_path: Path) -> None:
    data: dict[Site, Any] = {GUEST: party(1, 2), HOST: party(2, 2), HOST_2: party(3, 4)}
    assert "exactly one host" in refused(BadParameter, results(data, tmp_path))


@pytest.mark.parametrize(
    "params",
    [
        {"column_indexes": []},
        {"column_indexes": None},
        {"column_indexes": [4]},
        {"column_indexes": [], "column_names": ["y"]},
        {"fixpoint_bit_length": 512},
    ],
)
def test_wrong_parameters_are_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    alone = {"cross_parties": False}
    found = results({GUEST: party(1, 2)}, tmp_path, params={GUEST: alone | params})
    refused(BadParameter, found)


NAMES = {"names": ["a", "b"], "key_length": 1024}


def answer_of_the_guest(path: Path, messages: dict[str, Any]) -> Exception | None:
    """Return how the guest, with one column, ends when the host sends `messages` (name: value).

    The host has two columns, so it owns the key.
    """
    guest = party(1, 1)
    fed = LocalFederation((GUEST, HOST), receive_timeout_s=60.0)
    host = fed.at(HOST)
    ids = {"rows": 90, "digest": ids_digest(pa.chunked_array([guest["id"]]))}
    host.send("sample_ids", ids, to=GUEST, tag="pearson")
    for name, value in messages.items():
        host.send(name, value, to=GUEST, tag="0.0" if name == "standardized" else "")
    fed.finish(HOST)
    data: dict[Site, Any] = {GUEST: guest, HOST: party(2, 2)}
    return results(data, path, federation=fed, only=[GUEST])[GUEST].error


@pytest.mark.parametrize(
    "value",
    [
        None,
        NAMES | {"names": []},
        NAMES | {"names": ["a", "a"]},
        NAMES | {"names": ["a" * 501]},
        NAMES | {"names": [1]},
        NAMES | {"key_length": 512},
        NAMES | {"key_length": 10**6},
        NAMES | {"key_length": "2048"},
    ],
)
def test_what_is_no_description_of_columns_is_refused(tmp_path: Path, value: object) -> None:
    assert isinstance(answer_of_the_guest(tmp_path, {"pearson_columns": value}), CodecError)


@pytest.mark.parametrize(
    "value",
    [
        np.full((1, 2), 1.1),
        np.full((1, 2), np.nan),
        np.zeros((2, 1)),
        np.zeros((1, 2), dtype=np.float32),
        [[0.0, 0.0]],
    ],
)
def test_what_are_no_correlations_is_refused(tmp_path: Path, value: object) -> None:
    key = PrivateKey.generate(1024).public
    messages = {
        "pearson_columns": NAMES,
        "paillier_pubkey": {"n": hex(int(key.n))},
        "standardized": key.to_bytes(key.encrypt([0] * 90)),
        "correlations": value,
    }
    assert isinstance(answer_of_the_guest(tmp_path, messages), CodecError)


def test_a_short_key_and_a_wrong_number_of_ciphertexts_are_refused(tmp_path: Path) -> None:
    short, key = PrivateKey.generate(512).public, PrivateKey.generate(1024).public
    messages = {"pearson_columns": NAMES, "paillier_pubkey": {"n": hex(int(short.n))}}
    assert isinstance(answer_of_the_guest(tmp_path, messages), CodecError)
    messages |= {
        "paillier_pubkey": {"n": hex(int(key.n))},
        "standardized": key.to_bytes(key.encrypt([0] * 89)),
    }
    assert isinstance(answer_of_the_guest(tmp_path, messages), CodecError)


def test_the_key_owner_sees_no_exact_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs on the same data differ in digits that carry nothing, before they are left out."""
    monkeypatch.setattr(products, "DIGITS", 17)
    data: dict[Site, Any] = {GUEST: party(1, 2), HOST: party(2, 2)}
    first, second = (
        np.array(outputs_of(results(data, tmp_path))[GUEST].summary["corr"]) for _ in range(2)
    )
    assert not np.array_equal(first, second)
    assert np.allclose(first, second, rtol=0, atol=2.0**-32)
