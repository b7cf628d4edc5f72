"""HeteroFeatureSelection, OneHotEncoder, HomoOneHotEncoder and FeatureImputation online."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedflow.components.features.cells import CellType, SpecialValues
from fedflow.components.features.homo_one_hot import PARAM as HOMO_PARAM
from fedflow.components.features.homo_one_hot import HomoOneHotEncoderParams
from fedflow.components.features.imputation import FeatureImputationParams, read_fills
from fedflow.components.features.one_hot import Encoding, OneHotEncoderParams
from fedflow.components.features.replacing import Value, as_type
from fedflow.components.selection.params import HeteroFeatureSelectionParams
from fedflow.components.selection.stored import PARAM_NAME, kept_columns
from fedflow.serving.scoring.batch import (
    Batch,
    Flags,
    Floats,
    OnlineStep,
    Places,
    RowHeader,
)
from fedflow.serving.scoring.registry import StepSource

_EXACT = 2.0**53  #: numbers up to it are categories, as in OneHotEncoder


def hetero_feature_selection(source: StepSource) -> OnlineStep:
    """Return the step. Raises: ValueError, BadData: rows and model do not fit."""
    if not source.params(HeteroFeatureSelectionParams).need_run:
        return OnlineStep(header=source.header)
    kept = kept_columns(source.stored(PARAM_NAME), where=source.component)
    header = source.header
    places = header.places(kept)

    def select(batch: Batch) -> Batch:
        texts = {name: values for name, values in batch.texts.items() if name in kept}
        return replace(batch, features=batch.features[:, places], texts=texts)

    return OnlineStep(
        header=RowHeader(
            columns=kept,
            texts=header.texts.intersection(kept),
            whole=header.whole.intersection(kept),
        ),
        work=select,
    )


def one_hot_encoder(source: StepSource) -> OnlineStep:
    """Return the step. Raises: ValueError, BadData: rows and model do not fit."""
    return _encoding(source, OneHotEncoderParams, "OneHotParam")


def homo_one_hot_encoder(source: StepSource) -> OnlineStep:
    """Return the step. Raises: as `one_hot_encoder`."""
    return _encoding(source, HomoOneHotEncoderParams, HOMO_PARAM)


def _encoding(source: StepSource, kind: type[OneHotEncoderParams], stored: str) -> OnlineStep:
    if not source.params(kind).need_run:
        return OnlineStep(header=source.header)
    encoding, header = Encoding.from_model(source.stored(stored)), source.header
    header.places(tuple(encoding.values))
    columns = tuple(new for name in header.columns for new in encoding.names(name))
    if len(set(columns)) < len(columns):
        raise ValueError("one of its new columns has the name of another column")
    made = {new for name in encoding.values for new in encoding.names(name)}
    new = RowHeader(
        columns=columns,
        texts=header.texts - set(encoding.values),
        whole=(header.whole - set(encoding.values)) | made,
    )
    return OnlineStep(header=new, work=_OneHot.of(encoding, header, new))


@dataclass(frozen=True, kw_only=True, slots=True)
class _OneHot:
    """Where the cells of the new columns come from."""

    kept: tuple[Places, Places]  #: columns that stay: their places before and afterwards
    numbers: tuple[Places, Places, Floats]  #: places before, after, and the category of each
    texts: Sequence[tuple[str, int, str]]  #: column of text, place afterwards, category
    width: int
    encoded: Mapping[str, int]  #: place of each column of numbers that is encoded

    @staticmethod
    def of(encoding: Encoding, header: RowHeader, new: RowHeader) -> _OneHot:
        after = {name: place for place, name in enumerate(new.columns)}
        before = {name: place for place, name in enumerate(header.columns)}
        kept = [name for name in header.columns if name not in encoding.values]
        numbers, texts = [], []
        for name, values in encoding.values.items():
            for made, value in zip(encoding.names(name), values, strict=True):
                if name in header.texts:
                    texts.append((name, after[made], value))
                else:
                    numbers.append((before[name], after[made], _category(value)))
        return _OneHot(
            kept=(header.places(kept), new.places(kept)),
            numbers=(
                np.array([before for before, _, _ in numbers], dtype=np.intp),
                np.array([after for _, after, _ in numbers], dtype=np.intp),
                np.array([value for _, _, value in numbers], dtype=np.float64),
            ),
            texts=texts,
            width=len(new.columns),
            encoded={n: before[n] for n in encoding.values if n not in header.texts},
        )

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows with their new columns; rows with fractions in old ones have an error."""
        own = batch.features
        for name, place in self.encoded.items():
            values = own[:, place]
            odd: Flags = (np.floor(values) != values) & ~np.isnan(values)
            odd |= np.abs(values) > _EXACT
            batch.fail(odd, f"column {name!r} holds no whole number; bin it first")
        features = np.zeros((len(own), self.width))
        features[:, self.kept[1]] = own[:, self.kept[0]]
        before, after, categories = self.numbers
        features[:, after] = own[:, before] == categories
        for name, place, category in self.texts:
            features[:, place] = [value == category for value in batch.texts[name]]
        gone = {name for name, _, _ in self.texts}
        texts = {name: values for name, values in batch.texts.items() if name not in gone}
        return replace(batch, features=features, texts=texts)


def _category(text: str) -> float:
    """Return the number of a category, NaN (which equals none) if no number is written like it."""
    try:
        number = int(text)
    except ValueError:
        return np.nan
    return float(number) if str(number) == text and abs(number) <= _EXACT else np.nan


def feature_imputation(source: StepSource) -> OnlineStep:
    """Return the step. Raises: ValueError, BadData: rows and model do not fit."""
    header = source.header
    if not source.params(FeatureImputationParams).need_run:
        return OnlineStep(header=header)
    fills, marks = read_fills(source.stored("FeatureImputationParam"))
    header.places(tuple(fills))
    values = {
        name: as_type(value, _kind(header, name), where=f"column {name!r}")
        for name, value in fills.items()
    }
    return OnlineStep(header=header, work=_filling(header, values, marks))


def _filling(header: RowHeader, values: Mapping[str, Value], marks: SpecialValues) -> _Filling:
    numbers = [name for name in values if name not in header.texts]
    return _Filling(
        places=header.places(numbers),
        values=np.array([float(values[name]) for name in numbers]),
        marks=marks,
        texts={name: str(value) for name, value in values.items() if name in header.texts},
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Filling:
    """What stands in for missing cells and marks of columns."""

    places: Places  #: of columns of numbers
    values: Floats  #: for each of them
    marks: SpecialValues
    texts: Mapping[str, str]

    def __call__(self, batch: Batch) -> Batch:
        """Return the rows with cells filled."""
        features = batch.features.copy()
        own = features[:, self.places]
        gaps = np.isnan(own)
        for mark in self.marks.numbers:
            gaps |= own == mark
        features[:, self.places] = np.where(gaps, self.values, own)
        texts = {
            name: [self._text(name, value) for value in values]
            for name, values in batch.texts.items()
        }
        return replace(batch, features=features, texts=texts)

    def _text(self, name: str, value: str | None) -> str | None:
        is_gap = value is None or value in self.marks.texts
        return self.texts.get(name, value) if is_gap else value


def _kind(header: RowHeader, name: str) -> CellType:
    if name in header.texts:
        return CellType.TEXT
    return CellType.INT if name in header.whole else CellType.FLOAT
