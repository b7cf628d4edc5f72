"""HeteroSecureBoost: boosted trees over the columns of several parties with the same rows."""

from __future__ import annotations

from fedflow.components.boosting.fitting import run_trees
from fedflow.components.boosting.messages import MESSAGES
from fedflow.components.boosting.params import HeteroSecureBoostParams
from fedflow.sdk import Context, Outputs, component


@component(
    "HeteroSecureBoost",
    roles=("guest", "host"),
    params=HeteroSecureBoostParams,
    param_name="HeteroSecureBoostParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroSecureBoost:
    """Trains boosted trees on vertically split rows under encryption, or predicts.

    One guest with the labels, one or more hosts. All parties must have the same ids in the same
    order: put Intersection before it. Numbers need no scaling. The trees are those that the same
    algorithm grows on the joined table. Ties go to the guest, then to the first host, the lowest
    column and the lowest bin.

    With `train_data` it trains, scores the training rows (and those of `validate_data`), and stores
    a part of the model at each party. The guest stores the trees, each host its own splits. With
    `test_data` and a model it predicts. Predictions (columns `label`, `predict_result`,
    `predict_score`, `predict_detail`, `type`) exist at the guest only.

    With `mix` each tree splits columns of one party only. Those of the guest need no message, those
    of a host one message at prediction. With `layered` the host's columns come
    first, then the guest's.

    `classification` with more than two classes grows a tree for each class in a round; scores add
    up to 1. With `multi_mode: multi_output` a round is one tree whose leaves have a weight for each
    class: gains of all classes add up. `regression` takes one of six losses.

    Of a model, its own task, objective, learning rate, kind of leaves and handling of missing
    values count, not the parameters. Where training goes on, a warning says so.

    With a model beside `train_data` training goes on: `num_trees` more rounds with the same columns
    and classes. Callbacks measure between rounds, stop when measures of `validate_data` get no
    better, and store checkpoints; trees after the best round are dropped. A repeated attempt goes
    on from a checkpoint, and gives the same model bit for bit.

    With `cv_param.need_cv` the rows are cut into parts and a model is trained without each. The
    guest's measures of both are metrics `train_fold_<k>` and `validate_fold_<k>`.

    Model: `HeteroSecureBoostingTreeGuestMeta` and `...GuestParam`, at hosts `...HostMeta` and
    `...HostParam`. Summary: `best_iteration`, `is_converged`, at the guest `loss_history`,
    `feature_importance` (own columns by name, those of hosts by their anonymous names) and
    `validation_metrics`. Metrics: `train` / `loss` at the guest and `train` / `round_seconds` at
    each party, one point per round; `train` or `validate` / `iteration_<n>` at the guest. Parts
    of a round have metrics too: `exchange_seconds` (waiting for others) at each party. The guest
    adds `encryption_seconds` and `opening_seconds`, hosts `sums_seconds` and `packing_seconds`.
    `tree_seconds` and `level_<depth>_seconds` have a point per tree; progress moves level by level.

    Unlike FATE: row counts travel under encryption. A host learns only the splits that it has won,
    and gets no tree. Every packed sum has a fresh blinding. Orders are drawn from secret
    randomness.

    `EINI_inference`: prediction jobs take one round trip, and no party learns the way of a row. It
    costs a ciphertext per row and leaf, so it is slow. Trainings measure in the ordinary way.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_trees(ctx)


@component(
    "HeteroFastSecureBoost",
    roles=("guest", "host"),
    params=HeteroSecureBoostParams,
    param_name="HeteroFastSecureBoostParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroFastSecureBoost(HeteroSecureBoost):
    """HeteroSecureBoost under another name, which FATE's confs use with `work_mode`."""
