"""The specification of one model of a study."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from sparsecert.datasets import Dataset
from sparsecert.encodings import Encoding, ReplacedValues
from sparsecert.schemes import FixedMasks, RandomValues, Scheme, SchemeSpec, Uniform
from sparsecert.training import default_encoding
from sparsecert.training.recipes import Recipe


@dataclass(frozen=True)
class ModelSpec:
    """One model of a study: how many pixels it retains, how it encodes NULL, and how it is trained.

    `recipe` None is the data set's default, `model` None the recipe's architecture; see `Study.spec`.
    """

    keep: int
    encoding: str = "null-channels"
    recipe: str | None = None
    model: str | None = None

    @property
    def folder(self) -> str:
        """The name of its folder."""
        encoding = None if self.encoding == "null-channels" else self.encoding
        return "-".join(filter(None, (f"k{self.keep}", encoding, self.recipe, self.model)))

    def scheme(self, shape: Sequence[int]) -> Scheme:
        """Its scheme, for images of this shape."""
        return Uniform(prod(shape[1:]), self.keep)

    def encoder(self, data: Dataset, recipe: Recipe) -> Encoding:
        """Its encoding, with the constants of its training set."""

        return default_encoding(data, recipe, self.encoding)

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe, adapted to this model."""
        return replace(recipe, keep=self.keep, model=self.model or recipe.model)

    @property
    def settings(self) -> dict[str, Any]:
        """Its scheme and encoding, as the headers of its records state them."""
        return {"keep": self.keep, "encoding": self.encoding}


@dataclass(frozen=True)
class RandomValuesSpec(ModelSpec):
    """A model of random values (Lee et al. 2019); `keep` is 0.

    In training every sample gets its own draw, as in Lee et al., whatever the recipe says about masks.
    """

    keep: int = 0
    encoding: str = "replaced-values"
    kappa: str = "0.1"
    values: int = 256

    @property
    def folder(self) -> str:
        """The name of its folder."""
        values = None if self.values == 256 else f"values-{self.values}"
        return "-".join(
            filter(None, (f"kappa-{self.settings['kappa']}".replace("/", "-of-"), values, self.recipe, self.model))
        )

    def scheme(self, shape: Sequence[int]) -> Scheme:
        """Its scheme, each entry of an image being a unit."""
        return RandomValues(prod(shape), self.kappa, self.values)

    def encoder(self, data: Dataset, recipe: Recipe) -> Encoding:
        return ReplacedValues(self.values)

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe with a draw for each sample."""
        return replace(recipe, masks="sample", model=self.model or recipe.model)

    @property
    def settings(self) -> dict[str, Any]:
        """Its scheme and encoding, as the headers of its records state them."""
        config = RandomValues(1, self.kappa, self.values).config()
        return {"kappa": config["kappa"], "values": self.values, "encoding": self.encoding}


@dataclass(frozen=True, kw_only=True)
class FixedMasksSpec(ModelSpec):
    """A model of a fixed set of masks; `keep` is 0."""

    keep: int = 0
    scheme_spec: SchemeSpec

    @property
    def folder(self) -> str:
        """The name of its folder."""
        encoding = None if self.encoding == "null-channels" else self.encoding
        return "-".join(filter(None, (str(self.scheme_spec), encoding, self.recipe, self.model)))

    def scheme(self, shape: Sequence[int]) -> FixedMasks:
        """Its masks, for images of this shape."""
        _, height, width = shape
        scheme = self.scheme_spec.of(height, width)
        assert isinstance(scheme, FixedMasks)
        return scheme

    def trained_by(self, recipe: Recipe) -> Recipe:
        """The recipe with these masks."""
        return replace(recipe, scheme=str(self.scheme_spec), model=self.model or recipe.model)

    @property
    def settings(self) -> dict[str, Any]:
        """Its scheme and encoding, as the headers of its records state them."""
        return {"scheme": self.scheme_spec.kind, **self.scheme_spec.settings, "encoding": self.encoding}
