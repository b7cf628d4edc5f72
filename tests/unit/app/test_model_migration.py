"""Migrating a model: shares under other party ids, at all executing sites or at none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedflow.app.models.migration import MigrateRequest
from fedflow.app.models.model_changes import ChangedModel
from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.models import ModelChangeRefused, ModelNotFound, SameParties
from fedflow.base.ids import PartyId
from fedflow.domain.models.model import ModelFilter, ModelKey, common_digest
from fedflow.domain.site import Role, Site
from tests.unit.app.fakes import GUEST, HOST
from tests.unit.app.models_world import MODEL_ID, TRAINED, Pair, answer, make_pair

NEW_ID = "guest-1#host-2#model"
NEW_GUEST = Site(Role.GUEST, PartyId("1"))
NEW_HOST = Site(Role.HOST, PartyId("2"))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    pair = make_pair(tmp_path)
    pair.live()
    return pair


def migrate(pair: Pair, at: Site = GUEST, **changes: Any) -> ChangedModel:
    asked: dict[str, Any] = {
        "model_id": MODEL_ID,
        "model_version": TRAINED,
        "roles": {"guest": ["9999"], "host": ["10000"]},
        "new_roles": {"guest": ["1"], "host": ["2"]},
        "new_initiator": NEW_GUEST,
        "execute": {"guest": ["9999"], "host": ["10000"]},
        **changes,
    }
    return pair.server(at).core.migrations.migrate(MigrateRequest(**asked))


def nothing_new(pair: Pair) -> None:
    pair.work()
    for site in (GUEST, HOST):
        with pair.server(site).store.read() as tx:
            found = tx.models.find(ModelFilter(with_unready=True))
        assert [v.key.model_version for v in found] == [TRAINED]


def test_each_executing_site_gets_a_share_under_the_new_ids(pair: Pair) -> None:
    done = migrate(pair)
    assert done.outcome.done
    assert done.model_id == NEW_ID
    digests = set()
    for old, new in ((GUEST, NEW_GUEST), (HOST, NEW_HOST)):
        key = ModelKey(site=new, model_id=NEW_ID, model_version=done.model_version)
        server = pair.server(old)
        share = server.core.models.version(key)
        assert share.parent
        assert share.roles == {"guest": ["1"], "host": ["2"]}
        digests.add(common_digest(share))
        content = server.core.models.load(key, "step_1")
        assert content.param == {"header": ["x0"], "site": old.key, "step": 1}
        assert share.size_bytes == sum(c.size_bytes for c in server.core.models.components(key))
    assert len(digests) == 1
    assert pair.versions(GUEST) == pair.versions(HOST) == [TRAINED]


def test_one_site_may_do_it_alone_under_a_version_that_all_agreed_on(pair: Pair) -> None:
    done = migrate(pair, execute={"host": ["10000"]}, new_version="20261121")
    assert done.model_version == "20261121"
    alone = migrate(pair, at=HOST, execute={"host": ["10000"]}, new_version="20261122")
    assert alone.outcome.done
    key = ModelKey(site=NEW_HOST, model_id=NEW_ID, model_version="20261122")
    assert pair.host.core.models.version(key).ready


def test_a_host_cannot_have_it_done_at_the_initiators_site(pair: Pair) -> None:
    done = migrate(pair, at=HOST)
    assert not done.outcome.done
    assert done.outcome.replies[GUEST].error == "WrongModelSource"
    nothing_new(pair)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"new_roles": {"guest": ["9999"], "host": ["10000"]}}, SameParties, "the same as"),
        ({"new_roles": {"guest": ["1"]}}, ModelChangeRefused, "has the roles guest"),
        ({"new_roles": {"guest": ["1"], "host": ["2", "3"]}}, ModelChangeRefused, "2 parties"),
        ({"roles": {"guest": ["9999"], "host": ["1"]}}, ModelChangeRefused, "parties of the model"),
        ({"new_initiator": NEW_HOST}, None, ""),
        ({"new_initiator": GUEST}, ModelChangeRefused, "migrate_initiator"),
        ({"execute": {}}, ModelChangeRefused, "execute_party"),
        ({"execute": {"guest": ["1"]}}, ModelChangeRefused, "execute_party"),
        ({"new_version": "../etc"}, ModelChangeRefused, "unify_model_version"),
        ({"model_version": "1"}, ModelNotFound, "version 1"),
    ],
)
def test_what_cannot_be_migrated_is_refused(
    pair: Pair, changes: dict[str, Any], error: type[FedflowError] | None, words: str
) -> None:
    if error is None:
        assert migrate(pair, **changes).outcome.done
        return
    with pytest.raises(error, match=words):
        migrate(pair, **changes)
    nothing_new(pair)


def test_a_version_that_exists_is_not_replaced(pair: Pair) -> None:
    first = migrate(pair, new_version="20261121")
    assert first.outcome.done
    again = migrate(pair, new_version="20261121")
    assert not again.outcome.done
    assert "exists already" in again.outcome.replies[GUEST].retmsg
    pair.work()
    key = ModelKey(site=NEW_GUEST, model_id=NEW_ID, model_version="20261121")
    assert pair.guest.core.models.version(key).ready


def test_a_damaged_model_stops_the_migration_at_all_sites(pair: Pair) -> None:
    pair.host.blobs.damage(pair.components(HOST, TRAINED)[0].meta.sha256)
    done = migrate(pair)
    assert not done.outcome.done
    assert done.outcome.replies[HOST].error == "ModelDamaged"
    nothing_new(pair)


@pytest.mark.parametrize(
    "changes",
    [
        {"migrate_role": "x"},
        {"migrate_role": {"nobody": []}},
        {"migrate_role": {"guest": ["a"], "host": ["2"]}},
        {"migrate_initiator": "nobody-1"},
        {"old_digest": 1},
        {"old_digest": "0"},
        {"role": None},
    ],
)
def test_a_malformed_command_changes_nothing(pair: Pair, changes: dict[str, Any]) -> None:
    migrate(pair)
    calls = pair.network().calls
    body = next(body for to, path, body in calls if to == "10000" and path.endswith("migrate"))
    path = "/party/1/host/10000/model/migrate"
    reply = answer(pair.host, path, {**body, **changes}, source="9999")
    assert reply.retcode != 0
    assert reply.error in ("BadRequest", "ModelsDiffer", "ModelChangeRefused")
    with pair.host.store.read() as tx:
        assert not tx.models.find(ModelFilter(model_version="1", with_unready=True))
