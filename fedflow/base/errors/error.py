"""The class of every error of fedflow."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from fedflow.base.messages import Message, verbatim


class FedflowError(Exception):
    """fedflow failed."""

    code: ClassVar[int] = 1
    retcode: ClassVar[int] = 100  #: FATE's return code
    http: ClassVar[int] = 500  #: for doors that answer with an HTTP status
    public: ClassVar[tuple[str, ...]] = ()
    """Fields that other parties may see, for `domain/outside.py`: ids, sites, components, states,
    parameters of the common conf, and what was asked for. No data, tables, files or addresses."""
    hint: str = "The server's log has the details."  #: of the class; an error may have its own

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.message = Message(self.template(), **fields)
        super().__init__(self.message)

    @classmethod
    def template(cls) -> str:
        """Return the sentence of all errors of this class, with its fields in braces."""
        return (cls.__doc__ or "").strip().splitlines()[0]

    @classmethod
    def repeated(cls, message: str) -> Self:
        """Return an error that another process sent as a sentence: its fields are not known."""
        error = cls.__new__(cls)
        error.fields, error.message = {}, verbatim(message)
        Exception.__init__(error, error.message)
        return error

    @property
    def name(self) -> str:
        """Return the class name, the error's stable word."""
        return type(self).__name__

    @property
    def data(self) -> Any:
        """Return what the doors answer as `data` beside the error; None is nothing."""
        return None

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields, self.message))

    def __str__(self) -> Message:
        return Message("{message} [{code}] {hint}", self.message, self.code, self.hint)

    @property
    def advice(self) -> Message:
        """Return what went wrong and what helps, in two sentences."""
        return Message("{message} {hint}", self.message, self.hint)


def _rebuild(kind: type[FedflowError], fields: dict[str, Any], message: str) -> FedflowError:
    return kind(**fields) if fields else kind.repeated(message)
