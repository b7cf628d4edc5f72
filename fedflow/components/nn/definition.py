"""What a job may define: layers, a loss and an optimizer of PyTorch, by name and plain arguments.

Names are those of these lists, so a conf of another party creates nothing else. The form is that of
FATE's SDK: `{"0-0": {"layer": "Linear", "in_features": 30, "out_features": 1}, "1-1": {...}}`, a
network of layers in the order of the first numbers; nested networks have `layer` "Sequential".
Nothing here imports PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MAX_LAYERS: Final = 1000
MAX_DEPTH: Final = 8  #: networks in networks


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LAYERS: Final = _words(
    """
    Linear Bilinear Identity Embedding EmbeddingBag Flatten Unflatten
    Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d
    MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d
    AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d
    BatchNorm1d BatchNorm2d BatchNorm3d LayerNorm GroupNorm InstanceNorm1d InstanceNorm2d
    Dropout Dropout1d Dropout2d Dropout3d AlphaDropout
    ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU Mish Sigmoid LogSigmoid Tanh
    Softmax LogSoftmax Softmin Softplus Softshrink Softsign Hardtanh Hardsigmoid Hardshrink
    Hardswish Tanhshrink Threshold GLU Upsample ZeroPad2d ConstantPad1d ConstantPad2d
    """
)
BINARY_LOSSES: Final = frozenset({"BCELoss", "BCEWithLogitsLoss", "SoftMarginLoss"})
CLASS_LOSSES: Final = frozenset({"CrossEntropyLoss", "NLLLoss", "MultiMarginLoss"})
NUMBER_LOSSES: Final = frozenset(
    {"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss"}
)
OPTIMIZERS: Final = _words("SGD Adam AdamW Adamax NAdam RAdam RMSprop Adagrad Adadelta ASGD Rprop")

#: layers that leave numbers as they are when a network predicts
_KEEPING: Final = _words(
    "Identity Flatten Unflatten Dropout Dropout1d Dropout2d Dropout3d AlphaDropout"
)

CUSTOM_MODEL: Final = "CustModel"
CUSTOM_LOSS: Final = "CustLoss"
SEQUENTIAL: Final = "Sequential"

#: arguments of FATE's SDK that say nothing here: where tensors lie, and how weights begin
_LEFT_OUT: Final = frozenset({"layer", "initializer", "device", "dtype", "optimizer"})
#: arguments of losses that FATE's SDK sends as null
_UNSET: Final = frozenset({"size_average", "reduce", "weight", "pos_weight"})
_INITIAL: Final = frozenset({"weight", "bias"})
_KEY = re.compile(r"(\d+)-(\w+)")
_NAME = re.compile(r"[A-Za-z_]\w{0,99}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Custom:
    """A class in a module of the party's own folder."""

    module: str
    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(value: Mapping[str, Any], *, where: str, module_key: str) -> Custom:
        """Return what `value` names. Raises: ValueError: `<where>: <sentence>`."""
        module = str(value.get(module_key, "")).removesuffix(".py")
        name = value.get("class_name")
        if not _NAME.fullmatch(module) or not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{where}: {module_key} and class_name must be names in Python")
        arguments = value.get("param") or {}
        return Custom(module=module, name=name, arguments=_arguments(arguments, where=where))


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One layer: a class of `torch.nn`, layers in a row, or a class of the party's own."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    inner: tuple[Layer, ...] = ()  #: of a Sequential
    custom: Custom | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Named:
    """A loss or an optimizer."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    custom: Custom | None = None


def last_layer(layers: tuple[Layer, ...]) -> Layer:
    """Return the layer that makes the outputs; those that only shape them or are off are not."""
    flat = [one for one in _all(layers) if not one.inner and one.name not in _KEEPING]
    return flat[-1] if flat else Layer(name="Identity")


def own_classes(layers: tuple[Layer, ...]) -> list[Custom]:
    """Return the classes of the party's own that a network is made of."""
    return [one.custom for one in _all(layers) if one.custom is not None]


def layers_of(define: Any, *, where: str = "nn_define") -> tuple[Layer, ...]:
    """Return the layers that a definition names, in order.

    Raises: ValueError: `<where>...: <sentence>`: it is no definition, a name is unknown, or it is
        too long or too deep.
    """
    layers = _layers(define, where=where, depth=1)
    if sum(1 for _ in _all(layers)) > MAX_LAYERS:
        raise ValueError(f"{where}: more than {MAX_LAYERS} layers")
    return layers


