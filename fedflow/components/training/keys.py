"""Public keys of other parties, as far as the own `encrypt_param` accepts them."""

from __future__ import annotations

from fedflow.components.training.params import SAFE_KEY_BITS, EncryptParam
from fedflow.components.waiting import wait_for
from fedflow.sdk import Context, Site
from fedflow.sdk.crypto.paillier import PublicKey
from fedflow.sdk.errors import BadParameter, CodecError


def receive_key(ctx: Context, *, from_: Site) -> PublicKey:
    """Return the key that `paillier_pubkey` of a party carries, {n: hexadecimal}.

    Raises: as `parse_key`; PeerFailed.
    """
    value = wait_for(ctx, "paillier_pubkey", from_)
    text = value.get("n") if isinstance(value, dict) else None
    return parse_key(text, ctx.params.encrypt_param)


def parse_key(text: object, encryption: EncryptParam) -> PublicKey:
    """Return a party's key of modulus `text` (hexadecimal).

    Raises: BadParameter: it is none, or shorter than the own `encrypt_param.key_length`.
    """
    wanted = encryption.key_length
    try:
        return PublicKey.parse(text, bits=wanted, blinding=encryption.blinding)
    except CodecError as exc:
        raise BadParameter(
            path="encrypt_param.key_length",
            reason=f"this party asks for {wanted} bits: {exc.message}",
        ) from exc


def warn_of_short_key(ctx: Context, encryption: EncryptParam) -> None:
    """Warn in the log of the key's owner if the key is not safe."""
    if encryption.key_length < SAFE_KEY_BITS:
        ctx.log.warning(
            "%s-bit keys are for tests and comparisons: use encrypt_param.key_length %s",
            encryption.key_length,
            SAFE_KEY_BITS,
        )
