"""HeteroLinR: linear regression over the columns of several parties with the same rows."""

from __future__ import annotations

from fedflow.components.linear.fitting import run_linear_model
from fedflow.components.linear.messages import MESSAGES
from fedflow.components.linear.params import HeteroLinRParams
from fedflow.sdk import Context, Outputs, component


@component(
    "HeteroLinR",
    roles=("guest", "host", "arbiter"),
    params=HeteroLinRParams,
    param_name="LinearParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroLinR:
    """Trains a linear regression on vertically split rows under Paillier encryption, or predicts.

    One guest with the labels (numbers), one or more hosts with features, one arbiter without data.
    All data parties must have the same ids in the same order: put Intersection before it. The loss
    is half the mean squared error, without approximation.

    The protocol is HeteroLR's. Inputs, warm start, callbacks, cross validation and stepwise
    selection work as in HeteroLR; measures are those of numbers, and smaller errors are better.
    Predictions exist at the guest only: `predict_result` and `predict_score` are the predicted
    number. `predict_param` is without effect.

    Model: `HeteroLinearRegressionMeta`, `HeteroLinearRegressionParam`. Summary: `coef`,
    `intercept`, `is_converged`, `best_iteration`, at the guest `validation_metrics`; at the arbiter
    `loss_history`. Metrics as HeteroLR's. Batches are consecutive rows in stored order.

    Unlike FATE: as in HeteroLR; and with one host and no sample weights guest and host encrypt at
    the same time, as there.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: NotSupportedYet, BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_linear_model(ctx)
