"""What becomes of woe arrays between a guest's model and a host's."""

from __future__ import annotations

from typing import Any

import pytest

from fedflow.domain.models.woe import extract_woe, merge_woe

Json = dict[str, Any]


def column(bins: int, woe: list[float] | None = None) -> Json:
    return {"bin_nums": bins, "woe_array": woe or [], "iv": 0.0, "split_points": []}


def party(number: str, **columns: Json) -> Json:
    return {"party_id": number, "role": "host", "binning_result": columns}


def guest(*hosts: Json, labels: int = 2) -> Json:
    return {
        "host_results": list(hosts),
        "multi_class_result": {"labels": [str(label) for label in range(labels)]},
    }


def host() -> Json:
    return {
        "header": ["age", "pay", "sex"],
        "header_anonymous": ["h_0", "h_1", "h_2"],
        "binning_result": {
            "party_id": "10000",
            "binning_result": {"age": column(3), "pay": column(2)},
        },
        "model_name": "binning_model",
    }


ONE = party("10000", h_0=column(3, [1.0, 0.0, -1.5]), h_1=column(2, [0.25, -0.5]))
TWO = party("10001", i_0=column(1, [0.125]))


def test_what_the_guest_extracts_fits_the_hosts_own_columns() -> None:
    merged = merge_woe(host(), extract_woe(guest(ONE, TWO)))
    columns = merged["binning_result"]["binning_result"]
    assert {name: found["woe_array"] for name, found in columns.items()} == {
        "age": [1.0, 0.0, -1.5],
        "pay": [0.25, -0.5],
    }
    assert columns["age"]["bin_nums"] == 3
    assert merged["model_name"] == "binning_model"
    assert merged["binning_result"]["party_id"] == "10000"
    assert merge_woe(merged, extract_woe(guest(ONE, TWO))) == merged


def test_only_the_named_hosts_columns_are_extracted() -> None:
    assert extract_woe(guest(ONE, TWO), "10001") == {"i_0": {"woeArray": [0.125]}}
    assert set(extract_woe(guest(ONE, TWO))) == {"h_0", "h_1"}


def test_columns_that_are_not_merged_stay_as_they_are() -> None:
    before = host()
    merged = merge_woe(before, {"h_1": {"woeArray": [1, 2]}})
    assert merged["binning_result"]["binning_result"]["age"]["woe_array"] == []
    assert merged["binning_result"]["binning_result"]["pay"]["woe_array"] == [1.0, 2.0]
    assert before == host()


@pytest.mark.parametrize(
    ("param", "of", "says"),
    [
        (guest(), None, "no statistics of hosts"),
        (guest(ONE, labels=3), None, "3 classes"),
        (guest(ONE), "10001", "no host '10001', only 10000"),
        ({}, None, "no FeatureBinningParam"),
        ({**guest(), "host_results": [7]}, None, "no FeatureBinningParam"),
    ],
)
def test_a_model_without_woe_of_the_host_is_refused(param: Json, of: str | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        extract_woe(param, of)


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({}, "no arrays"),
        ({"h_1": {"woeArray": [1.0, 2.0]}, "h_7": {"woeArray": []}}, "1 of the columns.*h_7"),
        ({"h_2": {"woeArray": [1.0]}}, "not among the binned ones.*h_2"),
        ({"age": {"woeArray": [1.0, 2.0, 3.0]}}, "not among the binned ones.*age"),
        ({"h_0": {"woeArray": [1.0, 2.0]}}, "h_0: 2 numbers for 3 bins"),
        ({"h_1": {"woeArray": [1.0, "2"]}}, "list of numbers"),
        ({"h_1": {"woeArray": [1.0, True]}}, "list of numbers"),
        ({"h_1": {"woeArray": [1.0, float("nan")]}}, "list of numbers"),
        ({"h_1": {"woeArray": [1.0, 10**400]}}, "list of numbers"),
        ({"h_1": [1.0, 2.0]}, "list of numbers"),
        ({"h_1": None}, "list of numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: Json, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        merge_woe(host(), arrays)


@pytest.mark.parametrize("part", ["header", "header_anonymous", "binning_result"])
def test_a_model_of_another_form_is_refused(part: str) -> None:
    with pytest.raises(ValueError, match="no FeatureBinningParam"):
        merge_woe({**host(), part: None}, {"h_1": {"woeArray": [1.0, 2.0]}})
