"""Cryptographic building blocks of components: homomorphic encryption and its number encoding.

What belongs here works on integers and bytes and knows nothing of parties, messages or models.
"""
