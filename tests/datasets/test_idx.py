from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from sparsecert.datasets import idx
from sparsecert.errors import InputError

from .made import idx_bytes

ARRAY = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
WHOLE = idx_bytes(ARRAY)


@pytest.mark.parametrize("content", [WHOLE, gzip.compress(WHOLE)], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_round_trip_whatever_the_name(tmp_path: Path, content: bytes, name: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert np.array_equal(idx.read(tmp_path / name, 3, "x"), ARRAY)


REFUSALS = {
    "empty": (b"", "is empty"),
    "empty gzip": (gzip.compress(b""), "is empty"),
    "not idx": (b"<html>not found</html>", "must start with 00000803"),
    "labels for images": (idx_bytes(ARRAY[0, 0]), "must start with 00000803"),
    "float data": (b"\0\0\x0d\3" + WHOLE[4:], "must start with 00000803.*got 00000d03"),
    "inside header": (WHOLE[:9], "ends inside its header"),
    "truncated": (WHOLE[:-1], "must hold 24 bytes after its header, found 23"),
    "too long": (WHOLE + b"x", "must hold 24 bytes after its header, found more"),
    "truncated inside gzip": (gzip.compress(WHOLE[:-1]), "must hold 24 bytes"),
    "too long inside gzip": (gzip.compress(WHOLE + b"x"), "must hold 24 bytes"),
    "truncated gzip": (gzip.compress(WHOLE)[:-5], "cannot be read"),
    "bad gzip checksum": (gzip.compress(WHOLE)[:-8] + b"\0" * 8, "cannot be read"),
    "corrupt gzip": (gzip.compress(WHOLE)[:10] + b"\xff" * 20, "cannot be read"),
    "no images": (struct.pack(">BBBBIII", 0, 0, 8, 3, 0, 28, 28), "holds nothing"),
    "terabytes promised": (struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**20, 28) + b"x", "found 1"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_damage_is_refused_with_file_and_remedy(tmp_path: Path, case: str) -> None:
    content, message = REFUSALS[case]
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        idx.read(path, 3, "fetch it again")
    assert str(path) in str(caught.value)
    assert str(caught.value).endswith("; fetch it again")
    assert "\n" not in str(caught.value)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        idx.read(tmp_path / "nothing", 3, "x")
