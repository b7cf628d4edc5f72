"""FlowerApp: an unmodified Flower project as a component.

Importing this module imports nothing of Flower: a server that registers the provider, or checks
parameters, does not wait for it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedflow.flower.params import FlowerParams
from fedflow.flower.project import installed_version
from fedflow.flower.tables import PORTS
from fedflow.sdk import Context, Outputs, component


def flower_app(folder: Path) -> Any:
    """Return the component FlowerApp over the Flower projects in the folders below `folder`.

    Raises: ValueError: this interpreter has no flwr, or none of a tested release.
    """
    installed_version()

    class FlowerAppParams(FlowerParams, frozen=True, kw_only=True):
        """The parameters, checked against the projects of this site."""

        projects = folder

    @component(
        "FlowerApp",
        roles=("guest", "host", "arbiter"),
        params=FlowerAppParams,
        data_ports=PORTS,
        needs_input=False,
        outputs=("data", "model"),
        repeatable=False,
        absence="rounds",
    )
    class FlowerApp:
        """Run a Flower project: ServerApp at the arbiter or guest, ClientApp at the others."""

        def run(self, ctx: Context) -> Outputs:
            os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # which Flower reads when it is imported
            from fedflow.flower.run import run_app

            return run_app(ctx)

    return FlowerApp
