"""Parses inputs: PNG or JPEG images, or nested numbers. An image of the wrong size is refused before decoding."""

from __future__ import annotations

import base64
import binascii
import io
import math
import warnings
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

import numpy as np
import torch

from sparsecert.counts import Float64
from sparsecert.errors import InputError

FORMATS = ("PNG", "JPEG")
MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr")  # 8 bits a channel; others would lose bits
LARGEST = float(np.finfo(np.float32).max)
MAX_CHARACTERS = 40  # of a value in an error


class InputParser(Protocol):
    """Turns a request's input into Float[1, *shape], or raises InputError."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def names(self) -> list[str] | None:
        """Column names of a row, if any."""

    @property
    def categories(self) -> dict[str, list[str]] | None:
        """The known values of each text column, for a table."""

    def from_values(self, values: Any) -> torch.Tensor:
        """From nested lists of numbers."""

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        """From a row, keyed by column name."""

    def from_file(self, data: bytes) -> torch.Tensor:
        """From the bytes of an image file."""

    def from_base64(self, text: Any) -> torch.Tensor:
        """From an image file in base64."""


@dataclass(frozen=True)
class ArrayParser:
    """Parses images, or rows of numbers, of one shape."""

    shape: tuple[int, ...]
    names: list[str] | None = None
    categories: dict[str, list[str]] | None = None

    def from_values(self, values: Any) -> torch.Tensor:
        return from_values(values, self.shape)

    def from_row(self, row: dict[str, Any]) -> torch.Tensor:
        raise InputError("this model has no named columns; send the input as values or image")

    def from_file(self, data: bytes) -> torch.Tensor:
        return from_file(data, self.shape)

    def from_base64(self, text: Any) -> torch.Tensor:
        return from_base64(text, self.shape)


def from_values(values: Any, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape] from nested lists of numbers of exactly that shape.

    An image's values must be in [0, 1]; a row's may be any finite numbers.
    """
    numbers = _numbers(_flatten(values, shape), shape)
    if len(shape) > 1 and not (numbers.min() >= 0 and numbers.max() <= 1):
        found = f"{numbers.min():g} to {numbers.max():g}"
        raise InputError(f"image values must be between 0 and 1, got {found}; divide 8-bit values by 255")
    return torch.from_numpy(numbers.astype(np.float32).reshape(1, *shape))


def _flatten(values: Any, shape: tuple[int, ...], at: tuple[int, ...] = ()) -> list[Any]:
    """The innermost values in order; an error names the first list that is missing or of another length."""
    if not isinstance(values, list):
        raise InputError(
            f"{_place(at)} must be a list of {shape[0]} (the model takes {_sizes(shape)}), got {short_repr(values)}"
        )
    if len(values) != shape[0]:
        raise InputError(f"{_place(at)} must have {shape[0]} entries, got {len(values)}")
    if len(shape) == 1:
        return values
    parts = (_flatten(part, shape[1:], (*at, index)) for index, part in enumerate(values))
    return list(chain.from_iterable(parts))


def _numbers(flat: list[Any], shape: tuple[int, ...]) -> Float64:
    """All values at once; one by one only where an error has to name the first bad one."""
    if {*map(type, flat)} <= {int, float}:  # not bool
        with suppress(OverflowError):  # of a large integer
            numbers: Float64 = np.array(flat, dtype=np.float64)
            if (np.abs(numbers) <= LARGEST).all():
                return numbers
    return np.array([_number(value, _place(at)) for value, at in zip(flat, np.ndindex(shape), strict=True)])


def _place(at: tuple[int, ...]) -> str:
    return f"values{''.join(f'[{index}]' for index in at)}"


def _number(value: Any, place: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{place} must be a number, got {short_repr(value)}")
    number = as_float(value)
    if not math.isfinite(number) or abs(number) > LARGEST:
        raise InputError(f"{place} must be finite and fit in 32 bits")
    return number


def as_float(value: float) -> float:
    """As a 64-bit float; infinity for an integer that is too large."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def from_base64(text: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape] from a PNG or JPEG file in base64."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError("image must be a PNG or JPEG file in base64") from error
    return from_file(data, shape)


def from_file(data: bytes, shape: tuple[int, ...]) -> torch.Tensor:
    """Float[1, *shape] in [0, 1] from a PNG or JPEG file of exactly the model's height and width.

    Nothing is resized: a certificate counts the pixels the model sees. The size is read from the header, and a file of
    another size is never decoded, however small.
    """
    from PIL import Image

    if len(shape) != 3 or shape[0] not in (1, 3):
        raise InputError(f"this model takes {_sizes(shape)} numbers, not images; send them as values")
    channels, height, width = shape
    if not data:
        raise InputError("the image is empty; send the bytes of a PNG or JPEG file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sizes, which are checked here
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                if image.size != (width, height):
                    raise InputError(
                        f"the image is {image.size[0]} x {image.size[1]} pixels, the model takes {width} x {height}; "
                        f"resize it first"
                    )
                if image.mode not in MODES:
                    raise InputError(f"the image must have 8 bits per channel, got mode {image.mode}; convert it first")
                plain = _opaque(image).convert("L" if channels == 1 else "RGB")
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise InputError(
            f"the image is far larger than the model's {width} x {height} pixels; resize it first"
        ) from error
    except Exception as error:  # a malicious file may raise anything
        raise InputError("the image cannot be decoded; send the bytes of a PNG or JPEG file") from error
    pixels = np.asarray(plain, dtype=np.uint8).reshape(height, width, channels)
    return (torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255)[None].contiguous()


def _opaque(image: Any) -> Any:
    """The image without its alpha channel, which must be fully opaque."""
    if image.mode not in ("LA", "PA", "RGBA") and "transparency" not in image.info:
        return image
    full = image.convert("RGBA")
    if full.getchannel("A").getextrema() != (255, 255):
        raise InputError("the image has transparent pixels; save it without an alpha channel")
    return full.convert("RGB")


def short_repr(value: Any) -> str:
    """A value as an error shows it: short, and valid in JSON."""
    text = repr(value) if isinstance(value, str | bool | int | float | None) else f"a {type(value).__name__}"
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}..."


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
