"""The key pair of a run, which all its trainings share: of classes, folds, candidate columns.

A new pair, and tables for it, would cost more than a short training. The arbiter alone has the
private key.
"""

from __future__ import annotations

from fedflow.components.training.keys import receive_key, warn_of_short_key
from fedflow.sdk import Context, Role
from fedflow.sdk.crypto.paillier import PrivateKey, PublicKey


class PartyKeys:
    """One party's key, made or received when the first training asks for it."""

    def __init__(self) -> None:
        self._private: PrivateKey | None = None
        self._public: PublicKey | None = None

    def private(self, ctx: Context) -> PrivateKey:
        """Return the arbiter's key; the first call sends the others its public half."""
        if self._private is None:
            warn_of_short_key(ctx, ctx.params.encrypt_param)
            self._private = PrivateKey.generate(ctx.params.encrypt_param.key_length)
            others = (*ctx.sites_of(Role.HOST), *ctx.sites_of(Role.GUEST))
            ctx.federation.send("paillier_pubkey", {"n": hex(self._private.public.n)}, to=others)
        return self._private

    def public(self, ctx: Context) -> PublicKey:
        """Return the arbiter's public key at guest and hosts.

        Raises: as `receive_key`.
        """
        if self._public is None:
            self._public = receive_key(ctx, from_=ctx.only(Role.ARBITER))
        return self._public


def warn_of_arbiter(ctx: Context) -> None:
    """Say in the log if the arbiter's key is in the hands of a party that has data."""
    arbiter = ctx.only(Role.ARBITER)
    for site in (*ctx.sites_of(Role.GUEST), *ctx.sites_of(Role.HOST)):
        if site.party_id == arbiter.party_id:
            ctx.log.warning(
                "party %s is arbiter and %s: its key opens all that others encrypt here."
                " Let a party without data be the arbiter",
                site.party_id,
                site.role.value,
            )
