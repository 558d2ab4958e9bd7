"""Inputs from outside: PNG or JPEG, or nested numbers. Nothing is decoded before its size is known to be right."""

from __future__ import annotations

import base64
import binascii
import io
import math
import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from sparsecert.errors import InputError

FORMATS = ("PNG", "JPEG")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # of 8 bits; the others would be cut to 8
LARGEST = float(np.finfo(np.float32).max)
MOST_CHARACTERS = 40  # of a value that a refusal repeats


class Reading(Protocol):
    """How inputs of a model come from outside: Float[1, *shape] each, or a refusal that says what is wrong."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what the model is given."""

    @property
    def names(self) -> list[str] | None:
        """Of the columns of a row, where they have names."""

    @property
    def units(self) -> str | None:
        """What a radius counts; None: what the scheme says."""

    def from_values(self, values: Any) -> torch.Tensor:
        """From nested lists."""

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        """From values by the names of their columns."""

    def from_file(self, data: bytes) -> torch.Tensor:
        """From the bytes of a picture."""

    def from_base64(self, text: Any) -> torch.Tensor:
        """The same in base64."""


@dataclass(frozen=True)
class Arrays:
    """Images, or rows of numbers, of one shape."""

    shape: tuple[int, ...]
    names: list[str] | None = None

    @property
    def units(self) -> str | None:
        """Features of a row."""
        return "features" if len(self.shape) == 1 else None

    def from_values(self, values: Any) -> torch.Tensor:
        """See `from_values`."""
        return from_values(values, self.shape)

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        """Refuses names: there are none."""
        raise InputError("this model knows no columns by name; send the input as values or as image")

    def from_file(self, data: bytes) -> torch.Tensor:
        """See `from_file`."""
        return from_file(data, self.shape)

    def from_base64(self, text: Any) -> torch.Tensor:
        """See `from_base64`."""
        return from_base64(text, self.shape)


def from_values(values: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape] from nested lists of numbers of exactly that shape.

    Values of an image are from 0 to 1; those of a row are any finite numbers.
    """
    flat: list[float] = []
    _gather(values, shape, flat, ())
    numbers = np.array(flat, dtype=np.float64)
    if len(shape) > 1 and not (numbers.min() >= 0 and numbers.max() <= 1):
        found = f"{numbers.min():g} to {numbers.max():g}"
        raise InputError(f"values of an image must be from 0 to 1, got {found}; divide 8-bit values by 255")
    return torch.from_numpy(numbers).float().view(1, *shape)


def _gather(values: Any, shape: tuple[int, ...], flat: list[float], at: tuple[int, ...]) -> None:
    """Appends the numbers, in order; refuses the first thing that is not as it should be, by its place."""
    place = f"values{''.join(f'[{index}]' for index in at)}"
    if not shape:
        flat.append(_number(values, place))
        return
    if not isinstance(values, list):
        raise InputError(f"{place} must be a list of {shape[0]} (the model takes {_sizes(shape)}), got {named(values)}")
    if len(values) != shape[0]:
        raise InputError(f"{place} must have {shape[0]} entries, got {len(values)}")
    for index, value in enumerate(values):
        _gather(value, shape[1:], flat, (*at, index))


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{place} must be a number, got {named(value)}")
    number = as_float(value)
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise InputError(f"{place} must be a finite number that 32 bits can hold")
    return number


def as_float(value: float) -> float:
    """The nearest number of 64 bits; infinity for a whole number that is too large for them."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def from_base64(text: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape] from the bytes of a PNG or JPEG file, written in base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("image must be the bytes of a PNG or JPEG file in base64") from error
    return from_file(data, shape)


def from_file(data: bytes, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape], from 0 to 1, from the bytes of a PNG or JPEG file of exactly the model's height and width.

    It is not resized: a certificate counts the pixels of what the model sees. The size is read from the header, and a
    file of another size is never decoded, however few bytes it has.
    """
    from PIL import Image

    if len(shape) != 3 or shape[0] not in (1, 3):
        raise InputError(f"this model takes {_sizes(shape)} numbers, not pictures; send them as values")
    channels, height, width = shape
    if not data:
        raise InputError("the image is empty; send the bytes of a PNG or JPEG file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sizes, which are looked at here
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                if image.size != (width, height):
                    raise InputError(
                        f"the image is {image.size[0]} x {image.size[1]} pixels, the model takes {width} x {height}; "
                        f"resize it first"
                    )
                if image.mode not in MODES:
                    raise InputError(
                        f"the image must have 8 bits a channel, its mode is {image.mode}; convert it first"
                    )
                plain = _opaque(image).convert("L" if channels == 1 else "RGB")
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise InputError(
            f"the image is far larger than the model takes, {width} x {height}; resize it first"
        ) from error
    except Exception as error:  # a file made to break decoders may raise anything
        raise InputError("the image cannot be decoded; send the bytes of a PNG or JPEG file") from error
    pixels = np.asarray(plain, dtype=np.uint8).reshape(height, width, channels)
    return (torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255)[None].contiguous()


def _opaque(image: Any) -> Any:
    """The image without its alpha channel; refused where that hides anything."""
    if image.mode not in ("LA", "PA", "RGBA") and "transparency" not in image.info:
        return image
    full = image.convert("RGBA")
    if full.getchannel("A").getextrema() != (255, 255):
        raise InputError("the image has transparent pixels; save it without an alpha channel")
    return full.convert("RGB")


def named(value: Any) -> str:
    """A value in a refusal: short, and never a thing that cannot be written as JSON."""
    text = repr(value) if isinstance(value, str | bool | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
