"""Export and import of models: what comes back, and what is refused."""

from __future__ import annotations

import hashlib
import io
import json
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.model_exchange import ModelExchange
from fedflow.base.errors.models import BadModelArchive, ModelDamaged, ModelExists, ModelNotFound
from fedflow.base.errors.requests import BadRequest, NotSupportedYet
from fedflow.blobs import archive
from fedflow.blobs.archive import ZipArchives
from fedflow.domain.models.model import ModelKey, StepChoice
from tests.unit.app.fakes import ARBITER, GUEST, OneServer, participant
from tests.unit.app.models.test_models import KEY, MODEL, ended, reported, started, token, worker

Files = dict[str, bytes]
PARAM = "variables/data/a/model/LRParam.json"
STEP = "checkpoint/a/3#round_3/LRParam.json"


def exchange(server: OneServer) -> ModelExchange:
    return ModelExchange(
        store=server.store, repository=server.core.models, blobs=server.blobs,
        archives=ZipArchives(), parties=server.parties, clock=server.clock,
        folder=server.home / "archives",
    )  # fmt: skip


@pytest.fixture
def packed(host: OneServer) -> bytes:
    """An archive of a model with a checkpoint."""
    task = started(host)
    worker(host).save_checkpoint(
        task, token(host, task), step_index=3, step_name="round_3",
        model=reported({**MODEL, "param": {"iters": 3}}),
    )  # fmt: skip
    host.report(task, "success", model=MODEL)
    host.ask("job_stop", task.job, status="success")
    with exchange(host).export(KEY) as content:
        return content.read()


@pytest.fixture
def other(tmp_path: Path) -> OneServer:
    """Another server of the same party, that knows nothing."""
    return participant(tmp_path / "other")


