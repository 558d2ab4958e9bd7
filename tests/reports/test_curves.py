from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image
from scipy.stats import binomtest

from sparsecert.errors import InputError
from sparsecert.records import Writer
from sparsecert.reports import Summary, summarise, write_curves
from sparsecert.reports.curves import _figure
from sparsecert.reports.drawing import STYLES
from tests.helpers import modules_after

from .made import ABSTAINED, AT_0, AT_6, AT_12, certified, header, predicted


def one() -> Summary:
    return summarise(certified([AT_12, AT_6, AT_0, ABSTAINED]))


def several(count: int = 3) -> list[Summary]:
    scheme = {"kind": "uniform", "units": 100}
    return [summarise(certified([AT_12, AT_6, AT_0], scheme={**scheme, "keep": k + 1})) for k in range(count)]


def test_a_stem_gives_png_and_svg_and_a_path_its_own_format(tmp_path: Path) -> None:
    assert write_curves([one()], tmp_path / "new" / "curve") == [
        tmp_path / "new" / f"curve.{s}" for s in ("png", "svg")
    ]
    assert (tmp_path / "new" / "curve.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.parse(tmp_path / "new" / "curve.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    assert write_curves([one()], str(tmp_path / "curve.PDF")) == [tmp_path / "curve.PDF"]
    assert (tmp_path / "curve.PDF").read_bytes().startswith(b"%PDF")
    assert {path.name for path in tmp_path.iterdir()} == {"new", "curve.PDF"}


def test_the_png_can_be_read_and_is_not_blank(tmp_path: Path) -> None:
    write_curves(several(), tmp_path / "c.png")
    with Image.open(tmp_path / "c.png") as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[1] == 1400
    for colour in (0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0x00, 0x9E, 0x73):
        assert (pixels == colour).all(axis=2).sum() > 500


@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_the_same_summaries_give_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name in "ab":
        write_curves([one()], tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_what_is_drawn() -> None:
    figure = _figure(several(2))
    axes = figure.axes[0]
    steps = [line for line in axes.lines if line.get_drawstyle() == "steps-mid"]
    for line, summary in zip(steps, several(2), strict=True):
        drawn = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
        for rho in range(len(summary.certified_accuracy) + 1):
            assert drawn[rho] == 100 * (summary.certified_accuracy_at(rho) or 0)
    assert axes.get_ylim() == (0, 100)
    assert len({line.get_color() for line in steps}) == len({line.get_linestyle() for line in steps}) == 2
    dots = [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]
    assert dots == [(s.median, 100 * s.certified_accuracy[s.median]) for s in several(2) if s.median is not None]
    assert len(dots) == 2
    assert any(line.get_linestyle() == ":" and set(line.get_ydata()) == {50} for line in axes.lines)
    ticks = axes.get_xticks()
    assert all(tick == int(tick) for tick in ticks)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        f"k = {k}: median {s.median}" for k, s in zip((1, 2), several(2), strict=True)
    ]
    assert "n = 400, alpha = 0.05, seed = 7" in " ".join(legend.get_title().get_text().split())


def test_bands_are_exact_binomial_and_of_part_of_a_data_set_alone() -> None:
    summary = one()
    (band,) = _figure([summary]).axes[0].collections
    heights = {round(float(y), 6) for y in band.get_paths()[0].vertices[:, 1]}
    for share in (*summary.certified_accuracy, 0.0):
        interval = binomtest(round(share * summary.inputs), summary.inputs).proportion_ci()
        for side in interval:
            assert any(y == pytest.approx(100 * side, abs=1e-4) for y in heights)
    assert not _figure([replace(summary, all_inputs=summary.inputs)]).axes[0].collections


@pytest.mark.parametrize("style", ["screen", "paper"])
def test_legends_are_never_cut_off(style: str) -> None:
    """However many runs, and however long their names."""
    labels = ["short", "W" * 300, "many words of a long label " * 12, *(f"run {place}" for place in range(20))]
    figure = _figure([replace(one(), label=label) for label in labels], STYLES[style])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    extent, page = legend.get_window_extent(), figure.bbox
    assert (extent.x0, extent.y0) >= (page.x0, page.y0)
    assert extent.x1 <= page.x1
    assert extent.y1 <= figure.axes[0].get_window_extent().y0
    assert figure.axes[0].get_window_extent().height > 0.6 * STYLES[style].height * figure.dpi


def test_the_style_of_a_paper_has_no_notes() -> None:
    figure = _figure(several(2), STYLES["paper"])
    assert figure.get_figwidth() == 3.3
    assert not figure.get_suptitle()
    (axes,), (legend,) = figure.axes, figure.legends
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("perturbed pixels", "certified accuracy")
    assert [text.get_text() for text in legend.get_texts()] == ["k = 1", "k = 2"]
    assert not legend.get_title().get_text()
    rows = summarise(certified([AT_12], data={**header(inputs=1).run["data"], "unit": "features"}))
    assert _figure([rows], STYLES["paper"]).axes[0].get_xlabel() == "perturbed features"


def test_nothing_certified_and_odd_names_are_drawn_too(tmp_path: Path) -> None:
    nothing = summarise(certified([AT_12], [1], path="$a_{/x$.jsonl"))
    same = summarise(certified([AT_12], [1], path="/very/long" * 20 + ".jsonl"))
    write_curves([nothing, same], tmp_path / "c.svg")
    assert b"</svg>" in (tmp_path / "c.svg").read_bytes()


def test_refusals_write_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in one of .png, .svg, .pdf .*got '.jpg'"):
        write_curves([one()], tmp_path / "c.jpg")
    with pytest.raises(InputError, match="holds predictions"):
        write_curves([summarise(predicted([AT_12]))], tmp_path / "c")
    with pytest.raises(InputError, match="at least one run"):
        write_curves([], tmp_path / "c")
    assert not list(tmp_path.iterdir())


def test_the_users_style_neither_shows_nor_changes(tmp_path: Path) -> None:
    before = matplotlib.rcParams.copy()
    with matplotlib.rc_context({"axes.facecolor": "red", "lines.marker": "x"}):
        write_curves([one()], tmp_path / "styled.svg")
    write_curves([one()], tmp_path / "plain.svg")
    assert matplotlib.rcParams.copy() == before
    assert (tmp_path / "styled.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_drawing_needs_neither_pyplot_nor_torch(tmp_path: Path) -> None:
    records = certified([AT_12, AT_6])
    with Writer(tmp_path / "certify.jsonl", records.header) as writer:
        writer.append(records.lines)
    program = (
        "from sparsecert.reports import summarise, write_curves; from sparsecert.records import read\n"
        "write_curves([summarise(read(sys.argv[1]))], sys.argv[2])"
    )
    modules = modules_after(program, tmp_path / "certify.jsonl", tmp_path / "c.png")
    assert modules & {"matplotlib", "matplotlib.pyplot", "torch"} == {"matplotlib"}
    assert (tmp_path / "c.png").exists()
