"""The client of serving processes: over real HTTP, and what is no serving process."""

from __future__ import annotations

import socket

from fedflow.client.serving_servers import HttpServingServers
from fedflow.wire.deployed_model import DeployedModel
from tests.support.serving_admin import serving_admin

SHARE = DeployedModel(
    role="guest", party_id="9999", model_id="guest-9999#host-10000#model", model_version="1",
    roles={"guest": ["9999"]}, digest="d", dsl={}, parameters={}, components={},
)  # fmt: skip


def test_a_share_goes_over_whole_and_with_the_token() -> None:
    with serving_admin(token="secret") as one:
        servings = HttpServingServers([one.address], token="secret")
        (reply,) = servings.prepare("a/b?c", SHARE, None)
        assert (reply.address, reply.retcode) == (one.address, 0)
        assert one.prepared["a/b?c"]["model_id"] == SHARE.model_id
        assert servings.commit("a/b?c")[0].retcode == 0
        assert list(one.loaded) == [(SHARE.model_id, "1")]
        assert servings.unload(SHARE.model_id, "1", "id")[0].retcode == 0
        assert one.loaded == {}
        (refused,) = HttpServingServers([one.address], token=None).abort("x")
        assert (refused.retcode, refused.retmsg) == (121, "the token is wrong")


def test_who_is_away_is_told_apart_from_who_refuses() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with serving_admin() as one:
            one.garbage.add("abort")
            servings = HttpServingServers([address, f"http://{one.address}/"], token=None)
            away, other = servings.abort("x")
    assert (away.retcode, away.retmsg) == (100, "it does not answer")
    assert (other.retcode, other.retmsg) == (100, "it is no serving process: HTTP 200")
