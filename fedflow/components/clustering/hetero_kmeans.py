"""HeteroKmeans: k-means over the columns of several parties with the same rows."""

from __future__ import annotations

from fedflow.components.clustering.arbiter import lead
from fedflow.components.clustering.params import HeteroKmeansParams
from fedflow.components.clustering.parties import take_part
from fedflow.components.clustering.session import MESSAGES, warn_of_arbiter
from fedflow.sdk import Context, Outputs, Role, component


@component(
    "HeteroKmeans",
    roles=("guest", "host", "arbiter"),
    params=HeteroKmeansParams,
    param_name="KmeansParam",
    data_ports=("train_data", "validate_data", "test_data", "eval_data"),
    outputs=("data", "model"),
    messages=MESSAGES,
)
class HeteroKmeans:
    """Puts vertically split rows into clusters by k-means, or into those of a trained model.

    One guest, one or more hosts, one arbiter without data. All data parties must have the same ids
    in the same order: put Intersection before it. Labels are not used, and weights of rows neither.
    Columns count by their spread: scale them first.

    The result is that of plain k-means (Lloyd's iteration) on the joined table. The first centroids
    are `k` different rows that the guest draws. Each iteration puts every row to its nearest
    centroid, then every centroid into the middle of its rows. A cluster without rows keeps its
    centroid. Each party's part of the distances reaches the arbiter masked, so that it learns their
    sums alone. Centroids stay with their party.

    With `train_data` it trains, and puts these rows and those of `validate_data` into clusters.
    With `test_data` and a model it does so without training. A repeated attempt begins anew.

    Outputs of guest and hosts: every row with `label`, `predicted_cluster_index`, `type`. The
    arbiter has two. First the clusters that have rows, with `cluster_sample_count`,
    `cluster_inner_dist` (mean distance to the centroid), `max_radius`, `inter_cluster_dist`,
    `type`. Then the rows by their number, with `predicted_cluster_index`, `distance`, `type`.
    `inter_cluster_dist` lists squared distances to the other centroids. Evaluation reads the first
    output of each party with `eval_type` clustering.

    Model: `HeteroKmeansMeta`, `HeteroKmeansParam`; centroids at the party whose columns they are
    of. Metric `train` / `DBI` at the arbiter: the Davies-Bouldin index of the centroids that an
    iteration begins with, and in the end of the last ones. Summary: `iterations`, `is_converged`,
    `cluster_sizes`, at the arbiter `dbi_history`.

    Unlike FATE: the movements of all hosts count, where FATE reads the first host's alone. The
    arbiter has row numbers, no ids. `max_radius` and `distance` are distances, where FATE writes
    their squares. The Davies-Bouldin index counts the clusters that have rows.
    """

    def run(self, ctx: Context) -> Outputs:
        """Train if `train_data` is connected, else predict `test_data` with the model given.

        Raises: BadParameter, BadData, CodecError, PeerFailed.
        """
        warn_of_arbiter(ctx)
        return lead(ctx) if ctx.site.role is Role.ARBITER else take_part(ctx)
