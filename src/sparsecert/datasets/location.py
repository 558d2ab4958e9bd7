"""Where data sets are, and the error if one is missing."""

from __future__ import annotations

import os
from pathlib import Path

from sparsecert.errors import InputError

VARIABLE = "SPARSECERT_DATA"


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of data sets: `data_dir`, else the environment variable SPARSECERT_DATA, else ./data."""
    return Path(data_dir or os.environ.get(VARIABLE) or "data").expanduser()


def not_found(name: str, data_dir: Path) -> InputError:
    """The error for a data set that can be downloaded but is not in `data_dir`."""
    return InputError(
        f"{name} was not found in {data_dir}; run `sparsecert data get {name} --data-dir {data_dir}` "
        f"or point --data-dir or {VARIABLE} at it"
    )


def redownload_hint(name: str) -> str:
    return f"delete it and run `sparsecert data get {name}`"
