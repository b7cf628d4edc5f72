"""The handler that torch makes of the plug-in: it registers, and its errors are torch's own."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from fedflow.domain.administration.rendezvous import RunKey
from tests.board.places import Place, serving

pytestmark = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is not installed (extra nn)"
)


@pytest.fixture(scope="module", autouse=True)
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with serving(tmp_path_factory.mktemp("torchrun") / "home") as place:
        yield place


def parameters(endpoint: str, run_id: str = "", *, size: int = 1, **config: Any) -> Any:
    from torch.distributed.elastic.rendezvous import RendezvousParameters

    return RendezvousParameters(
        "fedflow", endpoint, run_id or secrets.token_hex(4), size, size, local_addr="127.0.0.1",
        last_call_timeout="0", **config,
    )  # fmt: skip


def address(server: Place) -> str:
    return server.url.removeprefix("http://")


def test_torch_registers_the_back_end_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    from torch.distributed.elastic.rendezvous import registry, rendezvous_handler_registry

    with caplog.at_level(logging.WARNING):
        registry._register_out_of_tree_handlers()
    assert caplog.records == []
    assert "fedflow" in rendezvous_handler_registry._registry


def test_a_server_that_is_not_there_is_torchs_connection_error() -> None:
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError

    from fedflow.torchrun.handler import create_handler

    for transport in ("http", "grpc"):
        with pytest.raises(RendezvousConnectionError, match=r"127\.0\.0\.1:1"):
            create_handler(parameters("127.0.0.1:1", transport=transport, connect_timeout="0"))


def test_a_reason_ends_with_one_full_stop() -> None:
    from torch.distributed.elastic.rendezvous import RendezvousConnectionError

    from fedflow.torchrun.handler import create_handler

    with pytest.raises(RendezvousConnectionError, match=r"[^.]\. \[2306\]"):
        create_handler(parameters("127.0.0.1:1", connect_timeout="0"))


def test_an_exchange_is_no_endpoint() -> None:
    from torch.distributed.elastic.rendezvous import RendezvousError

    from fedflow.torchrun.handler import create_handler

    with pytest.raises(RendezvousError, match=r"exchange://e:9390 leads over .*\[1813\]"):
        create_handler(parameters("exchange://e:9390", transport="grpc"))


def test_a_corrupt_state_is_torchs_state_error(server: Place) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousStateError

    from fedflow.torchrun.handler import create_handler

    given = parameters(address(server))
    handler = create_handler(given)
    key = RunKey(scope="party:0", run_id=given.run_id)
    assert handler._backend.set_state(b"no state", None) is not None
    with pytest.raises(RendezvousStateError):
        create_handler(given)
    with pytest.raises(RendezvousStateError):
        handler.next_rendezvous()
    assert not handler.shutdown()
    assert server.server._store is not None
    with server.server._store.transaction() as tx:
        assert tx.rendezvous.drop(key)


def test_a_closed_run_and_one_that_stays_too_small_have_torchs_errors(server: Place) -> None:
    from torch.distributed.elastic.rendezvous import (
        RendezvousClosedError,
        RendezvousTimeoutError,
    )

    from fedflow.torchrun.handler import create_handler

    given = parameters(address(server))
    assert create_handler(given).shutdown()
    handler = create_handler(given)
    assert handler.is_closed()
    with pytest.raises(RendezvousClosedError):
        handler.next_rendezvous()
    lonely = create_handler(parameters(address(server), size=2, join_timeout="0.5"))
    with pytest.raises(RendezvousTimeoutError):
        lonely.next_rendezvous()
    assert not lonely.is_closed()


def test_two_handlers_meet_at_the_store_of_rank_0_and_see_who_waits(server: Place) -> None:
    meet(parameters(address(server), size=2))


def test_agents_of_parties_meet_over_grpc(tmp_path: Path) -> None:
    with serving(tmp_path / "home") as own:
        place = own.server.place
        assert place is not None
        meet(parameters(f"127.0.0.1:{place.grpc_port}", size=2, transport="grpc"))


def test_a_server_that_asks_for_signatures_gets_them(tmp_path: Path) -> None:
    from torch.distributed.elastic.rendezvous import RendezvousError

    from fedflow.torchrun.handler import create_handler

    client = {"switch": True, "http_app_key": "a", "http_secret_key": "s"}
    with serving(tmp_path / "home", {"authentication": {"client": client}}) as own:
        meet(parameters(address(own), size=2, app_key="a", secret="s"))
        for wrong in ({}, {"app_key": "a", "secret": "t"}):
            with pytest.raises(RendezvousError, match=r"TIMESTAMP|signature is wrong"):
                create_handler(parameters(address(own), **wrong))


def meet(given: Any) -> None:
    """Let two handlers of one run meet, use their store, and close the run."""
    from fedflow.torchrun.handler import create_handler

    handlers = [create_handler(given) for _ in range(2)]
    infos: dict[int, Any] = {}

    def join(number: int) -> None:
        infos[number] = handlers[number].next_rendezvous()

    threads = [threading.Thread(target=join, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(info.rank for info in infos.values()) == [0, 1]
    assert {info.world_size for info in infos.values()} == {2}
    assert len({info.bootstrap_store_info.master_port for info in infos.values()}) == 1
    infos[0].store.set("key", "value")
    assert infos[1].store.get("key") == b"value"
    assert [one.num_nodes_waiting() for one in handlers] == [0, 0]
    assert [one.shutdown() for one in handlers] == [True, True]
