"""An exchange: a process that passes calls on between parties that cannot reach each other.

It belongs to no party. It knows certificates, addresses and who may call whom; it has no store, no
jobs, no site keys, and cannot open what it passes on (`rpc/sealed/`).
"""
