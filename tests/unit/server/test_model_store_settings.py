"""Which external model store the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.base.clock import SystemClock
from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import parse_settings
from fedflow.blobs.bucket import BucketModels
from fedflow.blobs.external import FolderModels, MySqlModels
from fedflow.server.models import external_models


def test_without_the_setting_there_is_none() -> None:
    assert external_models(parse_settings({}), SystemClock()) is None


def test_a_folder_and_a_database_are_opened_as_named(tmp_path: Path) -> None:
    folder = {"model_store_address": {"storage": "folder", "folder": str(tmp_path)}}
    assert isinstance(external_models(parse_settings(folder), SystemClock()), FolderModels)
    mysql = {"model_store_address": {"storage": "mysql", "name": "models", "passwd": "p"}}
    assert isinstance(external_models(parse_settings(mysql), SystemClock()), MySqlModels)
    s3 = {
        "model_store_address": {"storage": "s3", "uri": "s3://models/of/us", "region": "eu-west-1"}
    }
    assert isinstance(external_models(parse_settings(s3), SystemClock()), BucketModels)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ({"storage": "folder"}, "model_store_address.folder"),
        ({"storage": "folder", "folder": "here"}, "model_store_address.folder"),
        ({"storage": "mysql", "name": "a`b"}, "model_store_address.name"),
        ({"storage": "s3"}, "model_store_address.uri"),
        ({"storage": "s3", "uri": "http://h/b"}, "model_store_address.uri"),
        ({"storage": "s3", "uri": "s3://b/../c"}, "model_store_address.uri"),
        ({"storage": "s3", "uri": "s3://bkt", "endpoint": "h:1"}, "model_store_address.endpoint"),
        (
            {"storage": "s3", "uri": "s3://bkt", "endpoint": "http://u:p@h:1"},
            "model_store_address.endpoint",
        ),
        ({"storage": "s3", "uri": "s3://bkt", "access_key": "a"}, "model_store_address.secret_key"),
        ({"storage": "tencent_cos"}, "model_store_address.storage"),
        ({"bucket": "x"}, "model_store_address.bucket"),
    ],
)
def test_an_address_that_cannot_be_used_stops_the_start(address: Any, path: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_settings({"model_store_address": address})
    assert caught.value.fields["path"] == path
