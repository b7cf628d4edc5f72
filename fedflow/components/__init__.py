"""The built-in components, one folder per family; names, parameters and metrics are FATE's.

A component imports `fedflow.sdk`, its own family, and the crypto folder; never the server, the
store or an engine behind a port. `docs/reference/components.md` has the rules that FATE set.
"""
