"""Errors 2000: models."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class ModelNotFound(FedflowError):
    """There is no {model} at this server."""

    code, retcode, http = 2001, 100, 404
    public = ("model",)
    hint = "`model/query` shows the models of this server. Each party has a server of its own."


class ModelDamaged(FedflowError):
    """{model} is damaged: {reason}."""

    code, retcode, http = 2002, 100, 500
    public = ("model",)
    hint = "Do not use it. Import an archive, restore it from the model store, or train again."


class BlobDamaged(FedflowError):
    """The stored contents {sha256} are damaged: {reason}."""

    code, retcode, http = 2003, 100, 500
    hint = "The files below `models/blobs` in the server's home must not be changed or deleted."


class ModelExists(FedflowError):
    """{model} exists already."""

    code, retcode, http = 2004, 100, 409
    public = ("model",)
    hint = "Pass force_update 1 to replace it."


class BadModelArchive(FedflowError):
    """The model archive is refused: {reason}."""

    code, retcode, http = 2005, 101, 400
    hint = "Send a zip from `model/export`, with the ids under which it was exported."


class ModelComponentNotFound(FedflowError):
    """{model} has no model of component {component}."""

    code, retcode, http = 2006, 100, 404
    public = ("model", "component")
    hint = "`model/query/detail` lists the components; only those that wrote a model have one."


class CheckpointNotFound(FedflowError):
    """{component} has no checkpoint {step} in {model}."""

    code, retcode, http = 2007, 100, 404
    public = ("component", "step", "model")
    hint = "`checkpoint/list` shows the existing steps."


class CheckpointRefused(FedflowError):
    """{component} cannot store a checkpoint: {reason}."""

    code, retcode, http = 2008, 100, 409
    public = ("component",)
    hint = "Only training jobs store checkpoints, one per step, within the limits of the SDK."


class TagNotFound(FedflowError):
    """There is no tag {tag_name}, or the model does not have it."""

    code, retcode, http = 2009, 100, 404
    hint = "`model/tag/list` shows the tags."


class TagExists(FedflowError):
    """The tag {tag_name} exists already, or the model has it already."""

    code, retcode, http = 2010, 100, 409
    hint = "Choose another name, or use the existing tag."


class ModelStoreNotSet(FedflowError):
    """This server has no external model store."""

    code, retcode, http = 2011, 100, 503
    hint = "Set `model_store_address` in the server's conf."


class ModelStoreUnavailable(FedflowError):
    """The external model store cannot be used: {reason}."""

    code, retcode, http = 2012, 100, 503
    hint = "Check `model_store_address` and that the store runs."


class WrongWoeArrays(FedflowError):
    """The weights of evidence of {component} cannot be used: {reason}."""

    code, retcode, http = 2013, 101, 400
    hint = "Extract them from the guest's model of a binning and merge them into its host's model."


class ModelNotDeployed(FedflowError):
    """The {model} was trained, but not deployed."""

    code, retcode, http = 2030, 100, 409
    public = ("model",)
    hint = "Deploy it with `model/deploy` and use the model_version in the response."


class ModelIsDeployed(FedflowError):
    """The {model} was deployed from version {parent} and cannot be deployed again."""

    code, retcode, http = 2031, 101, 409
    public = ("model", "parent")
    hint = "Deploy the version that was trained, as often as you like."


class ModelChangeRefused(FedflowError):
    """The model was not changed: {reason}."""

    code, retcode, http = 2032, 101, 409
    public = ("reason",)
    hint = "No party has the change. Fix the cause named above and repeat the request."


class ModelsDiffer(FedflowError):
    """{site} has another model under this name: {what} differs."""

    code, retcode, http = 2033, 100, 409
    public = ("site", "what")
    hint = "Compare `model/query` at both parties; import or restore the right model."


class WrongModelSource(FedflowError):
    """Party {party_id} may not {what}."""

    code, retcode, http = 2034, 108, 403
    public = ("party_id", "what")
    hint = "Only the server of the model's initiator may do this; send the request to that server."


class NotModelInitiator(FedflowError):
    """This server does not store the initiator's part of {model}."""

    code, retcode, http = 2035, 101, 409
    public = ("model",)
    hint = "Use the server of the party that trained the model: `model/query` names the party."


class NoPredictDsl(FedflowError):
    """There is no predict DSL: {reason}."""

    code, retcode, http = 2036, 210, 210
    hint = "Deploy the model, and use the model_version in the response of the deploy."


class ModelNotReady(FedflowError):
    """The job that trains {model} has not ended yet."""

    code, retcode, http = 2039, 106, 409
    public = ("model",)
    hint = "Repeat the request when `job/query` shows the job's end at all parties."


class SameParties(FedflowError):
    """The new parties are the same as the model's parties."""

    code, retcode, http = 2038, 100, 409
    hint = "Give other party ids in `migrate_role`, one for each of `role`."


class NotPredictable(FedflowError):
    """The predict job cannot use {model}: {reason}."""

    code, retcode, http = 2037, 103, 409
    public = ("model", "reason")
    hint = "`model/get/predict/conf` gives a conf that fits the model."


class NoServings(FedflowError):
    """This party names no serving processes."""

    code, retcode, http = 2050, 100, 409
    hint = "Name the admin addresses of `fedflow serving run` under `servings.hosts` in the conf."


class BadServiceId(FedflowError):
    """{service_id!r} is no service id."""

    code, retcode, http = 2051, 101, 400
    public = ("service_id",)
    hint = "Use up to 200 printable characters without `?`, `:`, `/` and `&`."


class NotPublished(FedflowError):
    """The version was not published: {reason}."""

    code, retcode, http = 2052, 101, 409
    hint = "Fix the cause named above and repeat the request. Before, no party answers with it."


class BranchNotFound(FedflowError):
    """There is no branch {branch} of {model} at this server."""

    code, retcode, http = 2040, 100, 404
    public = ("branch", "model")
    hint = "`model/branch/list` shows the branches of a model."


class BranchExists(FedflowError):
    """The branch {branch} of {model} exists already."""

    code, retcode, http = 2041, 100, 409
    public = ("branch", "model")
    hint = "Move it with `model/branch/move`, or choose another name."


class NoEarlierTarget(FedflowError):
    """The branch {branch} of {model} cannot go back: it named no other version before."""

    code, retcode, http = 2042, 100, 409
    public = ("branch", "model")
    hint = "`model/branch/moves` shows its moves. Move it to the version that you want."


class TagNotUnique(FedflowError):
    """The tag {tag_name} does not name one version of {model}: {versions} have it."""

    code, retcode, http = 2043, 101, 409
    hint = "Remove the tag from the other versions, or name the version itself."


class ModelIsCommitted(FedflowError):
    """The {model} has its message already."""

    code, retcode, http = 2044, 100, 409
    public = ("model",)
    hint = "A commit does not change. `model/show` shows it; a tag or a branch can be added."
