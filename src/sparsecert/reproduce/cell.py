"""One classifier of a study."""

from __future__ import annotations

from dataclasses import dataclass


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
