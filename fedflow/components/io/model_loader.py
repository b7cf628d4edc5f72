"""ModelLoader: brings a model of an earlier job into this one."""

from __future__ import annotations

from fedflow.sdk import BadData, Context, Outputs, Params, component


class ModelLoaderParams(Params, frozen=True, kw_only=True):
    """Parameters of ModelLoader."""

    model_id: str | None = None  #: of the stored model, as the job's submit answered it
    model_version: str | None = None  #: of the stored model: the job that trained it
    component_name: str | None = None  #: the component of that job whose model is loaded
    model_alias: str | None = None  #: its output name; null: the one that it has
    step_index: int | None = None  #: load a checkpoint: by its number
    step_name: str | None = None  #: load a checkpoint: by its name
    need_run: bool = True  #: false: load nothing

    def check(self) -> None:
        """The model is named, and a step in one way."""
        if not self.need_run:
            return
        for name in ("model_id", "model_version", "component_name"):
            if not getattr(self, name):
                raise ValueError(f"{name}: it is required")
        if self.step_index is not None and self.step_name is not None:
            raise ValueError("step_index: it must not be given together with step_name")
        if self.step_index is not None and self.step_index < 0:
            raise ValueError("step_index: must not be negative")


@component(
    "ModelLoader",
    roles=("guest", "host", "arbiter"),
    params=ModelLoaderParams,
    data_ports=(),
    needs_input=False,
    outputs=("model",),
    repeatable=False,
    absence="apart",
)
class ModelLoader:
    """Brings a model of an earlier job into this one.

    Each party loads its own part. That it exists is checked when the job is created. Its contents
    are compared with their digests before the task starts. Components that take the output as
    `input.model` go on from it, or predict with it. With a step, the state of the model after that
    step of its training is loaded.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return the model that the server gave. Raises: BadData: it gave none."""
        if not ctx.params.need_run:
            return Outputs(passed=True)
        if not ctx.inputs.model:
            raise BadData(where=ctx.component, reason="the server handed over no stored model")
        model = next(iter(ctx.inputs.model.values()))
        ctx.tracker.metric(
            "model_loader",
            "component_model",
            metric_type="component_model_info",
            meta={
                "model_id": ctx.params.model_id,
                "model_version": ctx.params.model_version,
                "component_name": ctx.params.component_name,
                "step_index": ctx.params.step_index,
                "step_name": ctx.params.step_name,
            },
        )
        return Outputs(model=model)
