"""Writing figures to files, atomically and reproducibly; the styles they are drawn in."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsecert.errors import InputError
from sparsecert.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = ".png", ".svg", ".pdf"
NO_DATE: dict[str, dict[str, Any]] = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Style:
    """How a plot is drawn: the size of its axes in inches, fonts in points, and whether titles and settings are shown.

    Fonts have no serifs.
    """

    width: float = 7.0
    height: float = 4.8
    text: float = 7.0
    line: float = 1.8
    notes: bool = True
    settings: dict[str, Any] = field(default_factory=dict)  # of matplotlib


SMALL = {f"{part}.labelsize": 7 for part in ("axes", "xtick", "ytick")}
PAPER_SETTINGS = {**SMALL, "axes.linewidth": 0.6, "pdf.fonttype": 42}  # 42: text stays text
STYLES = {"screen": Style(), "paper": Style(3.3, 2.3, 6.5, 1.1, False, PAPER_SETTINGS)}  # 3.3: a column of a paper
SCREEN = STYLES["screen"]


def text_width(text: str, size: float) -> float:
    """The width of a line in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    width, _, _ = text_to_path.get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(width) / 72


def wrap_text(text: str, width: float, size: float) -> str:
    """Breaks text into lines of at most `width` inches; inside a word only if that alone is wider."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, size) <= width:
            lines[-1] = longer
            continue
        lines += [""] if lines[-1] else []
        for letter in word:
            if lines[-1] and text_width(lines[-1] + letter, size) > width:
                lines.append("")
            lines[-1] += letter
    return "\n".join(lines)


def write_figure(draw: Callable[[], Figure], path: str | Path, style: Style = SCREEN) -> list[Path]:
    """Writes to `path`, or to both path.png and path.svg if it has no suffix; returns the files written."""
    stem = Path(path)
    paths = [stem] if stem.suffix else [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    for file in paths:
        if file.suffix.lower() not in SUFFIXES:
            raise InputError(f"{file} must end in one of {', '.join(SUFFIXES)} to say its format, got {file.suffix!r}")
    for file in paths:
        write_atomically(file, _render(draw, file.suffix.lower()[1:], style))
    return paths


def _render(draw: Callable[[], Figure], form: str, style: Style) -> bytes:
    import matplotlib
    from matplotlib.style import context

    data = io.BytesIO()
    settings: Any = {"svg.hashsalt": "sparsecert", **style.settings}
    with context("default"), matplotlib.rc_context(settings):
        draw().savefig(data, format=form, dpi=200, metadata=NO_DATE[form])
    return data.getvalue()
