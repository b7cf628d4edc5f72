"""HeteroLR: logistic regression over the columns of several parties with the same rows."""

from __future__ import annotations

from fedflow.components.linear.fitting import run_linear_model
from fedflow.components.linear.messages import MESSAGES
from fedflow.components.linear.params import HeteroLRParams
from fedflow.sdk import Context, Outputs, component


@component(
    "HeteroLR",
    roles=("guest", "host", "arbiter"),
    params=HeteroLRParams,
    param_name="HeteroLogisticParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroLR:
    """Trains a logistic regression on vertically split rows under Paillier encryption, or predicts.

    One guest with the labels, one or more hosts with features, one arbiter without data. All data
    parties must have the same ids in the same order: put Intersection before it. The sigmoid is
    linearised in training (Hardy et al. 2017), exact in prediction: scale the features.

    With `train_data` it trains, scores the training rows (and those of `validate_data`), and stores
    a part of the model at each party. With `test_data` and a model it predicts. Predictions
    (columns `label`, `predict_result`, `predict_score`, `predict_detail`, `type`) exist at the
    guest only.

    With more than two classes it trains one model for each class against the rest, in the sorted
    order of the labels. The class with the largest score is predicted. Scores do not add up to 1.

    With a model beside `train_data` training goes on where the model's ended, up to `max_iter`
    iterations in all; columns and classes must be the model's. Callbacks measure between
    iterations, stop when measures of `validate_data` get no better, and store checkpoints. After an
    early stop the best iteration's weights are kept. A repeated attempt goes on from a checkpoint.
    It gives the same model bit for bit, but for mini-batches shuffled without `random_seed`. Each
    validation shows the guest one more weighting of every host's columns.

    With `cv_param.need_cv` the rows are cut into parts and a model is trained without each. The
    guest's measures of both are metrics `train_fold_<k>` and `validate_fold_<k>`, and no model is
    stored. With `stepwise_param.need_stepwise` columns are chosen by AIC or BIC (one host; two
    classes): every candidate is a training, so this takes long.

    Model: `HeteroLogisticRegressionMeta`, `HeteroLogisticRegressionParam`. Summary: `coef`,
    `intercept`, `is_converged`, `best_iteration`, `one_vs_rest`, at the guest `validation_metrics`,
    at the arbiter `loss_history`. With several classes one such object per class, after a cross
    validation one per fold and `fold_num`, after a selection `step_<k>` besides. Metric `train` /
    `loss` at the arbiter, one point per iteration (not of single classes), with a single host only.
    With several there is no loss, and `early_stop` must be `weight_diff`. Metrics `train` or
    `validate` / `iteration_<n>` at the guest, `model_<class>.iteration_<n>` with several classes,
    `fold_<k>.iteration_<n>` in a cross validation; `train` / `stepwise_<k>` and `train` /
    `round_seconds` at all parties.

    Unlike FATE: training without encryption is refused. Guest and hosts refuse a key shorter than
    their own `key_length`. Every ciphertext that leaves a party has a fresh blinding. Every number
    has one fixed scale, so no exponent is sent in clear. Sums reach the arbiter packed. The L1
    shrinkage divides by sqrt(iteration + 1), where FATE divides by zero first. `random_seed` makes
    shuffled batches repeatable. A warm start goes on with the state of the optimizer. Hosts and
    arbiter learn how many classes there are, not which. Trainings of single classes, folds and
    candidates have no checkpoints: a repeated attempt does them all again.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: NotSupportedYet, BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_linear_model(ctx)