def files_of(content: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def zip_of(files: Files) -> bytes:
    target = io.BytesIO()
    ZipArchives().write(target, files.items(), modified_ms=0)
    return target.getvalue()


def take(server: OneServer, content: bytes, key: ModelKey = KEY, **more: Any) -> Any:
    return exchange(server).import_archive(key, io.BytesIO(content), **more)


def nothing_is_there(server: OneServer) -> bool:
    with server.store.read() as tx:
        return tx.models.get(KEY) is None and tx.models.components(KEY) == []


# --- what comes back ------------------------------------------------------------------------------


def test_an_export_is_the_same_model_on_a_fresh_server(
    host: OneServer, other: OneServer, packed: bytes
) -> None:
    other.clock.ms += 5000
    version = take(other, packed, from_ip="192.0.2.7")
    mine = host.core.models.version(KEY)
    assert version == other.core.models.version(KEY)
    assert version == replace(
        mine, imported=True, archive_sha256=hashlib.sha256(packed).hexdigest(),
        archive_from_ip="192.0.2.7", created_ms=other.clock.ms, updated_ms=other.clock.ms,
    )  # fmt: skip
    loaded = other.core.models.load(KEY, "a")
    assert loaded == host.core.models.load(KEY, "a")
    step = StepChoice(step_index=3)
    assert other.core.models.load(KEY, "a", checkpoint=step).param == {"iters": 3}
    assert other.core.models.sweep(0) == 0


def test_the_same_share_gives_the_same_bytes(host: OneServer, packed: bytes) -> None:
    with exchange(host).export(KEY) as again:
        assert again.read() == packed
    path, sha256 = exchange(host).package(KEY)
    assert path.read_bytes() == packed
    assert sha256 == hashlib.sha256(packed).hexdigest()
    assert path.parent == host.home / "archives"


def test_an_archive_has_the_folders_of_fate_and_a_ready_request(packed: bytes) -> None:
    files = files_of(packed)
    assert files[PARAM] == b'{"weight":{"x":0.5}}'
    assert STEP in files
    assert json.loads(files["import_model.json"]) == {
        "role": "host", "party_id": "10000", "model_id": KEY.model_id, "model_version": "1",
    }  # fmt: skip


def test_what_is_here_is_replaced_only_when_that_is_asked_for(
    host: OneServer, other: OneServer, packed: bytes
) -> None:
    take(other, packed)
    with pytest.raises(ModelExists):
        take(other, packed)
    with pytest.raises(ModelExists):
        take(host, packed)
    assert take(other, packed, force=True).imported


def test_contents_for_serving_are_base64_by_component(host: OneServer, packed: bytes) -> None:
    contents = exchange(host).contents(KEY)
    assert set(contents) == {"a.model:LRMeta", "a.model:LRParam", "pipeline.pipeline:Pipeline"}
    assert contents["a.model:LRParam"] == "eyJ3ZWlnaHQiOnsieCI6MC41fX0="


def test_nothing_is_exported_of_what_is_not_there_or_damaged(
    host: OneServer, packed: bytes
) -> None:
    with pytest.raises(ModelNotFound):
        exchange(host).export(replace(KEY, model_version="2"))
    [component] = host.core.models.components(KEY)
    host.blobs.damage(component.param.sha256)
    for read in (exchange(host).export, exchange(host).package, exchange(host).contents):
        with pytest.raises(ModelDamaged):
            read(KEY)
    assert not list((host.home / "archives").glob("*.zip"))


# --- what is refused ------------------------------------------------------------------------------


def test_a_party_that_is_not_hosted_here_imports_nothing(other: OneServer, packed: bytes) -> None:
    with pytest.raises(BadRequest, match="does not host party 9999"):
        take(other, packed, replace(KEY, site=GUEST))


@pytest.mark.parametrize(
    "key",
    [
        replace(KEY, model_version="2"), replace(KEY, model_id="guest-9999#host-10001#model"),
        replace(KEY, site=ARBITER),
    ],
)  # fmt: skip
def test_an_archive_of_another_model_is_refused(
    other: OneServer, packed: bytes, key: ModelKey
) -> None:
    with pytest.raises(BadModelArchive, match="it is of model"):
        take(other, packed, key)


def test_an_archive_with_another_hash_is_refused(other: OneServer, packed: bytes) -> None:
    with pytest.raises(BadModelArchive, match="sha256"):
        take(other, packed, sha256="0" * 64)
    assert take(other, packed, sha256=hashlib.sha256(packed).hexdigest().upper())


def in_document(change: Callable[[Any], None]) -> Callable[[Files], None]:
    def edit(files: Files) -> None:
        document = json.loads(files["fedflow_model.json"])
        change(document)
        files["fedflow_model.json"] = json.dumps(document).encode()

    return edit


def digest_that_fits(files: Files) -> None:
    """Change contents and their digests alike, to something that is no JSON object."""
    files[PARAM] = b"[1]"

    def change(document: Any) -> None:
        part = document["components"][0]["param"]
        part["sha256"] = hashlib.sha256(b"[1]").hexdigest()
        part["sha1"] = hashlib.sha1(b"[1]").hexdigest()
        part["size_bytes"] = 3

    in_document(change)(files)


EDITS: dict[str, Callable[[Files], Any]] = {
    "changed contents": lambda f: f.update({PARAM: b'{"weight":{"x":0.6}}'}),
    "a missing file": lambda f: f.pop(PARAM),
    "a missing step": lambda f: f.pop(STEP),
    "a further file": lambda f: f.update({"variables/data/a/model/x.json": b"{}"}),
    "no list": lambda f: f.pop("fedflow_model.json"),
    "a list that is no JSON": lambda f: f.update({"fedflow_model.json": b"{"}),
    "a deep list": lambda f: f.update({"fedflow_model.json": b"[" * 500 + b"]" * 500}),
    "no object": digest_that_fits,
    "another format": in_document(lambda d: d.update(format="x")),
    "an unknown member": in_document(lambda d: d.update(x=1)),
    "a wrong type": in_document(lambda d: d["version"].update(roles=[])),
    "a role that it has not": in_document(lambda d: d["version"].update(roles={"guest": ["9999"]})),
    "a foreign initiator": in_document(lambda d: d["version"]["initiator"].update(party_id="7")),
    "a part of another site": in_document(
        lambda d: d["components"][0]["key"]["site"].update(role="guest")
    ),
    "a component twice": in_document(lambda d: d["components"].append(d["components"][0])),
    "a path in a name": in_document(lambda d: d["components"][0].update(component="../a")),
    "a path in an alias": in_document(lambda d: d["components"][0].update(alias="a/b")),
    "a long module": in_document(lambda d: d["components"][0].update(module="m" * 201)),
    "a DSL that is a list": in_document(lambda d: d["version"].update(train_dsl=[])),
    "a DSL without components": in_document(lambda d: d["version"].update(train_dsl={"a": 1})),
    "a DSL of too many components": in_document(
        lambda d: d["version"].update(
            inference_dsl={"components": {f"c{n}": {"module": "Step"} for n in range(5001)}}
        )
    ),
    "a deep conf": in_document(
        lambda d: d["version"].update(train_conf={"a": json.loads("[" * 60 + "]" * 60)})
    ),
    "parameters that are a list": in_document(
        lambda d: d["components"][0].update(run_parameters=[])
    ),
    "an unfinished version": in_document(lambda d: d["version"].update(ready=False)),
    "a step below zero": in_document(lambda d: d["checkpoints"][0].update(step_index=-1)),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_archive_that_was_changed_is_refused_and_leaves_nothing(
    other: OneServer, packed: bytes, name: str
) -> None:
    files = files_of(packed)
    EDITS[name](files)
    with pytest.raises(BadModelArchive):
        take(other, zip_of(files))
    assert nothing_is_there(other)


@pytest.mark.parametrize("cut", [0, 1, 100, 0.5, -1])
def test_an_archive_that_was_cut_is_refused(other: OneServer, packed: bytes, cut: float) -> None:
    end = int(len(packed) * cut) if isinstance(cut, float) else cut
    with pytest.raises(BadModelArchive):
        take(other, packed[:end])
    assert nothing_is_there(other)


def test_any_byte_that_is_changed_on_the_way_changes_nothing_or_is_refused(
    other: OneServer, packed: bytes
) -> None:
    for at in range(0, len(packed), 97):
        changed = bytearray(packed)
        changed[at] ^= 0x5A
        try:
            take(other, bytes(changed), force=True)
        except BadModelArchive:
            continue
        assert other.core.models.load(KEY, "a").param == MODEL["param"]


def hostile(name: str, content: bytes = b"x", **attributes: Any) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        for attribute, value in attributes.items():
            setattr(info, attribute, value)
        packed.writestr(info, content)
    return target.getvalue()


HOSTILE: dict[str, bytes] = {
    "parent": hostile("../../etc/passwd"),
    "absolute": hostile("/etc/passwd"),
    "parent inside": hostile("a/../b"),
    "empty part": hostile("a//b"),
    "backslashes": hostile("a\\..\\b"),
    "dot": hostile("."),
    "dot inside": hostile("a/./b"),
    "long": hostile("x" * 300),
    "link": hostile("link", external_attr=(stat.S_IFLNK | 0o777) << 16),
    "device": hostile("device", external_attr=(stat.S_IFCHR | 0o600) << 16),
    "bzip2": hostile("bzip", compress_type=zipfile.ZIP_BZIP2),
    "no file": b"PK\x05\x06" + b"\x00" * 18,
    "no zip": b"not a zip",
    "nothing": b"",
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_files_that_an_archive_may_not_have_are_refused(other: OneServer, content: bytes) -> None:
    with pytest.raises(BadModelArchive):
        take(other, content)
    assert nothing_is_there(other)


def test_a_bomb_is_refused_before_it_is_unpacked(
    other: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_FILE_BYTES", 100_000)
    with pytest.raises(BadModelArchive, match="larger than"):
        take(other, hostile("fedflow_model.json", b"0" * 100_001))
    monkeypatch.setattr(archive, "MAX_BYTES", 150_000)
    with pytest.raises(BadModelArchive, match="unpacked"):
        take(other, zip_of({"a": b"0" * 90_000, "b": b"0" * 90_000}))
    monkeypatch.setattr(archive, "MAX_FILES", 3)
    with pytest.raises(BadModelArchive, match="more than 3 files"):
        take(other, zip_of({str(i): b"" for i in range(4)}))


def test_a_list_that_would_fill_the_memory_is_not_read(
    other: OneServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`zipfile` makes an object per entry before anybody can count them."""
    content = zip_of({str(n): b"" for n in range(2_000)})
    with zipfile.ZipFile(io.BytesIO(content)) as zip_:
        monkeypatch.setattr(archive, "MAX_READ", len(content) - zip_.start_dir - 100)
    monkeypatch.setattr(zipfile, "ZipInfo", None)
    with pytest.raises(BadModelArchive, match="its list has more than"):
        take(other, content)


def test_a_packed_archive_is_for_this_user_alone_and_leaves_nothing_beside_it(
    host: OneServer, packed: bytes
) -> None:
    path, sha256 = exchange(host).package(KEY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    host.blobs.damage(host.core.models.components(KEY)[0].param.sha256)
    with pytest.raises(ModelDamaged):
        exchange(host).package(KEY)
    assert list(path.parent.iterdir()) == [path]


def test_a_model_id_that_is_no_name_is_refused(other: OneServer, packed: bytes) -> None:
    files = files_of(packed)
    key = replace(KEY, model_id='x"\r\nSet-Cookie: a')
    text = files["fedflow_model.json"].decode().replace(
        json.dumps(KEY.model_id), json.dumps(key.model_id)
    )  # fmt: skip
    files["fedflow_model.json"] = text.encode()
    with pytest.raises(BadModelArchive, match="is not a model id"):
        take(other, zip_of(files), key)


def test_a_file_that_is_larger_than_it_declares_is_refused(other: OneServer, packed: bytes) -> None:
    """The sizes in the list at the end of a zip are only a claim."""
    content = bytearray(zip_of({**files_of(packed), PARAM: b"0" * 50_000}))
    with zipfile.ZipFile(io.BytesIO(content)) as zip_:
        at = zip_.start_dir
    end = content.index(PARAM.encode(), at) - 46
    content[end + 24 : end + 28] = (20).to_bytes(4, "little")
    with pytest.raises(BadModelArchive):
        take(other, bytes(content))
    assert nothing_is_there(other)


def test_an_archive_of_fate_itself_is_told_as_such(other: OneServer) -> None:
    with pytest.raises(NotSupportedYet, match="protobuf"):
        take(other, zip_of({"define/define_meta.yaml": b"component_define: {}"}))


def test_an_import_that_breaks_off_leaves_no_half_model(
    other: OneServer, packed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with other.store.transaction() as tx:
        models = type(tx.models)

    def fail(*_: Any) -> None:
        raise KeyError("power failure")

    monkeypatch.setattr(models, "put_checkpoint", fail)
    with pytest.raises(KeyError):
        take(other, packed)
    assert nothing_is_there(other)
    assert other.core.models.sweep(0) > 0


def test_a_repeated_train_job_keeps_its_model_exportable(host: OneServer) -> None:
    ended(host, "1")
    ended(host, "2")
    with exchange(host).export(replace(KEY, model_version="2")) as content:
        assert PARAM in files_of(content.read())
