"""What the server says, in another language: the translation of a template, with its fields."""

from __future__ import annotations

from collections.abc import Mapping

from fedflow.base.messages import Message, fill


class MessageCatalog:
    """Templates and their translations, and words that stand in a field of some name."""

    def __init__(
        self, sentences: Mapping[str, str], words: Mapping[str, Mapping[str, str]]
    ) -> None:
        """`words` is name of a field -> word -> translation."""
        self._words = words
        self._sentences = {
            **{text.removesuffix("."): told.removesuffix("。") for text, told in sentences.items()},
            **sentences,
        }

    def told(self, text: str) -> str:
        """Return the translation of a message, with that of its fields. One that is not known, or
        plain text, stays as it is; the fields are translated nevertheless.
        """
        if not isinstance(text, Message):
            return self._sentences.get(text, text)
        fields = {name: self._field(name, value) for name, value in text.fields.items()}
        return fill(self._sentences.get(text.template, text.template), fields)

    def _field(self, name: str, value: str) -> str:
        if isinstance(value, Message):
            return self.told(value)
        return self._words.get(name, {}).get(value, value)
