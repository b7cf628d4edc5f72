"""Errors 1000: requests and authentication."""

from __future__ import annotations

from typing import Any

from fedflow.base.errors.error import FedflowError


class BadRequest(FedflowError):
    """Bad request: {reason}."""

    code, retcode, http = 1001, 101, 400
    public = ("reason", "path")
    hint = "The page /v1/docs of this server describes every request."


class MissingArgument(FedflowError):
    """required argument are missing: {names};"""  # FATE's sentence, which its clients read

    code, retcode, http = 1002, 101, 400
    public = ("names",)
    hint = "Add the named members to the JSON body."


class NotAuthenticated(FedflowError):
    """The request is not authenticated: {reason}."""

    code, retcode, http = 1003, 109, 401
    hint = (
        "Set FEDFLOW_APP_KEY and FEDFLOW_SECRET_KEY to the keys of the server's conf, "
        "or store them: "
        "`flow init --ip HOST --port PORT --app-key KEY --secret-key SECRET`."
    )


class RouteNotFound(FedflowError):
    """No route {method} {path}."""

    code, retcode, http = 1004, 100, 404
    public = ("method", "path")
    hint = "The page /v1/docs of this server lists its routes."


class NotSupportedYet(FedflowError):
    """{what} is not supported by this version of fedflow."""

    code, retcode, http = 1005, 100, 501
    hint = "`fedflow --help` and `fedflow component list` show what this version can do."


class ClientError(FedflowError):
    """{command} failed at {address}: {reason}"""

    code, retcode, http = 1006, 100, 502
    hint = "The reason comes from the server. `fedflow server status` shows whether it works."


class PermissionDenied(FedflowError):
    """Party {party_id} may not use {what} at this site."""

    code, retcode, http = 1020, 108, 403
    public = ("party_id", "kind")
    hint = "The party that refused can grant it with `permission/grant`."

    @property
    def data(self) -> Any:
        """Return FATE's form: code 1 role, 2 component, 3 dataset."""
        return {"code": self.fields["kind"], "message": self.message}


class PermissionsOff(FedflowError):
    """This server does not check permissions."""

    code, retcode, http = 1021, 100, 409
    hint = "Set permission.switch in the conf, and permission.component or permission.dataset."


class BadKey(FedflowError):
    """The public key cannot be used: {reason}."""

    code, retcode, http = 1022, 101, 400
    hint = "Send the RSA public key of the other party as PEM text, at least 2048 bits."


class PrivateKeyKept(FedflowError):
    """The private key of this party is never sent."""

    code, retcode, http = 1023, 108, 403
    hint = "Other parties need only the public key: request it with key_name `public`."


class BadAddress(FedflowError):
    """{what} cannot be used: {reason}."""

    code, retcode, http = 1024, 103, 400
    hint = "Give a host name or address, a port from 1 to 65535, and http or https."


class ServerNotListed(FedflowError):
    """No server {name} is listed in this server's conf."""

    code, retcode, http = 1025, 404, 404
    hint = "Requests are forwarded only to addresses below `servers` in the server's conf."


class ServerCallFailed(FedflowError):
    """The server {name} did not answer: {reason}."""

    code, retcode, http = 1026, 105, 502
    hint = "Check that it runs at the address below `servers` in the conf."


class NotSigned(FedflowError):
    """The call of party {party_id} is not authenticated: {reason}."""

    code, retcode, http = 1029, 109, 401
    public = ("party_id",)
    hint = "Exchange public keys: `fedflow key show` at one server, `fedflow key save` at another."


class UnknownGrant(FedflowError):
    """There is no {what} {name} to grant."""

    code, retcode, http = 1028, 100, 404
    hint = "`component/get` lists the components; roles are guest, host, arbiter."


class ReloadRefused(FedflowError):
    """The settings were not reloaded: {reason}."""

    code, retcode, http = 1027, 100, 409
    hint = "The server keeps its present settings."


class BadDocument(FedflowError):
    """{where}: {reason}."""

    code, retcode, http = 1040, 101, 400
    hint = "Nothing was sent. Correct the file or the command, then repeat it."


class BadClientConf(FedflowError):
    """The stored settings {path} cannot be used: {reason}."""

    code, retcode, http = 1041, 101, 400
    hint = "`flow init --reset` removes them, `flow init --ip HOST --port PORT` writes them again."


class SignInRefused(FedflowError):
    """The name or the password is wrong."""

    code, retcode, http = 1050, 109, 401
    hint = "An admin can set a new password: `fedflow board user password NAME`."


class SignInLater(FedflowError):
    """Too many attempts to sign in."""

    code, retcode, http = 1051, 109, 429
    hint = "Wait a few minutes. Users who are signed in are not affected."


class NotSignedIn(FedflowError):
    """You are not signed in, or your session has ended."""

    code, retcode, http = 1052, 109, 401
    hint = "Sign in again."


class RoleNeeded(FedflowError):
    """This needs the role {needed}; your role is {role}."""

    code, retcode, http = 1053, 108, 403
    hint = "An admin of this server can give you another role."


class AccountNotFound(FedflowError):
    """There is no account {name}."""

    code, retcode, http = 1054, 101, 404
    hint = "`fedflow board user list` shows the accounts."


class AccountExists(FedflowError):
    """An account {name} exists already."""

    code, retcode, http = 1055, 101, 409
    hint = "`fedflow board user role` and `user password` change it."


class BadAccount(FedflowError):
    """{what} cannot be used: {reason}."""

    code, retcode, http = 1056, 101, 400
    hint = "Choose another one; `fedflow board user --help` lists the commands."


class FormRefused(FedflowError):
    """The request was refused: {reason}."""

    code, retcode, http = 1057, 108, 403
    hint = "Load the page again, then repeat what you did."


class HostRefused(FedflowError):
    """This server does not answer under the name {host}."""

    code, retcode, http = 1058, 108, 403
    hint = (
        "Use the server's address, or add the name to `board.host_names` in its conf. Signed "
        "requests (`authentication.client`) may use any name."
    )
