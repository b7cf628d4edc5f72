"""How the board calls the roles of sites."""

from __future__ import annotations

from fedflow.board.language import t
from fedflow.domain.site import Role


def word(role: Role | str) -> str:
    """Return the word for a role in the viewer's language; of what is no role, itself."""
    words = {
        Role.GUEST.value: t("guest"),
        Role.HOST.value: t("host"),
        Role.ARBITER.value: t("arbiter"),
        Role.LOCAL.value: t("local"),
    }
    return words.get(str(role), str(role))
