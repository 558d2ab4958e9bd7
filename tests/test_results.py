"""The committed records, certified again: what the README and the page of results say is what they show."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sparsecert import datasets, modelfile, records
from sparsecert.plans import Rates, plan_text, planned
from sparsecert.published import published
from sparsecert.reports import summarise
from sparsecert.reports.comparison import percent
from sparsecert.reports.summary import Summary
from sparsecert.reports.tables import table_text
from sparsecert.reproduce import Study
from sparsecert.reproduce.attacked import Attacked
from sparsecert.reproduce.base_tables import base_table
from sparsecert.reproduce.exact import CHOICES
from sparsecert.reproduce.fixed import fixed_rows
from sparsecert.reproduce.patches import CHOICES as PATCHES
from sparsecert.reproduce.patches import patches
from sparsecert.reproduce.recipes import recipes
from sparsecert.reproduce.table_2 import table_2
from sparsecert.reproduce.table_6 import table_6
from sparsecert.reproduce.table_7 import table_7
from sparsecert.reproduce.tables import Row, best, measured_rows, table
from sparsecert.schemes import Choice
from sparsecert.smoothed import Smoothed

pytestmark = pytest.mark.check

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "results.md").read_text()  # all numbers; the README has some of them
QUICK = [15, 30, 45]
KEEPS = [row.keep for row in published("table-1").rows]


def _glanced(path: Path) -> tuple[records.Header, int]:
    seen = records.glance(path)
    assert seen is not None
    return seen


def _check_rows(rows: list[Row]) -> None:
    """The bars: accuracy within a point of the paper's from k = 15 on, medians within one of it everywhere."""
    for row in rows:
        assert row.published is not None
        assert row.published.accuracy is not None
        if row.cell.keep >= 15:
            assert abs(100 * row.one_sided.accuracy - row.published.accuracy) <= 1
        reached = row.one_sided.median_reference
        assert (reached is None) == (row.published.median is None)
        assert abs((reached or 0) - (row.published.median or 0)) <= 1


@pytest.mark.parametrize("keeps", [QUICK, pytest.param(KEEPS, marks=pytest.mark.slow)], ids=["few", "all"])
def test_the_page_shows_what_the_records_say(keeps: list[int]) -> None:
    study = Study(RESULTS)
    text = table_text(table(study, "table-1", keeps), "markdown")
    shown = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(shown) == len(keeps)
    for line in shown:
        assert line in PAGE
    _check_rows(measured_rows(study, published("table-1"), keeps))


def test_the_readme_shows_rows_of_the_page() -> None:
    """Each with its heading, so that a number stands in the column that it is of."""
    shown = [line for line in README.splitlines() if re.match(r"\| (k|\d+) \|", line)]
    assert len(shown) >= 10
    for line in shown:
        assert line in PAGE


def test_the_headline_row() -> None:
    (row,) = measured_rows(Study(RESULTS), published("table-1"), [45])
    assert row.one_sided.accuracy >= 0.965
    assert row.one_sided.median == 8
    assert row.one_sided.inputs == 10_000


@pytest.mark.slow
def test_the_shipped_models_are_the_best_of_each_bound() -> None:
    rows = measured_rows(Study(RESULTS), published("table-1"))
    assert best([row.two_sided for row in rows]).scheme["keep"] == 30
    assert best([row.one_sided for row in rows]).median == 8


@pytest.mark.parametrize("keep", [30, 45])
def test_the_shipped_models_are_those_of_the_records(keep: int) -> None:
    header, lines = _glanced(RESULTS / "mnist" / f"k{keep}" / "certify.jsonl.xz")
    assert lines == 10_000
    assert header.run["model"]["sha256"] == modelfile.fingerprint(f"mnist-k{keep}")
    smoothed = Smoothed.load(f"mnist-k{keep}")
    assert smoothed.scheme.config() == header.run["scheme"] == {"kind": "uniform", "units": 784, "keep": keep}
    assert next(iter(smoothed.model.parameters())).dtype == torch.float32  # type: ignore[union-attr]


@pytest.mark.parametrize("keep", [30, 45])
def test_the_shipped_models_vote_as_recorded(keep: int) -> None:
    """A few recorded inputs again on the CPU: the same masks, so but for rounding the same votes."""
    found = records.read(RESULTS / "mnist" / f"k{keep}" / "certify.jsonl.xz")
    lines = {line.example: line for line in found.lines}
    sample = datasets.load("mnist-sample")
    for place in (0, 37, 99):
        image = torch.from_numpy(sample.images.batch([place])).float() / 255
        line = lines[100 * place]
        assert line.true == sample.labels[place]
        assert line.selection is not None
        counts = Smoothed.load(f"mnist-k{keep}").count(image, 0, 1_000, seed=0, examples=[100 * place])
        moved = abs(counts.votes[0] - line.selection.votes).sum() / 2
        assert moved <= 20  # bf16 there, fp32 here


