"""One classifier of a study."""

from __future__ import annotations

from dataclasses import dataclass

from sparsecert.schemes import Choice


@dataclass(frozen=True)
class Cell:
    """One trained classifier of a study: how many pixels it retains, how it shows NULL, and how it was trained.

    `recipe` None is the study's usual one, `model` None the recipe's architecture; see `Study.cell`. `scheme` is a
    fixed set of masks, which says itself what is retained: `keep` is then 0.
    """

    keep: int
    encoding: str = "null-channels"
    recipe: str | None = None
    model: str | None = None
    scheme: Choice | None = None

    @property
    def folder(self) -> str:
        """Its folder in the study's."""
        encoding = None if self.encoding == "null-channels" else self.encoding
        masks = f"k{self.keep}" if self.scheme is None else str(self.scheme)
        return "-".join(filter(None, (masks, encoding, self.recipe, self.model)))
