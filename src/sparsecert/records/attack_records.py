"""One image of an attack run, as a line of its records. No torch here."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

GOALS = ANY, MISCLASSIFY = "any", "misclassify"  # of an attack: whether making the defender abstain is a success


def check_attack_run(run: dict[str, Any]) -> None:
    """Raises ValueError, KeyError or TypeError unless the header has what attack records are checked against."""
    shape, bounds = run["data"]["shape"], run["bounds"]
    counts = [*shape, *([] if run["budget"] is None else [run["budget"]])]
    counts += [run["masks"]] if "rule" in run and run.get("n") is None else []
    counts += [run["scheme"]["units"]] if len(shape) == 1 else []
    if not all(type(count) is int and count > 0 for count in counts) or (bounds is None) != (len(shape) == 1):
        raise ValueError
    if run.get("goal", ANY) not in GOALS:
        raise ValueError
    low, high = (0, 1) if bounds is None else bounds  # rows of a table have none
    if not low < high:
        raise ValueError


@dataclass(frozen=True)
class AttackRecord:
    """One attacked image: its index in the data set, its true label, and the nearest adversarial image.

    distance: how many pixels that image changes; 0 if the defender is wrong about the original, None if nothing was
    found. answer: what the defender answers to it, None if it abstains. The image is stored as the pixels it changes,
    numbered row by row, with their values in all channels: the original with these changes is that image, bit for bit.
    Of a row of a table, these are units, with the values of their columns, None for a missing one. failed: why the
    image could not be attacked, if the model gives no answer to it.
    """

    example: int
    true: int
    distance: int | None
    answer: int | None
    queries: int
    evaluations: int
    seconds: float
    pixels: tuple[int, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()
    failed: str | None = None

    @property
    def abstained(self) -> bool:
        """Whether the attack made the defender abstain rather than answer wrongly."""
        return self.distance is not None and self.answer is None

    def to_json(self) -> str:
        line: dict[str, Any] = {"example": self.example, "true": self.true}
        if self.failed is not None:
            line |= {"failed": self.failed}
        else:
            line |= {"distance": self.distance, "said": self.answer}
            line |= {"queries": self.queries, "evaluations": self.evaluations}
            line |= {"pixels": self.pixels, "values": self.values}
        return json.dumps({**line, "seconds": self.seconds}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> AttackRecord:
        line = json.loads(text)
        common = {key: line[key] for key in ("example", "true", "seconds")}
        if "failed" in line:
            return cls(distance=None, answer=None, queries=0, evaluations=0, failed=line["failed"], **common)
        found = {key: line[key] for key in ("distance", "queries", "evaluations")}
        values = tuple(tuple(channels) for channels in line["values"])
        return cls(answer=line["said"], pixels=tuple(line["pixels"]), values=values, **found, **common)

    def check(self, run: dict[str, Any]) -> None:
        """Checks the record against its header: as many changed pixels as it says, inside the image and its bounds.

        A ValueError says what does not fit.
        """
        if self.failed is not None:
            if not isinstance(self.failed, str):
                raise ValueError(f"failed {self.failed!r}")
            return
        for name, count in (("queries", self.queries), ("evaluations", self.evaluations)):
            if type(count) is not int or count < 1:
                raise ValueError(f"{name} {count!r}")
        if self.answer is not None and (type(self.answer) is not int or not 0 <= self.answer < run["classes"]):
            raise ValueError(f"said {self.answer!r}")
        if self.distance is not None and self.answer == self.true:
            raise ValueError(f"the adversarial image gets the true label {self.true}")
        if self.distance and self.answer is None and run.get("goal") == MISCLASSIFY:
            raise ValueError("an abstention in a run whose goal is to misclassify")
        self._check_pixels(run)

    def _check_pixels(self, run: dict[str, Any]) -> None:
        channels, *places = run["data"]["shape"]
        units = math.prod(places) if places else run["scheme"]["units"]
        if len(self.pixels) != (self.distance or 0):
            raise ValueError(f"{len(self.pixels)} changed pixels at distance {self.distance}")
        if self.distance is not None and self.distance > (run["budget"] or units):
            raise ValueError(f"distance {self.distance} is beyond the budget")
        within = all(type(pixel) is int and 0 <= pixel < units for pixel in self.pixels)
        if not within or any(here >= after for here, after in zip(self.pixels, self.pixels[1:], strict=False)):
            raise ValueError("changed pixels must be increasing indices within the image")
        if len(self.values) != len(self.pixels):
            raise ValueError(f"{len(self.pixels)} changed pixels with values for {len(self.values)}")
        if places and not all(_fits(values, channels, *run["bounds"]) for values in self.values):
            low, high = run["bounds"]
            raise ValueError(f"the changed pixels need {channels} values each from {low} to {high}")


def _fits(values: tuple[float | None, ...], channels: int, low: float, high: float) -> bool:
    """Whether these are values of a pixel, within the bounds."""
    return len(values) == channels and all(value is not None and low <= value <= high for value in values)