def loss_of(define: Any, *, where: str = "loss") -> Named:
    """Return a loss. Raises: ValueError: `<where>: <sentence>`."""
    name, arguments = _named(define, key="loss_fn", where=where)
    if name == CUSTOM_LOSS:
        custom = Custom.of(define, where=where, module_key="loss_module_name")
        return Named(name=name, custom=custom)
    _known(name, BINARY_LOSSES | CLASS_LOSSES | NUMBER_LOSSES, where=where)
    given = {k: v for k, v in arguments.items() if not (k in _UNSET and v is None)}
    if unset := sorted(set(given) & _UNSET):
        raise ValueError(f"{where}.{unset[0]}: must be left out or null")
    if given.pop("reduction", "mean") != "mean":
        raise ValueError(f"{where}.reduction: losses are means of a batch's rows")
    return Named(name=name, arguments=given)


def optimizer_of(define: Any, *, where: str = "optimizer") -> Named:
    """Return an optimizer. Raises: ValueError: `<where>: <sentence>`."""
    name, arguments = _named(define, key="optimizer", where=where)
    _known(name, OPTIMIZERS, where=where)
    kind = arguments.pop("config_type", "pytorch")
    if kind != "pytorch":
        raise ValueError(f"{where}.config_type: {kind!r} is not pytorch")
    return Named(name=name, arguments=arguments)


def _layers(define: Any, *, where: str, depth: int) -> tuple[Layer, ...]:
    if not isinstance(define, Mapping) or not define:
        raise ValueError(f"{where}: no layers by names such as 0-0")
    if depth > MAX_DEPTH:
        raise ValueError(f"{where}: more than {MAX_DEPTH} networks in each other")
    found: list[tuple[int, Layer]] = []
    for key, value in define.items():
        match = _KEY.fullmatch(str(key))
        if match is None:
            raise ValueError(f"{where}: {key!r} is not a name such as 0-0")
        found.append((int(match[1]), _layer(value, where=f"{where}.{key}", depth=depth)))
    if len({number for number, _ in found}) < len(found):
        raise ValueError(f"{where}: two layers have one number")
    return tuple(layer for _, layer in sorted(found, key=lambda pair: pair[0]))


def _layer(value: Any, *, where: str, depth: int) -> Layer:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: no layer")  # noqa: TRY004  the form of a mistake
    if "layer" not in value:  # as FATE's SDK writes a network in a network
        return Layer(name=SEQUENTIAL, inner=_layers(value, where=where, depth=depth + 1))
    name = value["layer"]
    if name == SEQUENTIAL:
        inner = {k: v for k, v in value.items() if k not in _LEFT_OUT}
        return Layer(name=name, inner=_layers(inner, where=where, depth=depth + 1))
    if name == CUSTOM_MODEL:
        custom = Custom.of(value, where=where, module_key="module_name")
        return Layer(name=name, custom=custom)
    _known(name, LAYERS, where=where)
    initial = value.get("initializer") or {}
    if not isinstance(initial, Mapping) or any(initial.get(k) for k in _INITIAL):
        raise ValueError(f"{where}.initializer: weights begin as PyTorch's, by torch_seed")
    for place in ("device", "dtype"):
        if value.get(place) is not None:
            raise ValueError(f"{where}.{place}: layers are of float32 on the processor")
    arguments = {k: v for k, v in value.items() if k not in _LEFT_OUT}
    return Layer(name=name, arguments=_arguments(arguments, where=where))


def _named(define: Any, *, key: str, where: str) -> tuple[str, dict[str, Any]]:
    if not isinstance(define, Mapping) or not isinstance(define.get(key), str):
        raise ValueError(f"{where}: no {key}")  # noqa: TRY004  the form of a mistake
    arguments = {k: v for k, v in define.items() if k != key}
    return define[key], dict(_arguments(arguments, where=where))


def _known(name: Any, names: frozenset[str], *, where: str) -> None:
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"{where}: {name!r} is not one of {', '.join(sorted(names))}")


def _arguments(value: Any, *, where: str) -> Mapping[str, Any]:
    """Return arguments by name. Raises: ValueError: a name is none in Python."""
    if not isinstance(value, Mapping) or not all(_NAME.fullmatch(str(name)) for name in value):
        raise ValueError(f"{where}: arguments must have names")
    return {str(name): one for name, one in value.items()}


def _all(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    for layer in layers:
        yield layer
        yield from _all(layer.inner)
