"""HeteroSSHELR and HeteroSSHELinR: vertical linear models of two parties without an arbiter."""

from __future__ import annotations

from typing import Final

from fedflow.components.linear.fitting import Scheme, run_linear_model
from fedflow.components.sshe import session
from fedflow.components.sshe.fitting import train_in_shares
from fedflow.components.sshe.model import read_model, write_model
from fedflow.components.sshe.params import HeteroSSHELinRParams, HeteroSSHELRParams
from fedflow.components.sshe.scoring import score
from fedflow.components.training import cross_validation, one_vs_rest
from fedflow.sdk import Context, Outputs, component
from fedflow.sdk.protocol import protocol

_MESSAGES: Final = protocol(session.MESSAGES, one_vs_rest.MESSAGES, cross_validation.MESSAGES)

IN_SHARES: Final = Scheme(train=train_in_shares, read=read_model, write=write_model, score=score)

_PORTS = ("train_data", "validate_data", "test_data", "eval_data")


@component(
    "HeteroSSHELR",
    roles=("guest", "host"),
    params=HeteroSSHELRParams,
    data_ports=_PORTS,
    outputs=("data", "model"),
    messages=_MESSAGES,
)
class HeteroSSHELR:
    """Trains a logistic regression of guest and one host by secret sharing, without an arbiter.

    Guest and host must have the same ids in the same order: put Intersection before it. Weights,
    scores and gradients are secret shares of both parties. Products of shares and features are
    computed under Paillier encryption, each party with a key of its own. So nobody sees a gradient
    or a weight before training ends, and no third party is needed. With `reveal_every_iter` each
    party knows its own weights and gradients throughout, which is faster. The sigmoid is linearised
    in training, exact in prediction: scale the features. More than two classes: one training for
    each class against the rest.

    Ports, predictions, warm start, callbacks, checkpoints and cross validation as in HeteroLR; to
    measure between iterations and to stop early need `reveal_every_iter`. Batches keep the stored
    order. Sample weights of the guest count in the gradient, not in the loss.

    With `reveal_strategy` `encrypted_reveal_in_host` the host never knows its weights. Its model
    has them encrypted with a key that the guest's model holds **in clear**, so that prediction
    needs both. Such a model, and a checkpoint of hidden weights (which has shares), can be gone on
    from without `reveal_every_iter` only.

    Model: `HeteroLogisticRegressionMeta`, `HeteroLogisticRegressionParam`. Summary: `coef`,
    `intercept` (both not with `encrypted_reveal_in_host`), `is_converged`, `best_iteration`,
    `one_vs_rest`, at the guest `validation_metrics`. Metric `train` / `loss` at the guest, one
    point per iteration.

    Unlike FATE: shares live in a ring of 192 bits instead of the guest's Paillier modulus. Training
    without encryption is refused. Parameters that both parties compute with must be equal.
    `use_mix_rand` has no effect. A checkpoint of hidden weights does not show them.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_linear_model(ctx, IN_SHARES)


@component(
    "HeteroSSHELinR",
    roles=("guest", "host"),
    params=HeteroSSHELinRParams,
    data_ports=_PORTS,
    outputs=("data", "model"),
    messages=_MESSAGES,
)
class HeteroSSHELinR:
    """Trains a linear regression of guest and one host by secret sharing, without an arbiter.

    All that HeteroSSHELR says holds here, but that labels are numbers and predictions are scores.

    Model: `HeteroLinearRegressionMeta`, `HeteroLinearRegressionParam`. Summary: `coef`, `intercept`
    (both not with `encrypted_reveal_in_host`), `is_converged`, `best_iteration`, at the guest
    `validation_metrics`. Metric `train` / `loss` at the guest, one point per iteration.
    """

    def run(self, ctx: Context) -> Outputs:
        """Fit if `train_data` is connected, else predict `test_data` with the model given.

        Raises: BadParameter, BadData, Diverged, PeerFailed, CodecError.
        """
        return run_linear_model(ctx, IN_SHARES)
