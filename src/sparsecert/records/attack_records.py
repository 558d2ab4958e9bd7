"""What an attack found for one image, as a line of its records. No torch here."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any


def check_attack(run: dict[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError unless the run has the facts that findings are checked against."""
    low, high = run["bounds"]
    counts = [*run["data"]["shape"], *([] if run["budget"] is None else [run["budget"]])]
    counts += [run["masks"]] if "rule" in run else []
    if not low < high or not all(type(count) is int and count > 0 for count in counts):
        raise ValueError


@dataclass(frozen=True)
class AttackRecord:
    """One image of an attack run: its number in the data set, its true label, and the nearest image that fooled.

    distance: how many pixels that image changes; 0 where the defender is wrong about the original, None where nothing
    was found. said: the defender's answer to it, None where it abstains. The image is kept as the pixels it changes,
    numbered row by row, and the values that each gets in all channels, so that the original with these changes is that
    image bit for bit. failed: why the image could not be attacked, where the model gives no answer to it.
    """

    example: int
    true: int
    distance: int | None
    said: int | None
    queries: int
    evaluations: int
    seconds: float
    pixels: tuple[int, ...] = ()
    values: tuple[tuple[float, ...], ...] = ()
    failed: str | None = None

    @property
    def abstained(self) -> bool:
        """Whether the defender was brought to abstain, which is no answer but not a wrong one either."""
        return self.distance is not None and self.said is None

    def to_json(self) -> str:
        """One line; numbers in full, so that they are read back as they were."""
        line: dict[str, Any] = {"example": self.example, "true": self.true}
        if self.failed is not None:
            line |= {"failed": self.failed}
        else:
            line |= {"distance": self.distance, "said": self.said}
            line |= {"queries": self.queries, "evaluations": self.evaluations}
            line |= {"pixels": self.pixels, "values": self.values}
        return json.dumps({**line, "seconds": self.seconds}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> AttackRecord:
        """The finding of a line."""
        line = json.loads(text)
        common = {key: line[key] for key in ("example", "true", "seconds")}
        if "failed" in line:
            return cls(distance=None, said=None, queries=0, evaluations=0, failed=line["failed"], **common)
        found = {key: line[key] for key in ("distance", "said", "queries", "evaluations")}
        values = tuple(tuple(channels) for channels in line["values"])
        return cls(pixels=tuple(line["pixels"]), values=values, **found, **common)

    def check(self, run: dict[str, Any]) -> None:
        """Holds the finding against the facts of its run: as many changed pixels as it says, within image and bounds.

        A ValueError says what does not fit.
        """
        if self.failed is not None:
            if not isinstance(self.failed, str):
                raise ValueError(f"failed {self.failed!r}")
            return
        for name, count in (("queries", self.queries), ("evaluations", self.evaluations)):
            if type(count) is not int or count < 1:
                raise ValueError(f"{name} {count!r}")
        if self.said is not None and (type(self.said) is not int or not 0 <= self.said < run["classes"]):
            raise ValueError(f"said {self.said!r}")
        if self.distance is not None and self.said == self.true:
            raise ValueError(f"the defender says the true label {self.true} to what was found")
        self._check_pixels(run)

    def _check_pixels(self, run: dict[str, Any]) -> None:
        channels, *places = run["data"]["shape"]
        if len(self.pixels) != (self.distance or 0):
            raise ValueError(f"{len(self.pixels)} changed pixels at distance {self.distance}")
        if self.distance is not None and self.distance > (run["budget"] or math.prod(places)):
            raise ValueError(f"distance {self.distance} is beyond the budget")
        within = all(type(pixel) is int and 0 <= pixel < math.prod(places) for pixel in self.pixels)
        if not within or any(here >= after for here, after in zip(self.pixels, self.pixels[1:], strict=False)):
            raise ValueError("changed pixels are not numbers of the image's, in order")
        low, high = run["bounds"]
        fits = [len(values) == channels and all(low <= value <= high for value in values) for values in self.values]
        if len(fits) != len(self.pixels) or not all(fits):
            raise ValueError(f"the changed pixels need {channels} values each from {low} to {high}")
