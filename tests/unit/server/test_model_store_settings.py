"""Which external model store the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.base.errors.start import BadSetting
from fedflow.base.settings import parse_settings
from fedflow.blobs.external import FolderModels, MySqlModels
from fedflow.server.models import external_models


def test_without_the_setting_there_is_none() -> None:
    assert external_models(parse_settings({})) is None


def test_a_folder_and_a_database_are_opened_as_named(tmp_path: Path) -> None:
    folder = {"model_store_address": {"storage": "folder", "folder": str(tmp_path)}}
    assert isinstance(external_models(parse_settings(folder)), FolderModels)
    mysql = {"model_store_address": {"storage": "mysql", "name": "models", "passwd": "p"}}
    assert isinstance(external_models(parse_settings(mysql)), MySqlModels)


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ({"storage": "folder"}, "model_store_address.folder"),
        ({"storage": "folder", "folder": "here"}, "model_store_address.folder"),
        ({"storage": "mysql", "name": "a`b"}, "model_store_address.name"),
        ({"storage": "tencent_cos"}, "model_store_address.storage"),
        ({"bucket": "x"}, "model_store_address.bucket"),
    ],
)
def test_an_address_that_cannot_be_used_stops_the_start(address: Any, path: str) -> None:
    with pytest.raises(BadSetting) as caught:
        parse_settings({"model_store_address": address})
    assert caught.value.fields["path"] == path
