"""Units of any kind: groups of entries that are ablated together, and protected entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sparsecert.counts import Int64
from sparsecert.encodings.encoding import Encoding
from sparsecert.errors import InputError
from sparsecert.inputs.units import Units
from sparsecert.registry import ENCODINGS, from_config

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.schemes import Scheme
    from sparsecert.training.recipe import Recipe

PROTECTED = -1


@ENCODINGS.register("grouped")
class Grouped(Encoding):
    """An encoding in which a unit is a group of entries, so that certificates count perturbed groups.

        patches = Grouped(NullChannels(), blocks_of(28, 28, 2))            # 196 units of 2 x 2 pixels
        columns = Grouped(NullChannels(), [0, 0, 1, 2, PROTECTED])         # three units of a table with five columns
        values = Grouped(NullChannels(), np.arange(3 * 32 * 32).reshape(3, 32, 32))   # each colour apart

    `groups` has the shape of the places (all channels of a place together) or of the whole input (each channel apart);
    it holds the group of each entry, 0, 1, ..., or PROTECTED for one that is never ablated.

    Guarantee: a mask that retains no perturbed group gives the same copy as before, since a copy depends on the
    retained groups, the protected entries and the mask alone. So certificates hold against every change of up to
    `radius` groups, however many entries of each, but not against changes of protected entries.
    """

    def __init__(self, encoding: Encoding | dict[str, Any], groups: Any) -> None:
        encoding = from_config(ENCODINGS, encoding) if isinstance(encoding, dict) else encoding
        if isinstance(encoding, Grouped) or not isinstance(encoding, Encoding) or encoding.values is not None:
            raise InputError(f"Grouped takes an encoding of NULL that is not grouped itself, got {encoding!r}")
        self.encoding = encoding
        self.groups = _checked(groups)
        self.count = int(self.groups.max()) + 1
        self._tables: dict[torch.device, tuple[torch.Tensor, torch.Tensor]] = {}

    @classmethod
    def for_training(cls, data: Dataset, recipe: Recipe, scheme: Scheme | None = None, **settings: Any) -> Encoding:
        raise InputError(
            "encoding grouped needs groups; for blocks of pixels use another encoding and --unit, such as 2x2"
        )

    def __call__(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """The ablated inputs; `masks` is Bool[rows, groups], True = retained, or Bool[1, groups] for all rows."""
        inputs = inputs if inputs.ndim > 2 else inputs[:, None]
        self._check(inputs.shape[1:])
        return self.encode(inputs, self._spread(masks, inputs.ndim - 1))

    def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
        return self.encoding.encode(inputs, retained)

    def channels(self, channels: int) -> int:
        return self.encoding.channels(channels)

    def check_inputs(self, inputs: torch.Tensor) -> None:
        self.encoding.check_inputs(inputs)

    def units(self, shape: Sequence[int]) -> Units:
        """The groups; inputs of another shape than theirs are refused."""
        self._check(shape if len(shape) > 1 else (1, *shape))
        return Units("features" if len(shape) == 1 else "units", self.count, self._sides(shape))

    def _sides(self, shape: Sequence[int]) -> tuple[int, int] | None:
        """Height and width in blocks that are numbered row by row, as by `blocks_of`; None for other groups."""
        if len(shape) != 3 or self.groups.ndim != 2 or self.protected:
            return None
        y, x = np.divmod(self.groups, self.groups[0].max() + 1)
        for places in (y, x.T):  # the same along a line, and the next one or the same again on the next line
            if (places != places[:, :1]).any() or not np.isin(np.diff(places[:, 0]), (0, 1)).all():
                return None
        return int(y.max()) + 1, int(x.max()) + 1

    @property
    def takes_missing(self) -> bool:  # type: ignore[override]
        return self.encoding.takes_missing

    @property
    def protected(self) -> int:  # type: ignore[override]
        """Entries that are never ablated."""
        return int((self.groups == PROTECTED).sum())

    def perturbed(self, differs: torch.Tensor) -> torch.Tensor:
        """Bool[rows, groups]: the groups with an entry that differs; protected entries are in none."""
        differs = differs if differs.ndim > 2 else differs[:, None]
        self._check(differs.shape[1:])
        entries = differs.flatten(1) if self.groups.ndim == differs.ndim - 1 else differs.any(dim=1).flatten(1)
        places, protected = self._on(differs.device)
        counts = torch.zeros(len(differs), self.count, dtype=torch.int32, device=differs.device)
        return counts.index_add_(1, places, (entries & ~protected).int()) > 0

    def __repr__(self) -> str:
        kept = f", {self.protected} protected entries" if self.protected else ""
        return f"Grouped({self.encoding}, {self.count} groups{kept})"

    def _spread(self, masks: torch.Tensor, dimensions: int) -> torch.Tensor:
        """Bool[rows, 1 or channels, *places]: which entries are shown."""
        places, protected = self._on(masks.device)
        shown = masks[:, places] | protected
        channels = () if self.groups.ndim == dimensions else (1,)
        return shown.view(len(masks), *channels, *self.groups.shape)

    def _on(self, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
        """The flat groups, 0 for a protected entry, and which entries are protected; copied to the device once."""
        if device not in self._tables:
            flat = torch.tensor(self.groups.reshape(-1))
            self._tables[device] = flat.clamp(min=0).to(device), (flat == PROTECTED).to(device)
        return self._tables[device]

    def _check(self, shape: Sequence[int]) -> None:
        if self.groups.shape not in (tuple(shape), tuple(shape[1:])):
            raise InputError(f"groups of shape {self.groups.shape} do not fit inputs of shape {tuple(shape)}")


def blocks_of(height: int, width: int, rows: int, columns: int | None = None) -> Int64:
    """int64[height, width]: groups of rows x columns pixels (default: square), smaller at the far edges.

    They are numbered row by row and so form an image: a Lattice or Bands of its size fits them.
    """
    columns = rows if columns is None else columns
    if min(height, width, rows, columns) < 1:
        raise InputError(
            f"sizes must be at least 1, got an image of {height} x {width} and blocks of {rows} x {columns}"
        )
    y, x = np.divmod(np.arange(height * width), width)
    blocks: Int64 = y // rows * -(-width // columns) + x // columns
    return blocks.reshape(height, width)


def _checked(groups: Any) -> Int64:
    """The groups as int64[...]; refuses gaps in their numbers."""
    try:
        found = np.asarray(groups)
    except ValueError:  # rows of different lengths
        found = np.empty(0)
    if found.size == 0 or found.ndim == 0 or not np.issubdtype(found.dtype, np.integer):
        raise InputError(
            f"groups must be an array of whole numbers, one for each entry of an input, got {groups!r:.80}"
        )
    found = found.astype(np.int64)
    used = np.unique(found[found != PROTECTED])
    if len(used) == 0 or not np.array_equal(used, np.arange(len(used))):
        raise InputError(
            f"groups must be numbered 0, 1, ... without a gap, {PROTECTED} where protected, got {used.tolist()!s:.80}"
        )
    found.setflags(write=False)
    return found
