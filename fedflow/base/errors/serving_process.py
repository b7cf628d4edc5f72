"""Errors 2200: the serving process."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError
from fedflow.base.errors.start import BadSetting


class BadServingSetting(BadSetting):
    """Setting {path}: {reason}."""

    code, retcode, http = 2201, 101, 400
    hint = "serving_conf.yaml, which comes with fedflow in share/fedflow/conf, explains every key."


class ServingStateNotUsable(FedflowError):
    """The state of the serving process, {path}, cannot be used: {reason}."""

    code, retcode, http = 2202, 110, 500
    hint = "Free the disk, or move the file away: the Flow server can load all models again."


class LoadRefused(FedflowError):
    """Model version {model_version} cannot be loaded: {reason}."""

    code, retcode, http = 2203, 107, 409
    hint = "Nothing was changed: what was loaded before is served as before."


class LoadNotFound(FedflowError):
    """There is no prepared load {load_id}."""

    code, retcode, http = 2204, 107, 404
    hint = "Prepared loads are forgotten after an hour; load the model again."


class VersionNotLoaded(FedflowError):
    """Model version {model_version} of {model_id} is not loaded here."""

    code, retcode, http = 2205, 104, 404
    hint = "Load it at all its parties first (`fedflow model load`)."


class BindingRefused(FedflowError):
    """Service {service_id} cannot be bound: {reason}."""

    code, retcode, http = 2206, 109, 409
    hint = "The service answers as before."


class ServiceNotBound(FedflowError):
    """There is no service {service_id}."""

    code, retcode, http = 2207, 122, 404
    hint = "Bind a loaded version to it (`fedflow model bind`)."


class BadServingRequest(FedflowError):
    """The request cannot be used: {reason}."""

    code, retcode, http = 2208, 100, 400
    hint = "The documentation of serving has the bodies of all routes."


class NoSuchServingRoute(FedflowError):
    """There is no {method} {path}."""

    code, retcode, http = 2209, 125, 404
    hint = "The documentation of serving lists all routes."


class TokenNotValid(FedflowError):
    """The bearer token is missing or wrong."""

    code, retcode, http = 2210, 127, 401
    hint = "Send `Authorization: Bearer TOKEN` with the token of this port's settings."


class HookNotUsable(FedflowError):
    """Hook {path}: {reason}."""

    code, retcode, http = 2220, 100, 400
    hint = "The documentation of serving has all hooks and their options."


class CacheNotPurged(FedflowError):
    """Not all entries of the shared cache could be removed: {reason}."""

    code, retcode, http = 2240, 110, 503
    hint = "Entries of this process are removed. Repeat the purge when the shared cache works."
