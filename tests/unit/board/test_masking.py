"""Which values of parameters and confs nobody reads on a page."""

from __future__ import annotations

import pytest

from fedflow.board.presenters.masking import HIDDEN, is_secret, masked


@pytest.mark.parametrize(
    "name",
    [
        "password", "DBPassword", "passwd", "pass", "db_pwd", "pwd", "passcode", "secretKey",
        "api-key", "X-Api-Key", "private-key", "privateKey", "spark.hadoop.fs.s3a.access.key",
        "fs.azure.account.key", "signing_key", "jwt", "authToken", "auth", "Authorization",
        "sasl.jaas.config", "credentials", "session cookie",
    ],
)  # fmt: skip
def test_a_name_of_a_secret_is_known_however_it_is_written(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    ["key_length", "random_seed", "passes", "compass", "encrypt_param", "author", "key", "bypass"],
)
def test_other_names_stay(name: str) -> None:
    assert not is_secret(name)


def test_secrets_are_hidden_at_any_depth() -> None:
    given = {"a": [{"db.pwd": "x", "n": 1}], "pass": None, "token": True, "secret": {"deep": 1}}
    assert masked(given) == {
        "a": [{"db.pwd": HIDDEN, "n": 1}], "pass": None, "token": True, "secret": HIDDEN,
    }  # fmt: skip


def test_the_password_in_an_address_is_hidden() -> None:
    given = ["mysql://ann:p@ss:w@db:3306/x", "hdfs://ann@namenode/x", "see s3://k:v@b/c, a@b:c"]
    assert masked(given) == [
        f"mysql://ann:{HIDDEN}@db:3306/x",
        "hdfs://ann@namenode/x",
        f"see s3://k:{HIDDEN}@b/c, a@b:c",
    ]
