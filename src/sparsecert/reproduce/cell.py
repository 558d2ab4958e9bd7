"""One classifier of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from sparsecert.schemes import FixedMasks, RandomValues, Scheme, SchemeSpec, Uniform
from sparsecert.training.recipes import Recipe

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.encodings import Encoding


@dataclass(frozen=True)
class Cell:
    """One trained classifier of a study: how many pixels it retains, how it shows NULL, and how it was trained.

    `recipe` None is the study's usual one, `model` None the recipe's architecture; see `Study.cell`.
    """

    keep: int
    encoding: str = "null-channels"
    recipe: str | None = None
    model: str | None = None

    @property
    def folder(self) -> str:
        """Its folder in the study's."""
        encoding = None if self.encoding == "null-channels" else self.encoding
        return "-".join(filter(None, (f"k{self.keep}", encoding, self.recipe, self.model)))

    def scheme(self, shape: Sequence[int]) -> Scheme:
        """Its scheme, for images of this shape."""
        return Uniform(prod(shape[1:]), self.keep)

    def encoder(self, data: Dataset, recipe: Recipe) -> Encoding:
        """Its encoding, with the constants of its training set."""
        from sparsecert.training import default_encoding

        return default_encoding(data, recipe, self.encoding)

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe as it is used for this classifier."""
        return replace(recipe, keep=self.keep, model=self.model or recipe.model)

    @property
    def facts(self) -> dict[str, Any]:
        """What the headers of its records say of its scheme and encoding."""
        return {"keep": self.keep, "encoding": self.encoding}


@dataclass(frozen=True)
class RandomValuesCell(Cell):
    """One trained classifier of random values (Lee et al. 2019), which has no `keep`: it is 0.

    Each sample has a draw of its own in training, as Lee et al. have it, whatever the recipe says of masks.
    """

    keep: int = 0
    encoding: str = "replaced-values"
    kappa: str = "0.1"
    values: int = 256

    @property
    def folder(self) -> str:
        """Its folder in the study's."""
        values = None if self.values == 256 else f"values-{self.values}"
        return "-".join(
            filter(None, (f"kappa-{self.facts['kappa']}".replace("/", "-of-"), values, self.recipe, self.model))
        )

    def scheme(self, shape: Sequence[int]) -> Scheme:
        """Its scheme, each entry of an image being a unit."""
        return RandomValues(prod(shape), self.kappa, self.values)

    def encoder(self, data: Dataset, recipe: Recipe) -> Encoding:
        """Its encoding."""
        from sparsecert.encodings import ReplacedValues

        return ReplacedValues(self.values)

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe with a draw for each sample."""
        return replace(recipe, masks="sample", model=self.model or recipe.model)

    @property
    def facts(self) -> dict[str, Any]:
        """What the headers of its records say of its scheme and encoding."""
        config = RandomValues(1, self.kappa, self.values).config()
        return {"kappa": config["kappa"], "values": self.values, "encoding": self.encoding}


@dataclass(frozen=True, kw_only=True)
class FixedCell(Cell):
    """One trained classifier of a fixed set of masks, which says itself what is retained: `keep` is 0."""

    keep: int = 0
    choice: SchemeSpec

    @property
    def folder(self) -> str:
        """Its folder in the study's."""
        encoding = None if self.encoding == "null-channels" else self.encoding
        return "-".join(filter(None, (str(self.choice), encoding, self.recipe, self.model)))

    def scheme(self, shape: Sequence[int]) -> FixedMasks:
        """Its masks, for images of this shape."""
        _, height, width = shape
        scheme = self.choice.of(height, width)
        assert isinstance(scheme, FixedMasks)
        return scheme

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe with these masks."""
        return replace(recipe, scheme=str(self.choice), model=self.model or recipe.model)

    @property
    def facts(self) -> dict[str, Any]:
        """What the headers of its records say of its scheme and encoding."""
        return {"scheme": self.choice.kind, **self.choice.settings, "encoding": self.encoding}