def test_the_shipped_model_of_fixed_masks_is_that_of_the_records() -> None:
    """The same file, and of a few inputs again on the CPU, but for rounding, the same votes."""
    found = records.read(RESULTS / "mnist" / "lattice-28x1" / "certify.jsonl.xz")
    assert found.header.run["model"]["sha256"] == modelfile.fingerprint("mnist-lattice-28")
    smoothed = Smoothed.load("mnist-lattice-28")
    assert smoothed.scheme.config() == found.header.run["scheme"]
    lines = {line.example: line for line in found.lines}
    sample = datasets.load("mnist-sample")
    images = torch.from_numpy(sample.images.batch(range(100))).float() / 255
    exactly = smoothed.certify_exactly(images)
    for place in range(100):
        there = lines[100 * place].votes.votes
        assert abs(exactly.counts[place] - there).sum() / 2 <= 2  # bf16 there, fp32 here
    radii = [
        radius if label == true else -1
        for radius, label, true in zip(exactly.radii.tolist(), exactly.labels.tolist(), sample.labels, strict=True)
    ]
    median, certified = re.findall(
        r"a median of (\d+) pixels, ([\d.]+)% certified against 8", " ".join(README.split())
    )[0]
    assert sorted(radii)[50] == int(median)  # half of the images are at least as robust
    assert abs(sum(radius >= 8 for radius in radii) - float(certified)) <= 2  # another CPU may round otherwise


def _summary(name: str, **changes: str) -> Summary:
    return summarise(records.read(RESULTS / "mnist" / "k45" / f"{name}.jsonl.xz"), **changes)  # type: ignore[arg-type]


def test_sequential_sampling_gives_the_fixed_curve_for_a_fifth_of_the_samples() -> None:
    """The bars: at most 2,500 samples an image, the same median, within half a point at every rho."""
    fixed, sequential = _summary("certify"), _summary("certify-sequential")
    assert sequential.inputs == 10_000
    assert sequential.mean_samples <= 2_500
    assert sequential.median == fixed.median == 8
    differences = [fixed.certified_accuracy[rho] - sequential.certified_accuracy[rho] for rho in range(12)]
    assert max(map(abs, differences)) <= 0.005
    row = f"| sequential | {sequential.mean_samples:,.0f} | {sequential.median} | "
    assert row + " | ".join(f"{100 * share:.2f}" for share in sequential.certified_accuracy) + " |" in PAGE
    assert f"{sequential.mean_samples:,.0f} samples an image instead of 11,000 for the same median of 8" in README
    assert f"at\nmost {100 * max(differences):.2f} points lower" in (ROOT / "docs" / "scaling.md").read_text()


def test_the_question_takes_fewer_samples_still() -> None:
    """The bar: at most 1,000 an image."""
    asked = _summary("certify-at-least-8")
    assert asked.inputs == 10_000
    assert asked.mean_samples <= 1_000
    assert asked.answers is not None
    counts = ", ".join(f"{answer} {100 * count / asked.inputs:.2f}%" for answer, count in asked.answers.items())
    assert f"{asked.mean_samples:,.0f} samples on average: {counts}" in PAGE


def test_the_page_shows_what_the_cifar10_records_say() -> None:
    study = Study(RESULTS, data="cifar10")
    text = table_text(table(study, "table-3"), "markdown")
    shown = [line for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()]
    assert len(shown) == 9
    for line in shown:
        assert line in PAGE
    rows = measured_rows(study, published("table-3"))
    for row in rows:
        assert row.one_sided.inputs >= 1_000
        if row.published is not None and row.published.accuracy is not None:
            assert 100 * row.one_sided.accuracy > row.published.accuracy
            assert (row.one_sided.median or 0) >= (row.published.median or 0)
    leader = best([row.two_sided for row in rows])
    assert (leader.inputs, leader.scheme["keep"], leader.median) == (10_000, 25, 11)
    assert f"at k = 25: {100 * (leader.certified_accuracy_at(11) or 0):.2f}% of all 10,000 test images" in PAGE


def test_the_page_shows_the_mean_encoding_of_cifar10() -> None:
    row = measured_rows(Study(RESULTS, data="cifar10"), published("table-8-cifar10"))[-1]
    shown = row.one_sided
    words = f"{100 * shown.accuracy:.2f}% ({100 * shown.abstained:.2f}% abstained), median {shown.median}"
    assert words in PAGE


