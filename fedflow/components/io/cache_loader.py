"""CacheLoader: brings what an earlier job kept into this one."""

from __future__ import annotations

from fedflow.sdk import BadData, Context, Outputs, Params, component


class CacheLoaderParams(Params, frozen=True, kw_only=True):
    """Parameters of CacheLoader: the cache's key, or the job and component that made it."""

    cache_key: str | None = None  #: as the metric `cache` of the component that made it tells
    job_id: str | None = None  #: the job that made it
    component_name: str | None = None  #: the component of that job
    cache_name: str | None = None  #: its output name; null: the only one

    def check(self) -> None:
        """A cache is named."""
        if not self.cache_key and not (self.job_id and self.component_name):
            raise ValueError("cache_key: it is required, or job_id and component_name are")


@component(
    "CacheLoader",
    roles=("guest", "host"),
    params=CacheLoaderParams,
    data_ports=(),
    needs_input=False,
    outputs=("cache",),
    repeatable=False,
)
class CacheLoader:
    """Brings what an earlier job kept into this one, as an input of Intersection.

    Each party loads its own share; exactly one cache of that party must fit the parameters. With a
    `cache_key`, which differs per party, give it per party.
    """

    def run(self, ctx: Context) -> Outputs:
        """Return the cache that the server gave. Raises: BadData: it gave none."""
        if not ctx.inputs.cache:
            raise BadData(where=ctx.component, reason="the server handed over no cache")
        (cache,) = ctx.inputs.cache.values()
        ctx.tracker.metric(
            "cache_loader", "cache_info", metric_type="cache_info", meta=dict(cache.meta)
        )
        return Outputs(cache=(cache,))
