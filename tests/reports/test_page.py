"""The page: well-formed, self-contained, its numbers those of the summaries, its pictures those of the run's masks."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.stats import binomtest

from sparsecert import Smoothed, datasets, records
from sparsecert.certificates.plurality import first_choices
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.records import (
    ATTACK,
    AttackRecord,
    AttackRecords,
    Header,
    Record,
    Records,
    Writer,
    rankings,
)
from sparsecert.reports import compute_gaps, summarise, summarise_attack
from sparsecert.reports.comparison import format_median, format_percent
from sparsecert.reports.page import ReportedRun, render_page, write_page
from sparsecert.reports.page.breakdown import radius_bars
from sparsecert.reports.page.charts import whole_ticks
from sparsecert.reports.page.examples import select_examples
from sparsecert.reports.page.input_results import by_class, input_results
from sparsecert.runs import certify_dataset, predict_dataset
from sparsecert.schemes import ESTIMATION, PREDICTION, Lattice, Uniform
from tests.helpers import modules_after

from .made import ABSTAINED, AT_0, AT_4, AT_6, AT_12, N0, N, certified, header, predicted

VOID = {"img", "meta"}
VOTES = [AT_12, AT_6, AT_4, AT_0, ABSTAINED, AT_6]
TRUE = [0, 0, 1, 0, 0, 2]
TEXT_COLOURS = {"text", "quiet", "link", "alarm"}
LINE_COLOURS = {"right", "wrong", "uncertified", *(f"s{place}" for place in range(7))}


class Read(HTMLParser):
    """A page as parsed: refuses tags that are not closed in order, and keeps what tests look at."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.pieces: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.pieces.append((self.open[-1] if self.open else "", data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def texts(self, tag: str) -> list[str]:
        return [text for name, text in self.pieces if name == tag]

    def pairs(self) -> dict[str, str]:
        """The terms of all lists, and what is said of them."""
        return dict(zip(self.texts("dt"), self.texts("dd"), strict=True))

    def images(self) -> list[np.ndarray[Any, np.dtype[np.uint8]]]:
        files = [str(image["src"]).removeprefix("data:image/png;base64,") for image in self.all("img")]
        return [np.asarray(Image.open(io.BytesIO(base64.b64decode(file, validate=True)))) for file in files]


def summarised(found: Records) -> ReportedRun:
    return ReportedRun(found, summarise(found))


def made(votes: list[Tally] = VOTES, true: list[int] = TRUE, **changes: Any) -> ReportedRun:
    return summarised(certified(votes, true, **changes))


def read(*runs: ReportedRun, **more: Any) -> Read:
    return Read(render_page(runs, **more))


def sequential() -> ReportedRun:
    sampling = {"kind": "sequential", "max_samples": N0 + N, "n0": N0, "tolerance": 0.01, "at_least": None}
    lines = tuple(
        Record(example=i, true=0, votes=Tally((n, 2, 0)), label=0, seconds=0.1, selection=Tally((32, 0, 0)),
               radius=1, samples=n + 40)
        for i, n in enumerate((390, 200, 60))
    )  # fmt: skip
    return summarised(Records(Path("runs/made/sequential.jsonl"), header(inputs=3, sampling=sampling), lines))


def exact(kind: str = "certify", rule: str | None = None) -> ReportedRun:
    """Votes of a lattice of four masks over 4 x 4 pixels, of three classes."""
    scheme = Lattice(height=4, width=4, parts=4)
    run = header(inputs=3, scheme=scheme.config(), masks=4, rule="run-off").run
    for name in ("n0", "n", "alpha", "seed", "bound", "certificate"):
        del run[name]
    run |= {"against": "pixels", "seconds": 0.0} if kind == "certify" else {}
    lines = []
    for example, text in enumerate(("012 012 012 012", "012 012 021 102", "201 201 201 -")):
        ranks = rankings.from_text(text, 3)
        label = 2 if example == 2 else 0
        radius = (2, 0, 1)[example] if kind == "certify" else None
        lines.append(
            Record(example=example, true=0, votes=first_choices(ranks[None])[0], label=label, seconds=0.1,
                   radius=radius, rankings=text)
        )  # fmt: skip
    environment = {"model": "model.safetensors", "device_name": "slow"}
    found = Records(Path(f"runs/made/exact-{kind}.jsonl"), Header(kind, run, environment), tuple(lines))
    return ReportedRun(found, summarise(found, rule=rule))


def only_predicted() -> ReportedRun:
    return summarised(predicted(VOTES, TRUE))


