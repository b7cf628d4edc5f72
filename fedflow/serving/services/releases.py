"""A release: which versions answer for a service, which users get which, and what runs beside.

These values are the JSON of the admin port and of the state file, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from fedflow.base.errors.serving_process import BindingRefused

MOST_VERSIONS: Final = 10
MOST_RULES: Final = 50

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
Version = tuple[str, str]  #: model id and model version


class ReleasedVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version of a release."""

    model_id: str
    model_version: str
    weight: Percent = 0.0  #: percent of the users that it answers
    shadow: bool = False  #: scores what the others answer, and its scores are compared

    @property
    def version(self) -> Version:
        """Return model id and model version."""
        return self.model_id, self.model_version


class HeaderRule(msgspec.Struct, frozen=True, kw_only=True):
    """Requests with a header of one of these values are answered by one version."""

    header: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,63}$")]
    values: Annotated[tuple[str, ...], msgspec.Meta(min_length=1, max_length=100)]
    model_id: str
    model_version: str

    @property
    def version(self) -> Version:
        """Return model id and model version."""
        return self.model_id, self.model_version


class Release(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What answers for a service. Weights of versions that answer sum up to 100."""

    versions: tuple[ReleasedVersion, ...]
    rules: tuple[HeaderRule, ...] = ()  #: the first that fits decides, before weights

    @property
    def main(self) -> ReleasedVersion:
        """Return the version that answers most users."""
        return max(self.versions, key=lambda one: (not one.shadow, one.weight))

    def has(self, version: Version) -> bool:
        """Tell whether a version belongs to it."""
        return any(one.version == version for one in self.versions)


def whole_release(model_id: str, model_version: str) -> Release:
    """Return the release in which one version answers everybody."""
    one = ReleasedVersion(model_id=model_id, model_version=model_version, weight=100.0)
    return Release(versions=(one,))


def with_version(
    before: Release | None, model_id: str, model_version: str, *, weight: float, shadow: bool
) -> Release:
    """Return a release in which a version answers `weight` percent of the users.

    The others share the rest as they did; at 100 percent only shadows stay beside it. A version
    without weight and without a part in the rest answers nobody but whom a rule names.
    """
    version = (model_id, model_version)
    others = [] if before is None else [one for one in before.versions if one.version != version]
    own = 0.0 if shadow else weight
    new = ReleasedVersion(model_id=model_id, model_version=model_version, weight=own, shadow=shadow)
    if own == 100.0:
        others = [one for one in others if one.shadow]
    kept = (*_scaled(others, 100.0 - own), new)
    return Release(versions=kept, rules=_rules_of(before, kept))


def without_version(before: Release, version: Version) -> Release | None:
    """Return a release without a version; None: nobody would answer."""
    others = [one for one in before.versions if one.version != version]
    if not any(one.weight for one in others):
        return None
    kept = tuple(_scaled(others, 100.0))
    return Release(versions=kept, rules=_rules_of(before, kept))


def check_release(service_id: str, release: Release) -> None:
    """Raises: BindingRefused: why a release cannot be."""
    reason = _fault(release)
    if reason:
        raise BindingRefused(service_id=service_id, reason=reason)


def _fault(release: Release) -> str:
    versions = [one.version for one in release.versions]
    if len(versions) > MOST_VERSIONS or len(release.rules) > MOST_RULES:
        return f"it has more than {MOST_VERSIONS} versions or {MOST_RULES} rules"
    if len(set(versions)) < len(versions):
        return "a version is there twice"
    if any(one.shadow and one.weight for one in release.versions):
        return "a shadow answers nobody, so it has no weight"
    total = sum(one.weight for one in release.versions)
    if abs(total - 100.0) > 1e-6:
        return f"the weights sum up to {total:g}, not to 100"
    answering = {one.version for one in release.versions if not one.shadow}
    for rule in release.rules:
        if rule.version not in answering:
            return f"a rule names version {rule.model_version[:100]}, which does not answer"
    return ""


def _scaled(versions: Sequence[ReleasedVersion], total: float) -> list[ReleasedVersion]:
    """Return versions with weights that sum up to `total`, in the same ratio."""
    now = sum(one.weight for one in versions)
    factor = total / now if now else 0.0
    return [msgspec.structs.replace(one, weight=one.weight * factor) for one in versions]


def _rules_of(before: Release | None, kept: Sequence[ReleasedVersion]) -> tuple[HeaderRule, ...]:
    answering = {one.version for one in kept if not one.shadow}
    rules = () if before is None else before.rules
    return tuple(rule for rule in rules if rule.version in answering)


def release_of(raw: bytes | str) -> Release:
    """Return a release of its JSON. Raises: msgspec.MsgspecError."""
    return _releases.decode(raw)


_releases: Final = msgspec.json.Decoder(Release)
