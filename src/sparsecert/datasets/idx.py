"""The IDX file format of MNIST: a big-endian header of dimensions, then the bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from io import BufferedIOBase
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sparsecert.errors import InputError

GZIP_MAGIC = b"\x1f\x8b"
UNSIGNED_BYTE = 0x08
CHUNK = 1 << 20


def read(path: Path, dimensions: int, remedy: str) -> NDArray[np.uint8]:
    """The array in an IDX file of unsigned bytes, plain or gzipped.

    A file that is not exactly as long as its header says is refused, with its name and `remedy`.
    """
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == GZIP_MAGIC
        with gzip.open(path, "rb") if compressed else path.open("rb") as stream:
            shape = _read_shape(stream, path, dimensions, remedy)
            expected = math.prod(shape)
            data = _read_at_most(stream, expected + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read ({error}); {remedy}") from error
    if len(data) != expected:
        found = "more" if len(data) > expected else f"{len(data)}"
        raise InputError(f"{path} must hold {expected} bytes after its header, found {found}; {remedy}")
    return np.frombuffer(data, dtype=np.uint8).reshape(shape)


def _read_shape(stream: BufferedIOBase, path: Path, dimensions: int, remedy: str) -> tuple[int, ...]:
    header = stream.read(4 + 4 * dimensions)
    if not header:
        raise InputError(f"{path} is empty; {remedy}")
    if header[:4] != bytes((0, 0, UNSIGNED_BYTE, dimensions)):
        raise InputError(
            f"{path} must start with 0000{UNSIGNED_BYTE:02x}{dimensions:02x} (IDX, unsigned bytes, "
            f"{dimensions} dimensions), got {header[:4].hex()}; {remedy}"
        )
    if len(header) < 4 + 4 * dimensions:
        raise InputError(f"{path} ends inside its header; {remedy}")
    shape: tuple[int, ...] = struct.unpack(f">{dimensions}I", header[4:])
    if 0 in shape:
        raise InputError(f"{path} holds nothing (its dimensions are {shape}); {remedy}")
    return shape


def _read_at_most(stream: BufferedIOBase, count: int) -> bytearray:
    # A damaged header can claim terabytes, so memory grows with what is read.
    data = bytearray()
    while len(data) < count and (chunk := stream.read(min(CHUNK, count - len(data)))):
        data += chunk
    return data