def attack(found: list[tuple[int | None, int | None]], **changes: Any) -> AttackRecords:
    base = header("predict", inputs=len(found)).run
    facts = {"masks": "common", "error": 0.05, "attack": {"name": "pointwise"}, "bounds": [0.0, 1.0], "budget": None}
    run = {**base, **facts, "group": 4, "data": {**base["data"], "shape": [1, 10, 10]}, **changes}
    lines = [
        AttackRecord(3 * i, 0, distance, said, 10, 100, 0.5, tuple(range(distance or 0)), ((1.0,),) * (distance or 0))
        for i, (distance, said) in enumerate(found)
    ]
    environment = {"model": "model.safetensors", "device_name": "slow", "sparsecert": "0.1.0"}
    return AttackRecords(Path("runs/made/attack.jsonl"), Header(ATTACK, run, environment), lines)


KINDS = {
    "fixed": made,
    "sequential": sequential,
    "exact": exact,
    "exact by plurality": lambda: exact(rule="plurality"),
    "exact predictions": lambda: exact("predict"),
    "predictions": only_predicted,
    "shard": lambda: made(shard={"index": 1, "of": 3, "inputs": 6}),
    "nothing certified": lambda: made([ABSTAINED], [1]),
    "one input": lambda: made([AT_6], [0]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_is_well_formed_and_fetches_nothing(kind: str) -> None:
    run = KINDS[kind]()
    found = read(run)
    _check_self_contained(found)
    summary = run.summary
    shown = found.pairs()
    assert shown["accuracy"] == format_percent(summary.accuracy)
    assert shown["abstained"] == format_percent(summary.abstained)
    assert ("Certified accuracy" in found.texts("h2")) == ("Certified radii" in found.texts("h2")) == run.certifies
    assert "Under attack" not in found.texts("h2")
    if run.certifies:
        assert shown["median certified robustness"] == format_median(summary.median)
        at = {int(name.split()[-1]): text for name, text in shown.items() if name.startswith("certified accuracy at")}
        assert 0 in at
        assert at == {rho: format_percent(summary.certified_accuracy_at(rho) or 0.0) for rho in at}
    assert shown["model SHA-256"] == summary.model_sha256
    assert shown["data fingerprint"] == "f" * 64
    assert shown["device"] == "cpu (slow)" or shown["device"] == "cpu (a_small & slow one)"
    if summary.exact:
        assert shown["alpha"] == "exact"
        assert not {"n", "n0", "seed"} & shown.keys()
    else:
        facts = {"n": str(summary.n), "alpha": "0.05", "seed": "7"}
        assert {name: shown[name] for name in facts} == facts


def _check_self_contained(found: Read) -> None:
    tags = {tag for tag, _ in found.elements}
    assert not tags & {"script", "link", "iframe", "object", "embed", "base", "form"}
    for _, attributes in found.elements:
        for name, value in attributes.items():
            assert not name.startswith("on")
            assert name != "style"
            if name in ("src", "href", "srcset", "xlink:href", "action"):
                assert str(value).startswith(("data:image/png;base64,", "#"))
    (style,) = found.texts("style")
    assert "url(" not in style
    assert "@import" not in style
    (policy,) = [str(meta["content"]) for meta in found.all("meta") if meta.get("http-equiv")]
    assert "default-src 'none'" in policy
    assert base64.b64encode(hashlib.sha256(style.encode()).digest()).decode() in policy
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(image.get("alt") for image in found.all("img"))
    assert all(cell.get("scope") in ("row", "col") for cell in found.all("th"))
    charts = [svg for svg in found.all("svg") if svg.get("class") == "chart"]
    assert all(svg.get("role") == "img" and svg.get("aria-label") for svg in charts)


def test_input_results_add_up_to_the_summary() -> None:
    for kind in KINDS:
        run = KINDS[kind]()
        every, summary = list(input_results(run)), run.summary
        classes = by_class(run, every)
        assert sum(one.right for one in classes) / sum(one.predicted for one in classes) == summary.accuracy
        assert sum(one.abstained for one in classes) / len(every) == summary.abstained
        if run.certifies:
            assert sum(one.right for one in every) == summary.certified
            assert sum(one.wrong for one in every) == summary.wrong_certificates
            assert sum(one.label is None for one in every) == summary.uncertified
            bars = radius_bars(every)
            assert sum(bar.inputs for bar in bars) == summary.inputs
            assert sum(bar.right for bar in bars) == summary.certified
            assert {bar.label: bar.right for bar in bars if bar.right} == {
                str(rho): count for rho, count in Counter(one.robustness for one in every).items() if rho is not None
            }


def test_many_radii_share_bars() -> None:
    wide = made([AT_12] * 3, [0] * 3, scheme={"kind": "uniform", "units": 10_000, "keep": 5})
    bars = radius_bars(list(input_results(wide)))
    assert len(bars) <= 60
    (bar,) = [bar for bar in bars if bar.inputs]
    low, high = map(int, bar.label.split("-"))
    (radius,) = {one.radius for one in input_results(wide)}
    assert radius is not None
    assert low <= radius <= high
    assert bar.right == 3


def test_ticks_are_few_and_whole() -> None:
    for largest in (0, 1, 5, 6, 7, 26, 60, 784, 12_345):
        ticks = whole_ticks(largest)
        assert ticks[0] == 0
        assert 1 <= len(ticks) <= 7
        assert ticks[-1] <= largest
        assert len(ticks) == 1 or str(ticks[1])[0] in "125"


def test_the_curve_is_drawn_where_the_numbers_are() -> None:
    run = made()
    found = read(run)
    (line,) = [one for one in found.all("polyline") if one["class"] == "curve s0 d0"]
    points = [tuple(map(float, pair.split(","))) for pair in str(line["points"]).split()]
    top, bottom = 10.0, 212.0  # where 100% and 0% are drawn
    heights = [(bottom - y) / (bottom - top) for _, y in points]
    shares = [*run.summary.certified_accuracy, 0.0]
    assert heights[::2] == pytest.approx(shares, abs=1e-3)
    assert heights[1::2] == pytest.approx(shares, abs=1e-3)
    labels = {text.strip() for text in found.texts("text")}
    assert {"0%", "50%", "100%", "rho: perturbed pixels"} <= labels
    (band,) = found.all("polygon")
    corners = [(bottom - float(pair.split(",")[1])) / (bottom - top) for pair in str(band["points"]).split()]
    highs, lows = corners[: len(corners) // 2 : 2], corners[len(corners) // 2 :: 2][::-1]
    for share, low, high in zip(shares, lows, highs, strict=True):
        interval = binomtest(round(share * run.summary.inputs), run.summary.inputs).proportion_ci()
        assert (low, high) == pytest.approx((interval.low, interval.high), abs=1e-3)
    data = {**run.records.header.run["data"], "of": run.summary.inputs}
    assert not read(made(data=data)).all("polygon")  # the whole data set


def test_several_runs_are_overlaid_and_what_they_share_is_said_once() -> None:
    runs = [made(scheme={"kind": "uniform", "units": 100, "keep": keep}, path=f"{keep}.jsonl") for keep in (5, 9, 2)]
    found = read(only_predicted(), *runs, exact())
    _check_self_contained(found)
    said = " ".join(found.texts("p"))
    assert said.count("This is deterministic.") == said.count("For each input this fails") == 1
    curves = [one for one in found.all("polyline") if str(one["class"]).startswith("curve")]
    assert len(curves) == len({one["class"] for one in curves}) == 4
    cells = found.texts("td")
    for run in runs:
        assert format_percent(run.summary.accuracy) in cells
        assert format_median(run.summary.median) in cells
        assert str(run.records.path) in found.texts("dd")
    found = read(*runs)
    assert found.pairs()["alpha"] == "0.05"
    assert found.texts("h3").count("k = 9") == 3  # its histogram, its pictures, its own settings
    assert found.pairs()["seed"] == "7"


def test_every_curve_looks_different() -> None:
    runs = [made(scheme={"kind": "uniform", "units": 100, "keep": keep}, path=f"{keep}.jsonl") for keep in range(2, 11)]
    found = read(*runs)
    (style,) = found.texts("style")
    curves = [str(one["class"]) for one in found.all("polyline")]
    assert len(set(curves)) == len(runs)
    assert curves == [str(one["class"]) for one in found.all("line") if str(one["class"]).startswith("curve")]
    assert all(f".{name} {{" in style for curve in curves for name in curve.split())


def test_tables_of_many_runs_fit_the_page() -> None:
    """Twelve runs: no table has more than a dozen columns, and each cell names its column, for phones."""
    runs = [made(scheme={"kind": "uniform", "units": 100, "keep": keep}, path=f"{keep}.jsonl") for keep in range(2, 14)]
    text = render_page(runs)
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        headers = re.findall(r'<th scope="col">(.*?)</th>', table)
        assert len(headers) <= 12
        for row in re.findall(r"<tr><th scope=\"row\".*?</tr>", table, re.DOTALL):
            assert re.findall(r'data-header="(.*?)"', row) == headers
    names = [name for name in re.findall(r'<th scope="col">(.*?)</th>', text) if name.startswith("k = ")]
    assert set(names) == {f"k = {keep}" for keep in range(2, 14)}


def test_predictions_give_the_accuracy_of_classes_too() -> None:
    certificates, predictions = certified(VOTES, TRUE), predicted([AT_12, ABSTAINED, AT_12], [0, 1, 2])
    run = ReportedRun(certificates, summarise(certificates, predictions=predictions, alpha=0.01), predictions)
    classes = by_class(run, list(input_results(run)))
    assert [(one.predicted, one.right, one.abstained) for one in classes] == [(1, 1, 0), (1, 0, 1), (1, 0, 0)]
    found = read(run)
    assert found.pairs()["accuracy"] == format_percent(1 / 3)
    assert found.pairs()["alpha"] == "0.01"
    assert any("recomputed from the recorded votes" in text for text in found.texts("p"))


def test_attacks_beside_certificates_and_alone() -> None:
    run = made([AT_6, AT_6, AT_12], [0, 0, 0])
    attack_records = attack([(9, 1), (None, 0), (13, None)])
    summary = summarise_attack(attack_records)
    gaps = compute_gaps([(run.records, run.summary)], [attack_records])
    found = read(run, attacks=[(attack_records, summary)], gaps=gaps)
    _check_self_contained(found)
    assert len([one for one in found.all("polygon") if one["class"] == "between"]) == 1
    assert "0 of 3" in found.texts("td")
    assert f"{format_percent(summary.accuracy_at(9))} ({format_percent(summary.success_at(9))})" in found.texts("td")
    assert found.pairs()["clean accuracy"] == format_percent(summary.clean_accuracy)
    assert not any("NOT SOUND" in text for text in found.texts("p"))
    alone = Read(render_page([], [(attack_records, summary)]))
    _check_self_contained(alone)
    assert alone.texts("h2") == ["Headline", "Under attack", "Settings behind these numbers"]
    assert alone.pairs()["versions"] == "sparsecert 0.1.0"


def test_a_broken_certificate_is_loud() -> None:
    run, attack_records = made([AT_6], [0]), attack([(3, 1)])
    gaps = compute_gaps([(run.records, run.summary)], [attack_records])
    found = read(run, attacks=[(attack_records, summarise_attack(attack_records))], gaps=gaps)
    assert [one for one in found.all("p") if one.get("class") == "alarm"]
    assert any(text.startswith("NOT SOUND") for text in found.texts("p"))


HOSTILE = """<script>alert("1")</script>'&amp;<img src=x onerror=alert(1)>{{ 7 * 7 }}{% endif %}"""


def test_what_records_say_is_never_markup() -> None:
    changes = {"path": f"runs/{HOSTILE}.jsonl", "precision": HOSTILE, "device": HOSTILE}
    data = {**header().run["data"], "name": HOSTILE, "split": HOSTILE, "fingerprint": HOSTILE, "inputs": 6}
    data["class_names"] = [HOSTILE] * 3
    run = made(data=data, model={"sha256": HOSTILE}, **changes)
    for runs in ([run], [run, made(path=HOSTILE)]):
        text = render_page(runs)
        found = Read(text)
        _check_self_contained(found)
        assert "<script" not in text
        assert "<img" not in text
        assert HOSTILE in found.texts("th")
        assert any(HOSTILE in text for text in found.texts("li"))
        assert any(HOSTILE in piece for _, piece in found.pieces)
    labels = [str(chart["aria-label"]) for chart in found.all("svg") if "aria-label" in chart]
    assert any(HOSTILE in label for label in labels)  # of several runs: a name tells them apart


def test_odd_file_names_can_be_written(tmp_path: Path) -> None:
    run = made(path="runs/\udcff.jsonl")
    assert write_page(tmp_path / "new" / "p.html", render_page([run])) == tmp_path / "new" / "p.html"
    Read((tmp_path / "new" / "p.html").read_text("utf-8"))


def test_the_same_records_give_the_same_page(tmp_path: Path) -> None:
    assert render_page([made()]) == render_page([made()])
    with pytest.raises(InputError, match="at least one run"):
        render_page([])


def digits(kind: str = "certify", **changes: Any) -> ReportedRun:
    """Votes on three of the built-in digits, of 8 x 8 pixels."""
    data = datasets.load("digits")
    facts = {"name": "digits", "split": "test", "fingerprint": data.fingerprint(), "inputs": 3, "of": len(data)}
    scheme = {"kind": "uniform", "units": 64, "keep": 9}
    fits = {"data": facts, "classes": 10, "scheme": scheme, **changes}
    votes = [Tally((n, N - n, *[0] * 8)) for n in (400, 260, 205)]
    if kind == "predict":
        return summarised(predicted(votes, **fits))
    return summarised(certified(votes, selection=Tally((60, *[0] * 9)), **fits))


@pytest.mark.parametrize("kind", ["certify", "predict"])
def test_the_copies_are_those_of_the_runs_own_masks(kind: str) -> None:
    run = digits(kind)
    found = read(run)
    assert len(found.all("img")) == 3 * 5
    data, images = datasets.load("digits"), found.images()
    start = ESTIMATION if kind == "certify" else PREDICTION
    for place, image in enumerate(found.all("img")[::5]):
        example = int(str(image["alt"]).split()[-1])
        pixels = data.images.batch([example])[0, 0]
        np.testing.assert_array_equal(images[5 * place], pixels)
        masks = Uniform(units=64, keep=9).masks(7, [example], range(start, start + 4))[0].numpy().reshape(4, 8, 8)
        for mask, copy in zip(masks, images[5 * place + 1 : 5 * place + 5], strict=True):
            assert (copy[mask] == pixels[mask][:, None]).all()
            assert (copy[~mask] == (70, 150, 80)).all()
            assert mask.sum() == 9
    assert found.texts("h4") == ["Most certain"]  # three inputs: all of them are among the four most certain


@pytest.mark.parametrize("kind", ["certify", "predict"])
def test_the_copies_shown_are_those_that_voted(kind: str, trained: Path, tmp_path: Path) -> None:
    """A run of four copies of each input: shown the pictures of the page, the model gives the recorded votes."""
    smoothed, data = Smoothed.load(trained), datasets.load("digits")
    out, settings = tmp_path / "records.jsonl", {"seed": 11, "limit": 3}
    run = certify_dataset if kind == "certify" else predict_dataset
    run(smoothed, trained, data, out, Fixed(n0=4, n=4, bound="two-sided"), **settings)
    found = records.read(out)
    shown = read(summarised(found))
    images, votes = shown.images(), {line.example: line.votes for line in found.lines}
    assert len(images) == 3 * 5
    for place, image in enumerate(shown.all("img")[::5]):
        copies = torch.from_numpy(np.stack(images[5 * place + 1 : 5 * place + 5]))
        retained = (copies != torch.tensor((70, 150, 80), dtype=torch.uint8)).any(dim=3)
        grey = copies[..., :1].permute(0, 3, 1, 2).float() / 255
        labels = smoothed.model(smoothed.encoding(grey, retained.flatten(1))).argmax(1)
        example = int(str(image["alt"]).split()[-1])
        assert torch.bincount(labels, minlength=10).tolist() == list(votes[example].votes)


def test_units_of_several_pixels_are_ablated_together() -> None:
    groups = (np.arange(8)[:, None] // 2 * 4 + np.arange(8) // 2).tolist()
    plain = {"kind": "null-channels", "mean": [0.5], "std": [0.1]}
    encoding = {"kind": "grouped", "encoding": plain, "groups": groups}
    run = digits(scheme={"kind": "uniform", "units": 16, "keep": 3}, encoding=encoding)
    found = read(run)
    for copy in found.images()[1:5]:
        null = (copy == (70, 150, 80)).all(axis=2)
        blocks = null.reshape(4, 2, 4, 2).transpose(0, 2, 1, 3).reshape(16, 4)
        assert (blocks.all(axis=1) | ~blocks.any(axis=1)).all()
        assert blocks.all(axis=1).sum() == 13


def test_random_values_are_shown_as_the_model_sees_them() -> None:
    scheme = {"kind": "random-values", "units": 64, "kappa": "1/2", "values": 256}
    run = digits(scheme=scheme, encoding={"kind": "replaced-values", "values": 256})
    found = read(run)
    original, *copies = found.images()[:5]
    for copy in copies:
        assert copy.shape == (8, 8)
        assert 10 <= (copy == original).sum() <= 54
    assert any("show other values" in text for text in found.texts("p"))


def test_why_there_are_no_pictures_is_said(tmp_path: Path) -> None:
    def reason(run: ReportedRun, data_dir: Path | None = None) -> str:
        found = read(run, data_dir=data_dir)
        assert not found.all("img")
        (line,) = [text for text in found.texts("p") if text.startswith("No images")]
        return line

    assert "one of cifar10, cifar10-sample" in reason(made())
    facts = digits().records.header.run["data"]
    assert "fingerprint differs" in reason(digits(data={**facts, "fingerprint": "0" * 64}))
    assert "this run skipped 2 files of" in reason(digits(data={**facts, "skipped": 2}))
    assert "mnist" in reason(digits(data={**facts, "name": "mnist"}), tmp_path)
    assert "inputs have 64 units each, the scheme has units=63" in reason(
        digits(scheme={"kind": "uniform", "units": 63, "keep": 9})
    )


def test_a_class_without_inputs_has_no_numbers() -> None:
    run = made([AT_12, AT_6], [0, 1])
    rows = render_page([run]).split("By true class</caption>")[1].split("</table>")[0].split("<tr>")[2:]
    cells = [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]
    assert cells[0][:4] == ["0", "1", "100.00%", "0.00%"]
    assert cells[0][4] == format_median(12)
    assert cells[1][:6] == ["1", "1", "0.00%", "0.00%", "N/A", "0.00%"]
    assert cells[2][:2] == ["2", "0"]
    assert set(cells[2][2:]) == {"-"}
    assert len({len(row) for row in cells}) == 1


def test_classes_have_their_names_where_these_are_known() -> None:
    facts = digits().records.header.run["data"]
    found = read(digits(data={**facts, "name": "cifar10", "fingerprint": "0" * 64}), data_dir="nowhere")
    assert {"airplane", "truck"} <= set(found.texts("th"))
    assert {"0", "2"} <= set(read(made()).texts("th"))


def test_rows_of_a_table_are_described_in_words() -> None:
    """With the names that its classes have there."""
    known = records.read(Path(__file__).parent.parent / "kept" / "table.jsonl")
    found = read(ReportedRun(known, summarise(known)))
    assert "No images of inputs are shown: the inputs are rows of a table." in found.texts("p")
    assert "Input 4, true class no: no (right), certified radius 1. Votes: no (100.00%)." in found.texts("li")
    assert len(found.texts("li")) == 6
    assert {"no", "yes"} <= set(found.texts("th"))


def test_most_and_least_certain() -> None:
    every = list(input_results(made()))  # radii 12, 6, 4, 0, none, 6; the third and the last are wrong
    found = {title: [one.example for one in some] for title, some in select_examples(every, 2).items()}
    assert found == {
        "Most certain": [0, 3],
        "Least certain": [12, 9],
        "Most certain, and wrong": [15, 6],
    }
    assert set(select_examples(list(input_results(made([AT_6], [0]))), 2)) == {"Most certain"}


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_colours_stand_out_from_the_ground(mode: str) -> None:
    """The contrast that WCAG 2.1 asks for: 4.5 to 1 for text, 3 to 1 for what charts are read by."""
    (style,) = read(made()).texts("style")
    blocks = re.findall(r":root \{(.*?)\}", style, re.DOTALL)[:2]
    light, dark = (dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", block)) for block in blocks)
    colours = light if mode == "light" else dark
    assert colours.keys() == TEXT_COLOURS | LINE_COLOURS | {"ground", "raised", "line"}
    for ground in ("ground", "raised"):
        for names, least in ((TEXT_COLOURS, 4.5), (LINE_COLOURS, 3.0)):
            for name in names:
                dark, light = sorted((_luminance(colours[name]), _luminance(colours[ground])))
                assert (light + 0.05) / (dark + 0.05) >= least, (name, ground)


def test_without_pictures_no_torch_is_needed(tmp_path: Path) -> None:
    run = made()
    with Writer(tmp_path / "certify.jsonl", run.records.header) as writer:
        writer.append(run.records.lines)
    program = (
        "from sparsecert.reports import summarise; from sparsecert.records import read\n"
        "from sparsecert.reports.page import ReportedRun, render_page, write_page\n"
        "found = read(sys.argv[1]); write_page(sys.argv[2], render_page([ReportedRun(found, summarise(found))]))"
    )
    assert not modules_after(program, tmp_path / "certify.jsonl", tmp_path / "p.html") & {"matplotlib", "torch"}
    Read((tmp_path / "p.html").read_text("utf-8"))
