"""Products of many ciphertexts at once, as several families of components need them.

What belongs here works on integers and bytes and knows nothing of parties, messages or models. The
cryptosystem itself is in `sdk.crypto`.
"""
