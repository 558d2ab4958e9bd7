"""Writing figures to files, atomically and reproducibly."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert.errors import InputError
from sparsecert.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ".png", ".svg", ".pdf"
NO_DATE: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


def write_figure(draw: Callable[[], Figure], path: str | Path) -> list[Path]:
    """Writes to `path`, or to both path.png and path.svg if it has no suffix; returns the files written."""
    stem = Path(path)
    paths = [stem] if stem.suffix else [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    for file in paths:
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(f"{file} must end in one of {', '.join(SUFFIXES)} to say its format, got {file.suffix!r}")
    for file in paths:
        write_atomically(file, _render(draw, file.suffix.lower()[1:]))
    return paths


def _render(draw: Callable[[], Figure], form: str) -> bytes:
    import matplotlib
    from matplotlib import style

    data = io.BytesIO()
    with style.context("default"), matplotlib.rc_context({"svg.hashsalt": "sparsecert"}):
        draw().savefig(data, format=form, dpi=200, metadata=NO_DATE[form])
    return data.getvalue()