def test_the_page_shows_the_base_accuracies() -> None:
    """Training less test accuracy at k = 25 and 75, measured and published."""
    shown = base_table(Study(RESULTS, data="cifar10"), "table-4")
    rows = [dict(zip(shown.headers, row, strict=True)) for row in shown.rows]
    by_recipe = {(row["recipe"], row["k"]): row for row in rows}
    small, large, paper = (
        by_recipe[key] for key in (("modern-cifar10", "25"), ("modern-cifar10", "75"), ("paper-cifar10", "75"))
    )
    words = " ".join(PAGE.split())
    gap = "gap, last epoch"
    assert f"{small[gap]} points at k = 25 and {large[gap]} at k = 75" in words
    assert f"found {small['gap published']} and {large['gap published']}" in words
    tested = f"{small['test']} (paper: {small['test published']}) and {large['test']} ({large['test published']})"
    assert tested in words
    assert f"about {paper['test']} of the ablated copies, and the paper reports {paper['test published']}" in words
    cut = f"{paper[gap]} points, published {paper['gap published']}), which the other recipe cuts to {large[gap]}"
    assert cut in words


def test_the_page_shows_both_recipes_of_cifar10() -> None:
    shown = recipes(Study(RESULTS, data="cifar10"))
    without_time = [
        [text for name, text in zip(shown.headers, row, strict=True) if name != "training time"] for row in shown.rows
    ]
    assert len(without_time) == 2
    for row in without_time:
        assert f"| {' | '.join(row)} |" in PAGE
    printed = (RESULTS / "training-h200.txt").read_text()
    usual, paper = re.findall(r"(?:50|400) epochs of 50,000 images x \d: (\d+) s", printed)[:2]
    assert f"takes {paper} s, ours {usual} s" in " ".join(PAGE.split())


def test_the_page_shows_the_photographs() -> None:
    shown = table_6(Study(RESULTS, data="imagenette", epochs=20))
    assert len(shown.rows) == 6
    for row in shown.rows:
        assert f"| {' | '.join(row)} |" in PAGE
    (row,) = (row for row in shown.rows if row[:3] == ("Imagenette, measured", "10", "1000"))
    assert f"{row[3].split()[0]} accuracy, median {row[4]} pixels" in README


def test_the_page_shows_the_base_accuracies_of_resnet_50() -> None:
    shown = base_table(Study(RESULTS, data="cifar10", epochs=20), "table-5")
    assert [row[0] for row in shown.rows] == ["25", "50", "75", "100", "125", "150"]
    for row in shown.rows:
        assert f"| {' | '.join(row)} |" in PAGE
    assert "modern-cifar10 (20 epochs)" in " ".join(shown.notes)


def test_the_page_shows_what_the_attacks_found(tmp_path: Path) -> None:
    """Table 2 again from the records; our median, and how many attacks broke a certificate: none."""
    (tmp_path / "mnist").symlink_to(RESULTS / "mnist")  # the figure goes elsewhere
    made = table_2(Attacked(Study(tmp_path)))
    assert made.alarms == ()
    (shown,) = made.tables
    measured = [dict(zip(shown.headers, row, strict=True)) for row in shown.rows if row[1] != "-"]
    assert len(measured) == 5
    for row in measured:
        assert f"| {' | '.join(row.values())} |" in PAGE
    *others, ours = (int(row["median measured"]) for row in measured)
    assert ours >= 25
    assert ours > 2 * max(others)
    words, readme = " ".join(PAGE.split()), " ".join(README.split())
    assert f"more than twice as much as the best of the others**: {ours} pixels against {max(others)}." in words
    assert (
        f"a median of {ours} pixels against k = 45 on MNIST, and {min(others)} to {max(others)} against four" in readme
    )
    assert any("275 of the 10,000 test images" in note for note in shown.notes)
    (spared,) = (note for note in shown.notes if "for which nothing was found" in note)
    (cnn, *first), (binarized, *second) = re.findall(r" (\d+) \(true class 8; median of the others (\d+)\)", spared)
    assert first == second
    assert f"**Nothing was found** for {cnn} images by the CNN and {binarized} by the binarized one, all of" in words
    for model in ("cnn", "binarized"):
        lines = records.read_findings(RESULTS / "mnist" / "attacks" / f"{model}-pointwise.jsonl.xz").lines
        others = statistics.median(line.distance for line in lines if line.distance is not None)
        assert [f"{others:g}"] == first
        assert f"the median of the others is {others:g} for both" in words
    (watched,) = (note for note in shown.notes if "within the certified radius, pointwise" in note)
    broken, certified = re.findall(r"pointwise: (\d+) of (\d+) certified", watched)[0]
    assert broken == "0"
    assert f"of {certified} certified images, {broken} were misclassified within the certified radius" in words
    assert f"{broken} of {certified} certified images were misclassified within their radius" in readme


