"""A pipeline whose every step is written as FATE takes it and says what is doubtful."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedflow.components.binning.feature_binning import HeteroFeatureBinning
from fedflow.components.features.data_transform import DataTransform
from fedflow.components.features.sample_weight import SampleWeight
from fedflow.components.intersection.intersection import Intersection
from fedflow.components.io.upload import Upload
from fedflow.components.linear.hetero_lr import HeteroLR
from fedflow.domain.site import Role, Site
from fedflow.sdk import Inputs, Outputs, Table
from fedflow.tables.local import LocalTableStore
from fedflow.testing.run import outputs_of, run_component
from fedflow.testing.tables import local_store

LOCAL = Site(Role.LOCAL, "0")  # type: ignore[arg-type]
GUEST = Site(Role.GUEST, "9999")  # type: ignore[arg-type]
HOST = Site(Role.HOST, "10000")  # type: ignore[arg-type]
ARBITER = Site(Role.ARBITER, "10000")  # type: ignore[arg-type]
ROWS = 40


class Bench:
    """Two parties with a store each, and the tables of the last step."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stores: dict[Site, LocalTableStore] = {
            site: local_store(folder / site.key) for site in (GUEST, HOST)
        }
        self.tables: dict[Site, Table] = {}

    def upload(self, site: Site, rows: list[list[object]]) -> Table:
        """Upload rows without a header with `head` 1, as FATE does."""
        file = self.folder / f"{site.key}.csv"
        file.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
        given = {"file": str(file), "namespace": "n", "table_name": "t", "head": 1}
        results = run_component(
            Upload,
            sites=[LOCAL],
            work_dir=self.folder,
            params={LOCAL: given},
            tables={LOCAL: self.stores[site]},
        )
        (table,) = outputs_of(results)[LOCAL].data
        assert table is not None
        self.tables[site] = table
        return table

    def step(
        self,
        module: type[Any],
        *,
        port: str = "data",
        sites: tuple[Site, ...] = (GUEST, HOST),
        own: dict[Site, dict[str, Any]] | None = None,
        **common: Any,
    ) -> dict[Site, Outputs]:
        """Run a module on the tables of the step before."""
        inputs = {
            site: Inputs(data={port: [("before_0", self.tables.get(site))]}, model={})
            for site in sites
        }
        outputs = outputs_of(
            run_component(
                module,
                sites=sites,
                work_dir=self.folder,
                params={site: {**common, **(own or {}).get(site, {})} for site in sites},
                inputs=inputs,
                tables=self.stores,
            )
        )
        for site in (GUEST, HOST):
            table = outputs[site].data[0] if outputs[site].data else None
            if table is not None:
                self.tables[site] = table
        return outputs


def test_what_is_written_as_at_fate_runs_to_the_end_with_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(tmp_path)
    generator = np.random.default_rng(3)
    x = generator.normal(size=(ROWS + 1, 4)).round(2)
    x[0] = 0.5  # the first line, whose cells repeat
    labels = (x.sum(axis=1) > 0).astype(int)
    guest = bench.upload(GUEST, [[f"u{i}", labels[i], *x[i, :2]] for i in range(ROWS + 1)])
    host = bench.upload(HOST, [[f"u{i}", *x[i, 2:]] for i in range(ROWS + 1)])
    assert guest.schema.names == ("u0", "1", "0.5", "0.5_2")
    assert (guest.count, host.schema.names) == (ROWS, ("u0", "0.5", "0.5_2"))

    label = {GUEST: {"with_label": True, "label_name": "1", "label_type": "INT"}}
    bench.step(DataTransform, own=label, input_format="DENSE", output_format="Dense", need_run=1)
    bench.step(Intersection, intersect_method="DH", dh_params={"hash_method": "MD5"})
    bench.step(
        HeteroFeatureBinning,
        method="OPTIMAL",
        bin_names=["0.5", "nobody's"],
        bin_indexes=[],
        transform_param={"transform_type": None},
        optimal_binning_param={"metric_method": "chi-square", "init_bin_nums": 8},
        encrypt_param={"method": "ipcl", "key_length": 1024},
    )
    weights = {GUEST: {"class_weight": {"0": -0.1}}, HOST: {"need_run": False}}
    bench.step(SampleWeight, own=weights)
    outputs = bench.step(
        HeteroLR,
        port="train_data",
        sites=(GUEST, HOST, ARBITER),
        penalty="l2",
        optimizer="SGD",
        early_stop="Weight_Diff",
        tol=-1,
        max_iter=2,
        init_param={"init_method": "ZEROS"},
        encrypt_param={"key_length": 1024},
        callback_param={"callbacks": "PerformanceEvaluate", "validation_freqs": 1},
    )
    model = outputs[GUEST].model
    assert model is not None
    assert set(model.param["weight"]) == {"0.5", "0.5_2"}
    for code in ("DoubtfulHead", "UnknownColumn", "NegativeWeight"):
        assert f"({code})" in caplog.text
