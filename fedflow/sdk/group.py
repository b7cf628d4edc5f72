"""Whether the members of a group hold the same, before they compute together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedflow.base.errors.data_plane import GroupDiffers
from fedflow.base.errors.jobs import WrongSite
from fedflow.domain.site import Site
from fedflow.sdk.context import Context

VERSION: Final = 1  #: of what members send each other here
MAX_STEP: Final = 2**53  #: numbers of steps are below
_SHOWN: Final = 60  #: characters of a value in an error
_ABSENT: Final = object()


def agree(
    ctx: Context,
    name: str,
    *,
    members: Sequence[Site],
    facts: Mapping[str, Any],
    done: int = 0,
    tag: str = "",
    timeout_s: float | None = None,
) -> int:
    """Check that all members of a group hold the same, and return the number of their next step.

    Every member calls this with the same `name` and `tag`. Each compares all others with the first
    member, so all name the same difference.

    Args:
        name: of the values that are sent for this.
        members: in the same order at all, the own site among them.
        facts: plain JSON, such as parameters and the version of a protocol.
        done: steps that this member has done.
        tag: as of `Federation.send`; a loop needs other tags.
        timeout_s: as of `Federation.recv`.

    Returns: one more than the most that a member has done; the same at all.

    Raises: GroupDiffers: the first member that differs, and in what. As `Federation.recv`.
    """
    if ctx.site not in members:
        raise WrongSite(site=ctx.site, job_id="of this group")
    own = {
        "version": VERSION, "members": [site.key for site in members], "facts": dict(facts),
        "done": done,
    }  # fmt: skip
    others = [site for site in members if site != ctx.site]
    ctx.federation.send(name, own, to=others, tag=tag)
    found = dict(zip(others, ctx.federation.recv_all(
        name, from_=others, tag=tag, timeout_s=timeout_s
    ), strict=True))  # fmt: skip
    found[ctx.site] = own
    first = members[0]
    for site in members:
        _check_equal(site, found[site], first, found[first])
    return 1 + max(int(found[site]["done"]) for site in members)


def first_difference(one: Any, other: Any, path: str = "") -> tuple[str, Any, Any] | None:
    """Return path and values of the first difference of two plain JSON values, None: none.

    Keys of objects are compared in their order as text; numbers by value and kind.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            below = f"{path}.{key}" if path else str(key)
            found = first_difference(one.get(key, _ABSENT), other.get(key, _ABSENT), below)
            if found is not None:
                return found
        return None
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        if len(one) != len(other):
            return f"{path}.length", len(one), len(other)
        for place, pair in enumerate(zip(one, other, strict=True)):
            found = first_difference(*pair, f"{path}[{place}]")
            if found is not None:
                return found
        return None
    is_same = type(one) is type(other) and (one == other or repr(one) == repr(other))
    return None if is_same else (path, one, other)


def _check_equal(site: Site, theirs: Any, first: Site, expected: Any) -> None:
    """Raise GroupDiffers unless a member sent what it should, and what the first member sent."""
    done = theirs.get("done") if isinstance(theirs, dict) else None
    if not isinstance(done, int) or isinstance(done, bool) or not 0 <= done < MAX_STEP:
        raise GroupDiffers(
            site=str(site), path="done", value="no number of steps", first=str(first), other="one"
        )
    found = first_difference(
        {**theirs, "done": None}, {**expected, "done": None} if isinstance(expected, dict) else {}
    )
    if found is not None:
        path, value, other = found
        raise GroupDiffers(
            site=str(site), path=path.removeprefix("facts."), value=_shown(value),
            first=str(first), other=_shown(other),
        )  # fmt: skip


def _shown(value: Any) -> str:
    text = "nothing" if value is _ABSENT else repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