def test_the_page_shows_by_how_much_attacks_became_cheaper() -> None:
    """The bar: 20 times fewer base evaluations, at distances that are no larger."""
    printed = (RESULTS / "attack-cost-h200.txt").read_text()
    lines = {
        name: numbers.split()
        for name, numbers in re.findall(r"^ +(fresh masks|error [\d.]+) +(.*)$", printed, re.MULTILINE)
    }
    fresh, usual = lines["fresh masks"], lines["error 0.05"]
    assert float(usual[3].rstrip("x")) >= 20
    assert float(usual[5]) <= float(fresh[5])
    words = " ".join(PAGE.split())
    assert f"took {fresh[1]} base evaluations and found images at a median of {float(fresh[5]):g} pixels" in words
    times = usual[3].rstrip("x")
    assert f"took {usual[1]}, {times} times fewer, and found them at {float(usual[5]):g}" in words
    assert f"{times} times fewer base evaluations" in (ROOT / "docs" / "attacks.md").read_text()


FIXED = {"mnist": (200, 12), "cifar10": (100, 13)}  # epochs, and the best published median


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("mnist", ["28x1"]),
        ("mnist", ["40x1"]),
        ("cifar10", ["64x1"]),
        pytest.param("mnist", CHOICES["mnist"], marks=pytest.mark.slow),
        pytest.param("cifar10", CHOICES["cifar10"], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_page_shows_what_fixed_masks_certify(data: str, names: Sequence[str]) -> None:
    """The bars, of all test images by the run-off: MNIST 10 by 28 masks, 11 by at most 200; CIFAR-10 12."""
    epochs, published_median = FIXED[data]
    rows = fixed_rows(Study(RESULTS, data=data, epochs=epochs), [Choice.parse(f"lattice-{name}") for name in names])
    readme = " ".join(README.split())
    for row in rows:
        assert row.run_off.inputs == 10_000
        start = (row.name, str(row.masks), row.retained, percent(row.run_off.accuracy), percent(row.plurality.accuracy))
        medians = row.run_off.median or -1, row.plurality.median or -1
        difference = f"{max(medians) - published_median:+d}"
        assert f"| {' | '.join((*start, *map(str, medians), str(published_median), difference))} |" in PAGE
    reached = {row.name: (row.masks, row.run_off.median or 0) for row in rows}
    bars = {"lattice-28x1": (28, 10), "lattice-40x1": (200, 11)} if data == "mnist" else {"lattice-64x1": (200, 12)}
    said = {
        "lattice-28x1": "{} masks certify a median of {}, ",
        "lattice-40x1": "{} masks one of {};",
        "lattice-64x1": "{0} fixed masks, all of which vote, certify a median of {1} pixels on CIFAR-10 by {0} forward",
    }
    for name in reached.keys() & bars.keys():
        masks, median = reached[name]
        assert (masks <= bars[name][0], median >= bars[name][1]) == (True, True)
        assert said[name].format(masks, median) in readme
    assert reached.keys() & bars.keys()


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("cifar10", ["bands-4"]),
        pytest.param("mnist", PATCHES["mnist"], marks=pytest.mark.slow),
        pytest.param("cifar10", PATCHES["cifar10"], marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_page_shows_what_is_certified_against_a_patch(data: str, names: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / data).symlink_to(RESULTS / data)  # the figure goes elsewhere
    study = Study(tmp_path, data=data, epochs=200 if data == "mnist" else None)
    shown, _ = patches(study, [Choice.parse(name) for name in names])
    for row in shown.rows:
        assert f"| {' | '.join(row)} |" in PAGE
    if data == "cifar10":
        ours, theirs = (row[shown.headers.index("5 x 5")] for row in (shown.rows[0], shown.rows[-1]))
        said = f"{ours} of the CIFAR-10 test images are certified against every change of 5 x 5 pixels by bands of 4"
        assert f"{said} columns; Levine & Feizi (2020), whose scheme it is, report {theirs}" in " ".join(README.split())


def test_the_page_shows_ablation_and_random_values_side_by_side() -> None:
    """Table 7 again from the records: ablation certifies more at its best than random values at theirs."""
    shown = table_7(Study(RESULTS / "table-7", limit=1_000, epochs=200))
    for row in shown.rows:
        assert f"| {' | '.join(row)} |" in PAGE
    measured = [row for row in shown.rows if "published" not in row[0]]
    medians = {
        kind: max(int(row[6]) for row in measured if row[0] == kind and row[6] != "N/A")
        for kind in ("ablation", "random values")
    }
    assert medians["ablation"] > medians["random values"]
    words = " ".join(PAGE.split())
    assert f"The largest median of random values is the {medians['random values']} of the paper's table." in words
    assert f"Ablation has {medians['ablation']} here" in words
    here, recipe = (records.read(RESULTS / name / "k45" / "certify.jsonl.xz") for name in ("table-7/mnist", "mnist"))
    examples = {line.example for line in here.lines}
    same = replace(recipe, lines=tuple(line for line in recipe.lines if line.example in examples))
    short, long = (summarise(one, bound="one-sided") for one in (here, same))
    assert (short.inputs, long.inputs, long.median) == (1_000, 1_000, 8)
    shares = [100 * (one.certified_accuracy_at(8) or 0) for one in (short, long)]
    assert shares == pytest.approx([48.9, 50.7])
    assert f"here ({shares[0]:.2f}% certified against 8 pixels)" in words
    assert "have 8 on these 1,000 images too (`tests/test_results.py` computes it)" in words


def test_the_page_of_photographs_shows_the_plan() -> None:
    """From the rates that the benchmarks printed."""
    training, engine = ((RESULTS / f"{name}-h200.txt").read_text() for name in ("training", "engine"))
    of_paper = training.split("\npaper-imagenet, ")[1]
    trained = re.findall(r"from memory: ([\d,]+) ablated images/s", of_paper)[0]
    resnet_50 = re.findall(r"engine, bf16: ([\d,]+) copies/s", engine)[-1]
    rates = Rates(*(float(rate.replace(",", "")) for rate in (trained, resnet_50)))
    page = (ROOT / "docs" / "imagenet.md").read_text()
    assert plan_text(planned("imagenet"), rates) in page
    from_files = re.findall(r"from 5,000 JPEG files of Imagenette: ([\d,]+) ablated images/s, ([\d.]+%)", training)[0]
    assert "a second from the files, {1} of its rate".format(*from_files) in " ".join(page.split())
    assert f"trains on {from_files[0]} ablated images" in " ".join(page.split())


def test_every_classifier_of_the_tables_is_recorded() -> None:
    for table_name in ("table-1", "table-8-mnist", "footnote"):
        known = published(table_name)
        for row in known.rows:
            folder = RESULTS / "mnist" / (f"k{row.keep}" if row.encoding == "null-channels" else "k45-mean-fill")
            name = "certify-alpha-0.001.jsonl.xz" if table_name == "footnote" else "certify.jsonl.xz"
            header, lines = _glanced(folder / name)
            assert lines == header.run["data"]["of"] == 10_000
            sampling = known.sampling
            run = header.run
            assert (run["n0"], run["n"], run["alpha"]) == (sampling.n0, sampling.n, sampling.alpha)
            if sampling.predict_n:
                assert _glanced(folder / "predict.jsonl.xz")[0].run["n"] == sampling.predict_n


def test_the_page_of_attacks_shows_the_comparison_with_foolbox() -> None:
    """The bar: our median is no larger, as published and by default."""
    text = (RESULTS / "foolbox-pointwise-cpu.txt").read_text()
    found = r"median ([\d.]+), mean ([\d.]+), 0 failures, ([\d,]+) queries"
    theirs, published, ours = re.findall(found, text)
    words = " ".join((ROOT / "docs" / "attacks.md").read_text().split())
    assert f"Foolbox median {theirs[0]} pixels, mean {theirs[1]} at {theirs[2]} queries an image" in words
    for mine, before in ((published, "(`--rounds 0`)"), (ours, "by default")):
        assert f"{before} {mine[0]}, {mine[1]} and {mine[2]}" in words
        assert float(mine[0]) <= float(theirs[0])


def test_the_page_of_the_service_shows_the_load_test() -> None:
    printed = (RESULTS / "service-cpu.txt").read_text()
    page = (ROOT / "docs" / "service.md").read_text()
    levels = re.findall(r"^ +(\d+(?: +[\d.,]+){8})$", printed, flags=re.MULTILINE)
    assert len(levels) == 7
    for level in levels:
        clients, rate, _, *others = level.split()
        assert f"| {' | '.join((clients, rate, *others))} |" in page
    (memory,) = {*re.findall(r"^lost 0, memory (\d+) MiB$", printed, flags=re.MULTILINE)}
    assert f"memory of the process at {memory} MiB" in " ".join(page.split())
