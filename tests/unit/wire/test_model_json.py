"""Models as clients read them."""

from __future__ import annotations

from fedflow.wire.model_json import camel_case, shown


def test_fields_are_in_camel_case_and_columns_stay_as_they_are() -> None:
    stored = {
        "iters": 3,
        "loss_history": [0.5, 0.25],
        "weight": {"mean_area": 0.5, "x0": -1.0},
        "anonymous_name_mapping": {"host_10000_x0": "mean_area"},
        "one_vs_rest_result": {"completed_models": [{"best_iteration": 1}]},
    }
    assert shown(stored) == {
        "iters": 3,
        "lossHistory": [0.5, 0.25],
        "weight": {"mean_area": 0.5, "x0": -1.0},
        "anonymousNameMapping": {"host_10000_x0": "mean_area"},
        "oneVsRestResult": {"completedModels": [{"bestIteration": 1}]},
    }


def test_the_history_of_rounds_names_sites_and_says_who_was_left_out_even_if_nobody() -> None:
    rounds = [
        {"first": 0, "last": 1, "counted": {"guest-a_b": 3}, "left_out": {}},
        {"first": 2, "last": 2, "counted": {}, "left_out": {"guest-a_b": "it is late"}},
    ]
    assert shown({"rounds": rounds}) == {
        "rounds": [
            {"first": 0, "last": 1, "counted": {"guest-a_b": 3}, "leftOut": {}},
            {"first": 2, "last": 2, "counted": {}, "leftOut": {"guest-a_b": "it is late"}},
        ]
    }


def test_the_messages_in_a_map_have_fields_too() -> None:
    stored = {"encrypted_weight": {"a_b": {"cipher_text": "1", "public_key": {"n": "2"}}}}
    assert shown(stored) == {
        "encryptedWeight": {"a_b": {"cipherText": "1", "publicKey": {"n": "2"}}}
    }


def test_a_message_that_has_the_name_of_its_map_is_no_map_itself() -> None:
    stored = {
        "binning_result": {"binning_result": {"a_b": {"is_woe_monotonic": True}}, "role": "g"}
    }
    assert shown(stored) == {
        "binningResult": {"binningResult": {"a_b": {"isWoeMonotonic": True}}, "role": "g"}
    }


def test_a_trailing_underscore_disappears() -> None:
    assert [camel_case(n) for n in ("classes_", "x", "is_converged", "tol")] == [
        *("classes", "x", "isConverged", "tol"),
    ]
