"""Several classes: one training for each class against all others.

MESSAGES

The messages of training number i have the tags `model_<i>.<tag>`, classes in sorted order.
"""

from __future__ import annotations

from typing import Final

from fedflow.components.samples.progress import part_of
from fedflow.components.training.nested import TaggedTracker, nested
from fedflow.components.waiting import wait_for
from fedflow.sdk import BadData, Context, Role
from fedflow.sdk.errors import CodecError
from fedflow.sdk.protocol import protocol

MESSAGES: Final = protocol("""
classes | counts | guest -> hosts, arbiter | {count}: how many classes there are, not which
""")

MAX_CLASSES = 1000  #: so that a wrong label column does not start a training per row


def agree_on_classes(ctx: Context, count: int | None) -> int:
    """Return how many classes the guest has, which alone knows (`count`); all parties call this.

    Raises: CodecError: an impossible number. BadData: the guest has more than `MAX_CLASSES`.
    """
    if count is not None:
        if count > MAX_CLASSES:
            reason = f"{count} classes; at most {MAX_CLASSES} are possible"
            raise BadData(where=f"train data of {ctx.component}", reason=reason)
        others = (*ctx.sites_of(Role.HOST), *ctx.sites_of(Role.ARBITER))
        ctx.federation.send("classes", {"count": count}, to=others)
        return count
    told = wait_for(ctx, "classes", ctx.only(Role.GUEST))
    number = told.get("count") if isinstance(told, dict) else None
    if type(number) is not int or not 2 <= number <= MAX_CLASSES:
        raise CodecError(reason="classes: not a possible number")
    return number


def class_context(ctx: Context, number: int, *, of: int) -> Context:
    """Return the context of the training of class `number`, from 0, `of` so many.

    Losses of single classes are not recorded, as in FATE; other metrics are `model_<i>.<name>`.
    """
    tag = f"model_{number}"
    show = part_of(ctx, start=number / of, end=(number + 1) / of)
    return nested(ctx, tag, tracker=TaggedTracker(ctx.tracker, tag, frozenset({"LOSS"}), show))
