"""Small data files in the formats that the loaders read."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sparsecert import datasets


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_mnist(folder: Path, prefix: str, images: NDArray[np.uint8], labels: NDArray[np.uint8]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{prefix}-images-idx3-ubyte").write_bytes(idx_bytes(images))
    (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(idx_bytes(labels))


def write_image(path: Path, pixels: NDArray[np.uint8], mode: str | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(path)


def cmyk_jpeg(stored: tuple[int, int, int, int], adobe: bool) -> bytes:
    """A JPEG of 8 x 8 pixels whose four components hold these samples, written here bit by bit (ITU-T T.81).

    Every block is constant: its first coefficient is 8 (sample - 128), which the quantization by 8 keeps exactly.
    """
    bits = ""
    for sample in stored:
        value = sample - 128
        length = abs(value).bit_length()
        # Categories 0 to 8 have the codes 0000 to 1000; a negative number is stored less one, modulo 2^length.
        bits += f"{length:04b}" + (f"{value - (value < 0) & (1 << length) - 1:0{length}b}" if length else "") + "0"
    bits += "1" * (-len(bits) % 8)
    scan = bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8)).replace(b"\xff", b"\xff\x00")
    components = range(1, 5)
    segments = [
        (0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, 0)) if adobe else None,
        (0xDB, b"\0" + bytes([8] * 64)),
        (0xC0, struct.pack(">BHHB", 8, 8, 8, 4) + b"".join(bytes((number, 0x11, 0)) for number in components)),
        (0xC4, b"\x00" + bytes([0, 0, 0, 9, *[0] * 12]) + bytes(range(9))),
        (0xC4, b"\x10" + bytes([1, *[0] * 15]) + b"\0"),
        (0xDA, b"\x04" + b"".join(bytes((number, 0)) for number in components) + b"\0\x3f\0"),
    ]
    written = b"".join(struct.pack(">BBH", 0xFF, s[0], len(s[1]) + 2) + s[1] for s in segments if s is not None)
    return b"\xff\xd8" + written + scan + b"\xff\xd9"


def write_small_mnist(folder: Path) -> None:
    """A data folder whose MNIST is the shipped sample, for training and for testing."""
    sample = datasets.load("mnist-sample")
    images, labels = sample.images.batch(range(100))[:, 0], sample.labels.astype(np.uint8)
    for prefix in ("train", "t10k"):
        write_mnist(folder / "mnist", prefix, images, labels)
