"""Errors 2000: models."""

from __future__ import annotations

from fedflow.base.errors.error import FedflowError


class ModelNotFound(FedflowError):
    """There is no {model} here."""

    code, retcode, http = 2001, 100, 404
    hint = "`model/query` shows the models of this server; each party's share is at its own server."


class ModelDamaged(FedflowError):
    """{model} is damaged: {reason}."""

    code, retcode, http = 2002, 100, 500
    hint = "Do not use it. Import an export, restore it from the model store, or train again."


class BlobDamaged(FedflowError):
    """The stored contents {sha256} are damaged: {reason}."""

    code, retcode, http = 2003, 100, 500
    hint = "The files below `models/blobs` in the server's home must not be changed or deleted."


class ModelExists(FedflowError):
    """{model} exists already."""

    code, retcode, http = 2004, 100, 409
    hint = "Pass force_update 1 to replace it."


class BadModelArchive(FedflowError):
    """The model archive is refused: {reason}."""

    code, retcode, http = 2005, 101, 400
    hint = "Send a zip that `model/export` made, with the ids that it was exported under."


class ModelComponentNotFound(FedflowError):
    """{model} has no model of component {component}."""

    code, retcode, http = 2006, 100, 404
    hint = "`model/query/detail` lists the components; only those that wrote a model have one."


class CheckpointNotFound(FedflowError):
    """{component} has no checkpoint {step} in {model}."""

    code, retcode, http = 2007, 100, 404
    hint = "`checkpoint/list` shows the steps that there are."


class CheckpointRefused(FedflowError):
    """{component} cannot store a checkpoint: {reason}."""

    code, retcode, http = 2008, 100, 409
    hint = "Checkpoints are of training jobs, one per step, within the limits of the SDK."


class TagNotFound(FedflowError):
    """There is no tag {tag_name}, or the model does not have it."""

    code, retcode, http = 2009, 100, 404
    hint = "`model/tag/list` shows the tags."


class TagExists(FedflowError):
    """The tag {tag_name} exists already, or the model has it already."""

    code, retcode, http = 2010, 100, 409
    hint = "Choose another name, or use the tag that there is."


class ModelStoreNotSet(FedflowError):
    """This server has no external model store."""

    code, retcode, http = 2011, 100, 503
    hint = "Set `model_store_address` in conf/service_conf.yaml."


class ModelStoreUnavailable(FedflowError):
    """The external model store cannot be used: {reason}."""

    code, retcode, http = 2012, 100, 503
    hint = "Check `model_store_address` and that the store runs."


class WrongWoeArrays(FedflowError):
    """The weights of evidence of {component} cannot be used: {reason}."""

    code, retcode, http = 2013, 101, 400
    hint = "Extract them from the guest's share of a binning and merge them into its host's share."


class ModelNotDeployed(FedflowError):
    """The {model} was trained, but not deployed."""

    code, retcode, http = 2030, 100, 409
    hint = "Deploy it with `model/deploy` and use the model_version that its answer names."


class ModelIsDeployed(FedflowError):
    """The {model} was deployed from version {parent} and cannot be deployed again."""

    code, retcode, http = 2031, 101, 409
    hint = "Deploy the version that was trained, as often as you like."


class ModelChangeRefused(FedflowError):
    """The version was not made: {reason}."""

    code, retcode, http = 2032, 101, 409
    hint = "No party has the new version. Fix the cause named above and ask again."


class ModelsDiffer(FedflowError):
    """{site} has another model under this name: {what} differs."""

    code, retcode, http = 2033, 100, 409
    hint = "Compare `model/query` at both parties; import or restore the right share."


class WrongModelSource(FedflowError):
    """Party {party_id} may not {what}."""

    code, retcode, http = 2034, 108, 403
    hint = "Only the server of the model's initiator does that; ask there."


class NotModelInitiator(FedflowError):
    """This server does not hold the initiator's share of {model}."""

    code, retcode, http = 2035, 101, 409
    hint = "Ask the server of the party that trained the model: `model/query` names it."


class NoPredictDsl(FedflowError):
    """There is no predict DSL: {reason}."""

    code, retcode, http = 2036, 210, 210
    hint = "Deploy the model, and ask with the model_version that the answer of the deploy names."


class ModelNotReady(FedflowError):
    """The job that trains {model} has not ended yet."""

    code, retcode, http = 2039, 106, 409
    hint = "Ask again when `job/query` shows the job's end at all parties."


class SameParties(FedflowError):
    """The new parties are those that the model has."""

    code, retcode, http = 2038, 100, 409
    hint = "Give other party ids in `migrate_role`, one for each of `role`."


class NotPredictable(FedflowError):
    """The predict job cannot use {model}: {reason}."""

    code, retcode, http = 2037, 103, 409
    hint = "`model/get/predict/conf` gives a conf that fits the model."
