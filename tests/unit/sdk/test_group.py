"""Agreement of a group: the same at all, or the first difference is named by all alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedflow.base.errors.data_plane import GroupDiffers
from fedflow.base.errors.jobs import WrongSite
from fedflow.base.ids import PartyId
from fedflow.domain.site import Role, Site
from fedflow.sdk import agree
from fedflow.sdk.group import first_difference
from fedflow.testing.federation import LocalFederation, SiteFederation

SITES = tuple(Site(Role.HOST, PartyId(str(party))) for party in (1, 2, 3))


@dataclass(frozen=True, kw_only=True, slots=True)
class OneSite:
    """What `agree` needs of a context."""

    site: Site
    federation: SiteFederation


def outcomes(calls: dict[Site, dict[str, Any]]) -> list[int | GroupDiffers]:
    """Let every site call `agree` at once; return what each got."""
    local = LocalFederation(SITES)

    def call(site: Site) -> int | GroupDiffers:
        given = {"members": SITES, "facts": {}, **calls.get(site, {})}
        try:
            return agree(OneSite(site=site, federation=local.at(site)), "group", **given)  # type: ignore[arg-type]
        except GroupDiffers as exc:
            return exc

    with ThreadPoolExecutor(len(SITES)) as pool:
        return list(pool.map(call, SITES))


def test_members_with_the_same_facts_get_the_same_next_step() -> None:
    facts = {"learning_rate": 0.1, "layers": [3, 2], "protocol": 2}
    done = dict(zip(SITES, (4, 0, 7), strict=True))
    calls = {site: {"facts": facts, "done": done[site]} for site in SITES}
    assert outcomes(calls) == [8, 8, 8]


def test_all_name_the_first_member_that_differs_and_in_what() -> None:
    facts = {"a": 1, "optimizer": {"alpha": 0.1, "name": "adam"}}
    other = {"a": 1, "optimizer": {"alpha": 0.2, "name": "sgd"}}
    calls = {SITES[0]: {"facts": facts}, SITES[1]: {"facts": facts}, SITES[2]: {"facts": other}}
    for found in outcomes(calls):
        assert isinstance(found, GroupDiffers)
        assert found.message == (
            "host 3 differs from host 1 in optimizer.alpha: 0.2 instead of 0.1."
        )


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"members": SITES[::-1]}, "members[0]"),
        ({"facts": {"extra": None}}, "extra"),
        ({"done": -1}, "done"),
        ({"done": True}, "done"),
        ({"done": 2**53}, "done"),
    ],
)
def test_a_member_that_differs_is_named(change: dict[str, Any], named: str) -> None:
    found = outcomes({SITES[1]: change, SITES[2]: {}})[2]
    assert isinstance(found, GroupDiffers)
    assert (found.fields["site"], found.fields["path"]) == ("host 2", named)


def test_what_is_no_such_message_is_refused() -> None:
    for nonsense in (None, 1, "x", [], {}, {"done": 1}, {"done": 1, "facts": 5}):
        local = LocalFederation(SITES[:2])
        local.at(SITES[1]).send("group", nonsense, to=SITES[0])
        with pytest.raises(GroupDiffers, match="host 2"):
            agree(
                OneSite(site=SITES[0], federation=local.at(SITES[0])),  # type: ignore[arg-type]
                "group", members=SITES[:2], facts={},
            )  # fmt: skip


def test_who_is_no_member_is_refused() -> None:
    local = LocalFederation(SITES)
    context = OneSite(site=SITES[2], federation=local.at(SITES[2]))
    with pytest.raises(WrongSite):
        agree(context, "group", members=SITES[:2], facts={})  # type: ignore[arg-type]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, float("nan")])
    | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner,
                                                                max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(one=PLAIN, other=PLAIN)
def test_a_difference_is_found_exactly_where_there_is_one(one: Any, other: Any) -> None:
    assert first_difference(one, one) is None
    found, mirrored = first_difference(one, other), first_difference(other, one)
    assert (found is None) == (mirrored is None)
    if found is None:
        assert repr(one) == repr(other) or sorted(repr(one)) == sorted(repr(other))
    else:
        assert mirrored is not None
        assert found[0] == mirrored[0]
