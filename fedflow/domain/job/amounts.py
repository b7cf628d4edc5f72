"""Cores and memory: what a job takes of a computing engine, and what the engine has."""

from __future__ import annotations

import math
from typing import Final

from fedflow.base.messages import Message, joined
from fedflow.base.values import dataclass
from fedflow.domain.job.engines import SPARK, STANDALONE

UNCOUNTED: Final = 2**53  #: MiB that are free where memory is not counted


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeResources:
    """Cores, and memory in MiB.

    What one party job takes is an amount of its engine. Where several engines of a server count
    together, as in the queue, `cores` and `memory` are of its machine, `spark` of its cluster.
    """

    cores: int = 0
    memory: int = 0
    spark: int = 0  #: cores of the Spark cluster, whose memory is not counted

    def on(self, engine: str) -> ComputeResources:
        """Return what a party job takes of an engine as an amount of all engines."""
        return ComputeResources(spark=self.cores) if engine == SPARK else self

    def of(self, engine: str) -> ComputeResources:
        """Return the part of one engine: the opposite of `on`."""
        if engine == SPARK:
            return ComputeResources(cores=self.spark)
        return ComputeResources(cores=self.cores, memory=self.memory)

    def competes_with(self, other: ComputeResources) -> bool:
        """Tell whether both take something of the same engine."""
        here = (self.cores or self.memory) and (other.cores or other.memory)
        return bool(here or (self.spark and other.spark))

    def __add__(self, other: ComputeResources) -> ComputeResources:
        return ComputeResources(
            cores=self.cores + other.cores,
            memory=self.memory + other.memory,
            spark=self.spark + other.spark,
        )

    def minus(self, other: ComputeResources) -> ComputeResources:
        """Return what is left when `other` is taken away, of neither less than nothing."""
        return ComputeResources(
            cores=max(0, self.cores - other.cores),
            memory=max(0, self.memory - other.memory),
            spark=max(0, self.spark - other.spark),
        )

    def __str__(self) -> Message:
        parts = {
            memory_text(self.memory): self.memory,
            cores_text(self.spark, SPARK): self.spark,
        }
        cores = self.cores or not any(parts.values())
        parts = {cores_text(self.cores): cores, **parts}
        return joined((text for text, amount in parts.items() if amount), " and ")

    def fits(self, free: ComputeResources) -> bool:
        """Tell whether this much is there; who needs none of a thing does not lack it."""
        return (
            self.cores <= max(0, free.cores)
            and self.memory <= max(0, free.memory)
            and self.spark <= max(0, free.spark)
        )


NOTHING: Final = ComputeResources()


def cores_text(cores: int, engine: str = STANDALONE) -> Message:
    """Return a number of cores for people."""
    return Message("{cores} cores on Spark" if engine == SPARK else "{cores} cores", cores=cores)


def memory_text(memory: int) -> Message:
    """Return an amount of memory, in MiB, for people."""
    return Message("{memory} MiB of memory", memory)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What a computing engine of one party has in all."""

    cores: int  #: over all nodes
    memory: int = 0  #: MiB; 0 = not counted
    cores_percent: float = 1.0  #: share of the cores that one job may take, 0 to 1
    engine: str = STANDALONE

    @property
    def cores_per_job(self) -> int:
        """Return the most cores that one job may take."""
        return math.floor(self.cores * self.cores_percent)
