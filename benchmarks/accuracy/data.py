"""The data sets, as text for the parties and as joined numbers for the plaintext tools.

They are those of FATE's examples; sizes and origins stand in the folder's README.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class NoData(Exception):
    """A file of the data folder is missing."""


@dataclass(frozen=True)
class Vertical:
    """A table of which guest and host have different columns; cells are text, the first the id."""

    name: str
    guest: pd.DataFrame  #: id, label, features
    host: pd.DataFrame  #: id, features
    label: str

    @cached_property
    def joined(self) -> pd.DataFrame:
        """Return label and features of the rows that both have, by id, in the guest's order.

        An empty cell is NaN.
        """
        guest = self.guest.set_index(self.guest.columns[0])
        host = self.host.set_index(self.host.columns[0]).add_prefix("host.")
        cells = guest.join(host, how="inner").replace("", "nan")
        return cells.astype(np.float64)  # `to_numeric` may be an ulp off

    @property
    def features(self) -> Floats:
        """Return rows x (guest's, then host's columns)."""
        return np.asarray(self.joined.drop(columns=self.label), dtype=np.float64)

    @property
    def labels(self) -> Floats:
        return np.asarray(self.joined[self.label], dtype=np.float64)

    @property
    def guest_columns(self) -> list[str]:
        return [name for name in self.guest.columns[1:] if name != self.label]

    def own(self, role: str) -> pd.DataFrame:
        """Return the numbers of one party's features."""
        columns = self.guest_columns if role == "guest" else list(self.host.columns[1:])
        return getattr(self, role)[columns].astype(np.float64)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFolder:
    """Where the CSV files are."""

    path: Path

    def csv(self, name: str) -> pd.DataFrame:
        """Return a file's cells as text. Raises: NoData."""
        file = self.path / f"{name}.csv"
        if not file.is_file():
            raise NoData(
                f"There is no {file}. Name the folder of FATE's example data with --data or"
                " FEDFLOW_ACCURACY_DATA."
            )
        return pd.read_csv(file, dtype=str, keep_default_na=False)

    def pair(self, name: str, label: str = "y") -> Vertical:
        """Return a vertical data set of two files. Raises: NoData."""
        guest, host = self.csv(f"{name}_guest"), self.csv(f"{name}_host")
        return Vertical(name, guest, host, label)

    def breast(self) -> Vertical:
        return self.pair("breast_hetero")

    def credit(self, rows: int) -> Vertical:
        """Return the first rows of default_credit_homo_guest, cut as default_credit_hetero is."""
        whole = self.csv("default_credit_homo_guest").head(rows)
        return _cut(f"default_credit ({rows} rows)", whole)

    def whole_credit(self) -> Vertical:
        """Return default_credit_hetero: the rows of the four horizontal files, cut as it is."""
        parts = [
            self.csv(f"default_credit_homo_{part}")
            for part in ("guest", "host_1", "host_2", "test")
        ]
        return _cut("default_credit", pd.concat(parts, ignore_index=True))

    def motor(self) -> Vertical:
        return self.pair("motor_hetero", "motor_speed")

    def student(self) -> Vertical:
        return self.pair("student_hetero")

    def dvisits(self) -> Vertical:
        return self.pair("dvisits_hetero", "doctorco")

    def vehicle(self) -> Vertical:
        return self.pair("vehicle_scale_hetero")

    def ionosphere(self) -> Vertical:
        return self.pair("ionosphere_scale_hetero", "label")


def _cut(name: str, whole: pd.DataFrame) -> Vertical:
    """Return columns x0 to x12 as the guest's, and x13 to x22 as x0 to x9 of the host."""
    guest = whole[["id", "y", *(f"x{i}" for i in range(13))]]
    host = whole[["id", *(f"x{i}" for i in range(13, 23))]]
    host = host.rename(columns={f"x{i}": f"x{i - 13}" for i in range(13, 23)})
    return Vertical(name, guest, host, "y")
