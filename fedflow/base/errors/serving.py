"""Errors 2100: scoring of rows online."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class UnservableModel(FedflowError):
    """{component} cannot be served: {reason}."""

    code, retcode, http = 2101, 107, 409
    public = ("component",)
    hint = "Deploy the model without that component (`cpn_list`), or predict with jobs."


class BadPartial(FedflowError):
    """The answer of host {party} cannot be used: {reason}."""

    code, retcode, http = 2102, 135, 502
    public = ("party",)
    hint = "Compare the versions of fedflow and of the model at both parties."
