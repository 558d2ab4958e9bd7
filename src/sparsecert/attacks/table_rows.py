"""Rows of a table under attack: each unit takes values that it has in some row, or is missing."""

from __future__ import annotations

import numpy as np
import torch

from sparsecert.attacks.defenders import Answers, Defender, NoGradients
from sparsecert.counts import Float64, Int64


class TableRows:
    """Rows as images of bits, for attacks that set pixels to random bounds: a pixel is a unit, its channels are the
    bits of a number, and the numbers list the values that the unit has in the table.

    So an attack that draws a pixel draws a value from the table, groups of columns together, or a missing one, and
    whatever it finds is made of values that occur. A row of the table becomes the same row again, bit for bit.
    """

    def __init__(self, rows: Float64, units: Int64) -> None:
        """units: int64[columns], the unit of each column (none protected)."""
        self.columns = [np.flatnonzero(units == unit) for unit in range(int(units.max()) + 1)]
        self.values: list[Float64] = []
        for columns in self.columns:
            missing = np.full((1, len(columns)), np.nan)
            distinct = np.unique(_as_bytes(np.concatenate((rows[:, columns], missing))))
            self.values.append(distinct.view(np.float64).reshape(-1, len(columns)))
        self.bits = max(1, *((len(values) - 1).bit_length() for values in self.values))

    @property
    def units(self) -> int:
        return len(self.columns)

    def encode(self, rows: torch.Tensor) -> torch.Tensor:
        """float[b, bits, units]: rows of the table."""
        numbers = np.empty((len(rows), self.units), dtype=np.int64)
        for unit, (columns, values) in enumerate(zip(self.columns, self.values, strict=True)):
            numbers[:, unit] = np.searchsorted(_as_bytes(values), _as_bytes(rows.numpy()[:, columns]))
        return torch.from_numpy(numbers[:, None] >> np.arange(self.bits)[None, :, None] & 1).float()

    def decode(self, images: torch.Tensor) -> torch.Tensor:
        """Float64[b, columns]: a number above those of a unit begins again at 0."""
        bits = (images.numpy() > 0.5).astype(np.int64)
        numbers = (bits << np.arange(self.bits)[None, :, None]).sum(axis=1)
        rows = np.empty((len(images), sum(map(len, self.columns))))
        for unit, (columns, values) in enumerate(zip(self.columns, self.values, strict=True)):
            rows[:, columns] = values[numbers[:, unit] % len(values)]
        return torch.from_numpy(rows)

    def changed(self, rows: torch.Tensor, originals: torch.Tensor) -> torch.Tensor:
        """Bool[b, units]: the units in which rows differ; missing values are equal."""
        differs = (rows != originals) & ~(rows.isnan() & originals.isnan())
        return torch.stack([differs[:, columns].any(dim=1) for columns in self.columns], dim=1)


def _as_bytes(values: Float64) -> np.ndarray[tuple[int], np.dtype[np.void]]:
    """Void[rows]: equal where rows are, all missing values being alike."""
    alike = np.ascontiguousarray(np.where(np.isnan(values), np.nan, values))
    return alike.view(np.dtype((np.void, 8 * values.shape[1])))[:, 0]


class RowsDefender(Defender):
    """A defender of rows that is shown them as images of `TableRows`; it has no gradients."""

    def __init__(self, defender: Defender, table: TableRows) -> None:
        self.defender, self.table = defender, table

    def answers(
        self, images: torch.Tensor, slots: torch.Tensor | None = None, against: torch.Tensor | None = None
    ) -> Answers:
        return self.defender.answers(self.table.decode(images), slots, against)

    def accept(self, places: torch.Tensor) -> None:
        self.defender.accept(places)

    def scores(self, images: torch.Tensor) -> torch.Tensor:
        raise NoGradients("rows of a table have no gradients; use a black-box attack")

    @property
    def is_random(self) -> bool:
        return self.defender.is_random
