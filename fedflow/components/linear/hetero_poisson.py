"""HeteroPoisson: Poisson regression over the columns of two parties with the same rows."""

from __future__ import annotations

from fedflow.components.linear.fitting import run_linear_model
from fedflow.components.linear.messages import MESSAGES
from fedflow.components.linear.params import HeteroPoissonParams
from fedflow.sdk import Context, Outputs, component


@component(
    "HeteroPoisson",
    roles=("guest", "host", "arbiter"),
    params=HeteroPoissonParams,
    param_name="PoissonParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroPoisson:
    """Trains a Poisson regression on vertically split rows under Paillier encryption, or predicts.

    One guest with the labels (counts, not negative), one host with features, one arbiter without
    data. Both data parties must have the same ids in the same order: put Intersection before it.
    The mean is exp(z + log(exposure)), z the score. `exposure_colname` names the guest's column of
    exposures, which is no feature then. 0 counts as 1e-7. A name that the table does not have is
    ignored, with a warning in the log. A prediction takes the name from the model.

    The protocol is HeteroLR's. Inputs, warm start, callbacks, cross validation and stepwise
    selection work as in HeteroLR; measures are those of numbers. Predictions exist at the guest
    only: `predict_result` and `predict_score` are the mean. `predict_param` is without effect.

    Model: `HeteroPoissonRegressionMeta`, `HeteroPoissonRegressionParam`. Summary: `coef`,
    `intercept`, `is_converged`, `best_iteration`, at the guest `validation_metrics`; at the arbiter
    `loss_history`. Metrics as HeteroLR's. Batches are consecutive rows in stored order.

    Unlike FATE: as in HeteroLR; exps of scores, times weight and exposure, must stay below 2^30,
    else the training ends as diverged.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: NotSupportedYet, BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_linear_model(ctx)
