"""The archive of examples."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from fedflow.app.administration.templates import Templates
from fedflow.base.errors.data import NoData
from fedflow.base.examples import examples_folder
from tests.unit.app.fakes import FakeClock


def members(templates: Templates) -> dict[str, bytes]:
    target = io.BytesIO()
    templates.write(target)
    target.seek(0)
    with tarfile.open(fileobj=target, mode="r:gz") as tar:
        found = {}
        for member in tar:
            file = tar.extractfile(member)
            assert file is not None
            found[member.name] = file.read()
        return found


def test_the_archive_has_jobs_with_their_data_and_conf_files() -> None:
    found = members(Templates(examples=examples_folder(), clock=FakeClock()))
    for name in ("hetero_lr", "homo_lr"):
        assert {f"fate_examples/{name}/dsl.json", f"fate_examples/{name}/conf.json"} <= set(found)
    assert found["fate_examples/data/breast_hetero_guest.csv"].startswith(b"id,")
    upload = json.loads(found["fateflow_examples/upload/upload_guest.json"])
    assert upload["file"] in found
    for name, content in found.items():
        assert not Path(name).is_absolute()
        assert ".." not in name
        if name.endswith(".json"):
            json.loads(content)


def test_an_installation_without_examples_has_nothing_to_send() -> None:
    with pytest.raises(NoData):
        members(Templates(examples=None, clock=FakeClock()))


def test_example_jobs_are_named_and_given_as_texts() -> None:
    templates = Templates(examples=examples_folder(), clock=FakeClock())
    assert {"hetero_lr", "scorecard"} <= set(templates.jobs())
    dsl, conf = templates.job("hetero_lr")
    assert "components" in json.loads(dsl)
    assert "initiator" in json.loads(conf)
    for name in ("nothing", "../hetero_lr", "data"):
        with pytest.raises(NoData):
            templates.job(name)


def test_an_installation_without_examples_has_no_example_jobs() -> None:
    templates = Templates(examples=None, clock=FakeClock())
    assert templates.jobs() == []
    with pytest.raises(NoData):
        templates.job("hetero_lr")
