"""Hooks: what a service does with rows before the model, and with answers after it.

Those of this package are known by the names of their modules; others are entry points of the groups
`fedflow.serving.before` and `fedflow.serving.after`: functions that get the options of the service
and return a `BeforeHook` or an `AfterHook`.
"""
