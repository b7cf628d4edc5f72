"""Cryptography for components: encrypted sums, secret shares, secure random numbers, hashed ids.

What stands in `__all__` is documented and kept stable for authors outside of fedflow. The modules
`paillier`, `encrypted_rows` and those below them are the inner parts: fast, and easy to misuse.
"""

from fedflow.sdk.crypto.encrypted import (
    EncryptedVector,
    Mask,
    PaillierKeyPair,
    PaillierPublicKey,
)
from fedflow.sdk.crypto.ids import hash_ids, list_digest
from fedflow.sdk.crypto.randomness import (
    new_seed,
    random_integers,
    random_permutation,
    random_ring,
    random_uniform,
)
from fedflow.sdk.crypto.shares import Ring, decode_ring, encode_ring, read_share, reconstruct, share

__all__ = [
    "EncryptedVector",
    "Mask",
    "PaillierKeyPair",
    "PaillierPublicKey",
    "Ring",
    "decode_ring",
    "encode_ring",
    "hash_ids",
    "list_digest",
    "new_seed",
    "random_integers",
    "random_permutation",
    "random_ring",
    "random_uniform",
    "read_share",
    "reconstruct",
    "share",
]
