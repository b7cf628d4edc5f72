"""How the board calls the roles of accounts, and what each may do."""

from __future__ import annotations

from fedflow.board.language import t
from fedflow.domain.administration.accounts import AccountRole


def word(role: AccountRole) -> str:
    """Return the word for a role."""
    words = {
        AccountRole.VIEWER: t("viewer"),
        AccountRole.OPERATOR: t("operator"),
        AccountRole.ADMIN: t("admin"),
    }
    return words[role]


def text(role: AccountRole) -> str:
    """Return what a role may do."""
    texts = {
        AccountRole.VIEWER: t("reads everything of this party, changes nothing"),
        AccountRole.OPERATOR: t("as a viewer; also runs and stops jobs, changes models, tables"),
        AccountRole.ADMIN: t("as an operator; also deletes jobs, reads settings, manages accounts"),
    }
    return texts[role]
