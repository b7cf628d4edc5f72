"""HeteroFeatureBinning refuses wrong parameters, bad data and what no honest party sends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fedflow.base.errors.components import BadParameter
from fedflow.base.errors.data import BadData
from fedflow.base.errors.data_plane import CodecError, PeerFailed
from fedflow.components.binning.params import HeteroFeatureBinningParams
from fedflow.components.samples.alignment import ids_digest
from fedflow.sdk import check_params
from fedflow.sdk.crypto.paillier import PrivateKey
from fedflow.testing.federation import LocalFederation
from fedflow.testing.run import outputs_of
from tests.unit.components.binning_parties import (
    GUEST,
    HOST,
    HOST_2,
    error_of,
    own_bins,
    results,
    small,
)

WOE = {"transform_type": "woe"}


def with_label(values: Any) -> dict[Any, pa.Table]:
    data = small()
    return {GUEST: data[GUEST].set_column(1, "y", pa.array(values)), HOST: data[HOST]}


@pytest.mark.parametrize(
    ("data", "site", "words"),
    [
        (with_label([1] * 60), GUEST, "all 60 rows have the same label"),
        (with_label(list(range(60))), GUEST, "60 different labels in 60 rows"),
        (
            {GUEST: small()[GUEST].drop_columns(["y"]), HOST: small()[HOST]},
            GUEST,
            "has no label column",
        ),
        (
            {**small(), HOST: small()[HOST].set_column(1, "x0", pa.array([np.inf] * 60))},
            HOST,
            "column 'x0' has 60 infinite values",
        ),
        (
            {**small(), HOST: small()[HOST].set_column(1, "x0", pa.array(["a"] * 60))},
            HOST,
            "column 'x0' is string",
        ),
        ({**small(), HOST: small()[HOST].slice(0, 0)}, HOST, "has no rows"),
        ({**small(), HOST: small()[HOST].select(["id"])}, HOST, "has no feature columns"),
    ],
)
def test_bad_data_are_told_at_every_party(data: Any, site: Any, words: str, tmp_path: Path) -> None:
    error = error_of(results(data, tmp_path), site)
    assert isinstance(error, BadData)
    assert words in str(error)


def test_other_rows_at_a_host_are_refused(tmp_path: Path) -> None:
    data = small()
    data[HOST] = data[HOST].take(list(range(59, -1, -1)))
    errors = [found.error for found in results(data, tmp_path).values()]
    assert any(isinstance(error, BadData) and "another order" in str(error) for error in errors)
    assert all(isinstance(error, BadData | PeerFailed) for error in errors)


def test_two_columns_with_one_anonymous_name_are_refused(tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST, HOST_2))
    data = {**small(), HOST_2: small()[HOST]}
    for host in (HOST, HOST_2):
        fed = federation.at(host)
        fed.send("binning_part", {"takes_part": True}, to=GUEST)
        fed.send("optimal_info", told(), to=GUEST)
    error = results(data, tmp_path, federation=federation, only=[GUEST])[GUEST].error
    assert isinstance(error, BadData)
    assert "1 anonymous names" in str(error)


@pytest.mark.parametrize("name", ["x0", "hidden_9999_0"])
def test_a_host_with_names_of_the_guest_is_refused(name: str, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    fed = federation.at(HOST)
    fed.send("binning_part", {"takes_part": True}, to=GUEST)
    fed.send("optimal_info", {**told(), "columns": [name]}, to=GUEST)
    error = results(small(), tmp_path, federation=federation, only=[GUEST])[GUEST].error
    assert isinstance(error, BadData)
    assert "1 anonymous names" in str(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"columns": ["a", "a"], "bins": [2, 2]}, "different lengths"),
        ({"columns": "a"}, "`columns`"),
        ({"bins": [0]}, "impossible numbers of bins"),
        ({"bins": [1 << 40]}, "impossible numbers of bins"),
        ({"bins": [10_001], "merges": [True]}, "impossible numbers of bins"),
        ({"bins": [True]}, "`bins`"),
        ({"bin_num": 0}, "no parameters"),
        ({"optimal": {"metric_method": "none"}}, "metric_method"),
        ({"columns": ["x" * 400]}, "names of columns"),
    ],
)
def test_what_a_host_tells_is_checked(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    fed = federation.at(HOST)
    fed.send("binning_part", {"takes_part": True}, to=GUEST)
    fed.send("optimal_info", {**told(), **change}, to=GUEST)
    error = results(small(), tmp_path, federation=federation, only=[GUEST])[GUEST].error
    assert isinstance(error, CodecError)
    assert words in str(error)


def told() -> dict[str, Any]:
    return {
        "columns": ["a"],
        "bins": [2],
        "missing": [False],
        "merges": [False],
        "bin_num": 10,
        "optimal": {},
    }


@pytest.mark.parametrize("plan", [None, {}, {"classes": 1}, {"classes": True}, {"classes": 31}])
def test_the_guests_plan_is_checked(plan: object, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    federation.at(GUEST).send("binning_plan", plan, to=HOST)
    error = results(small(), tmp_path, federation=federation, only=[HOST])[HOST].error
    assert isinstance(error, CodecError)
    assert "binning_plan" in str(error)


@pytest.mark.parametrize("part", [None, {}, {"takes_part": 1}])
def test_a_hosts_part_is_checked(part: object, tmp_path: Path) -> None:
    federation = LocalFederation((GUEST, HOST))
    federation.at(HOST).send("binning_part", part, to=GUEST)
    error = results(small(), tmp_path, federation=federation, only=[GUEST])[GUEST].error
    assert isinstance(error, CodecError)
    assert "binning_part" in str(error)


@pytest.mark.parametrize(
    ("labels", "ends", "words"),
    [
        (59, [[9]], "59 ciphertexts where 60 were due"),
        (60, [[3]], "do not cover the buckets"),
        (60, [[5, 9], [9]], "not one list per column"),
    ],
)
def test_a_host_checks_what_the_guest_sends(
    labels: int, ends: Any, words: str, tmp_path: Path
) -> None:
    data = small()
    key = PrivateKey.generate(1024).public
    federation = LocalFederation((GUEST, HOST))
    fed = federation.at(GUEST)
    digest = ids_digest(data[HOST]["id"])
    fed.send("binning_plan", {"classes": 2}, to=HOST)
    fed.send("sample_ids", {"rows": 60, "digest": digest}, to=HOST, tag="binning")
    fed.send("paillier_pubkey", {"n": hex(key.n)}, to=HOST)
    fed.send("encrypted_label", key.to_bytes(key.encrypt([1] * labels)), to=HOST, tag="0")
    fed.send("bucket_idx", ends, to=HOST)
    host = {
        "method": "optimal",
        "bin_indexes": [0],
        "optimal_binning_param": {"init_bin_nums": 10},
    }
    found = results(data, tmp_path, federation=federation, only=[HOST], params={HOST: host})
    error = found[HOST].error
    assert isinstance(error, CodecError)
    assert words in str(error)


def test_a_host_refuses_a_shorter_key_than_its_own(tmp_path: Path) -> None:
    params = {HOST: {"encrypt_param": {"key_length": 2048}}}
    error = error_of(results(small(), tmp_path, params=params), HOST)
    assert isinstance(error, BadParameter)
    assert "1024 bits, not 2048" in str(error)


def test_optimal_binning_needs_two_classes(tmp_path: Path) -> None:
    found = results(small(classes=3), tmp_path / "1", params={GUEST: {"method": "optimal"}})
    assert isinstance(error_of(found, GUEST), BadParameter)
    found = results(small(classes=3), tmp_path / "2", params={HOST: {"method": "optimal"}})
    error = error_of(found, GUEST)
    assert isinstance(error, BadData)
    assert "3 classes" in str(error)


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"method": "chimerge"}, "method"),
        ({"bin_num": 0}, "bin_num"),
        ({"adjustment_factor": 0}, "adjustment_factor"),
        ({"transform_param": {"transform_type": "bins"}}, "transform_param.transform_type"),
        ({"skip_static": True, "method": "optimal"}, "skip_static"),
        ({"skip_static": True, "transform_param": WOE}, "skip_static"),
        ({"optimal_binning_param": {"metric_method": "auc"}}, "metric_method"),
        ({"optimal_binning_param": {"max_bin_pct": 0.01}}, "max_bin_pct"),
        ({"split_points_by_index": {"x": [1.0]}}, "split_points_by_index"),
        ({"split_points_by_col_name": {"x0": []}}, "split_points_by_col_name.x0"),
        ({"split_points_by_col_name": {"x0": [2.0, 1.0]}}, "split_points_by_col_name.x0"),
        ({"encrypt_param": {"method": None}}, "encrypt_param.method"),
        ({"unknown": 1}, "unknown"),
    ],
)
def test_wrong_parameters_are_refused_with_their_path(params: Any, path: str) -> None:
    with pytest.raises(BadParameter, match=path):
        check_params(HeteroFeatureBinningParams, params, path="hetero_feature_binning_0")


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({"bin_indexes": [7]}, "bin_indexes"),
        ({"bin_indexes": None}, "bin_indexes"),
        ({"split_points_by_index": {"9": [1.0]}}, "split_points_by_index"),
        (
            {"bin_indexes": [0], "split_points_by_col_name": {"x1": [1.0]}},
            "split_points_by_col_name",
        ),
        (
            {"bin_indexes": [0], "transform_param": {"transform_cols": [1]}},
            "transform_param.transform_cols",
        ),
        (
            {"transform_param": {"transform_cols": None, "transform_names": ["x9"]}},
            "transform_param.transform_names",
        ),
    ],
)
def test_columns_that_cannot_be_meant_are_refused(params: Any, path: str, tmp_path: Path) -> None:
    error = error_of(results(small(), tmp_path, params={GUEST: params}), GUEST)
    assert isinstance(error, BadParameter)
    assert f"heterofeaturebinning_0.{path}: " in str(error)


def test_names_of_columns_that_are_not_there_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    params = {"bin_indexes": [0], "bin_names": ["x9"], "category_names": ["x8", "x1"]}
    outputs = outputs_of(results(small(), tmp_path, params={GUEST: params}))
    assert set(own_bins(outputs[GUEST])) == {"x0", "x1"}
    for told in ("bin_names: 1 of 1 chosen", "category_names: 1 of 2 chosen"):
        assert f"heterofeaturebinning_0.{told}" in caplog.text
