"""Flower apps as jobs: an unmodified Flower project runs over fedflow's data plane.

The ServerApp runs at one site, the ClientApp at the others; no process of Flower is started. All of
it runs in a provider's own interpreter, in which `flwr` is installed: no server imports it.
"""
