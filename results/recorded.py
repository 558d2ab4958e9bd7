"""Tables of the pages from the records: those of the study of the paper, and those of the demo and other runs here."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from results.markdown import markdown, rows_of, shown
from results.printed import RESULTS, end_to_end, speeds
from results.trade_offs import MODELS, TITLES, model, trade_off
from sparsecert import records
from sparsecert.cli.demo_tables import Demo
from sparsecert.reports import Gap, Summary, compute_gap, summarise, summarise_attack
from sparsecert.reports.attack_tables import format_magnitude
from sparsecert.reports.comparison import Table, format_median, format_percent
from sparsecert.schemes import SchemeSpec
from studies.levine_feizi_2020 import Study
from studies.levine_feizi_2020.attacked import PUBLISHED, AttackStudy
from studies.levine_feizi_2020.base_tables import base_table
from studies.levine_feizi_2020.exact import default_specs, exact_table
from studies.levine_feizi_2020.fixed_masks import FixedRow, fixed_rows
from studies.levine_feizi_2020.patches import default_specs as patches_of
from studies.levine_feizi_2020.patches import patches_table
from studies.levine_feizi_2020.published import published_medians, published_patches
from studies.levine_feizi_2020.recipes import recipes
from studies.levine_feizi_2020.study import RESULTS as STUDY
from studies.levine_feizi_2020.table_2 import table_2
from studies.levine_feizi_2020.table_6 import table_6
from studies.levine_feizi_2020.table_7 import table_7
from studies.levine_feizi_2020.tables import table

FIXED_EPOCHS = {"mnist": 200, "cifar10": 100}
PATCH_EPOCHS = {"mnist": 200, "cifar10": None}
ATTACKED = {"lattice-28": "fixed", "k45": "random"}


@cache
def certified(name: str, data: str) -> Table:
    """A table of certificates over k."""
    return table(Study(STUDY, data=data), name)


@cache
def fixed_row(data: str, spec: SchemeSpec, epochs: int | None) -> FixedRow:
    """What one fixed set of masks certifies."""
    (row,) = fixed_rows(Study(STUDY, data=data, epochs=epochs), [spec])
    return row


def exact(data: str) -> str:
    """Fixed sets of masks."""
    epochs = FIXED_EPOCHS[data]
    rows = [fixed_row(data, spec, epochs) for spec in default_specs(data)]
    return shown(exact_table(Study(STUDY, data=data, epochs=epochs), rows))


def patches(data: str) -> str:
    """Bands and blocks against patches."""
    epochs = PATCH_EPOCHS[data]
    rows = [fixed_row(data, spec, epochs) for spec in patches_of(data)]
    return shown(patches_table(Study(STUDY, data=data, epochs=epochs), rows))


@cache
def photographs() -> Table:
    """Imagenette below ImageNet."""
    return table_6(Study(STUDY, data="imagenette", epochs=20))


@cache
def attacked() -> Table:
    """The Pointwise attack; its figure is drawn into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mnist").symlink_to(STUDY / "mnist")
        (made,) = table_2(AttackStudy(Study(Path(folder)))).tables
    measured = made.headers.index("accuracy measured")
    return replace(made, rows=tuple(row for row in made.rows if row[measured] != "-"))


@cache
def gap() -> Gap:
    """The attack on our model and its certificates, for the same images."""
    found = AttackStudy(Study(STUDY))
    attack_records = found.attack_records(found.ours, PUBLISHED)
    certificates, reason = found.certificates(attack_records)
    assert certificates is not None, reason
    return compute_gap(certificates, attack_records, summarise(certificates, bound="two-sided"))


def attack_gap() -> str:
    """How far the attack stays from the certificates."""
    headers = "certified", "misclassified within the radius", "median certified radius", "median attacked"
    medians = format_median(gap().median_certified), format_magnitude(gap().median_attacked)
    return markdown(headers, [(str(gap().certified), str(len(gap().broken)), *medians)])


def misclassified() -> str:
    """How far from the certificates the nearest misclassifications are that a search for them found."""
    headers = (
        "data", "model", "images", "certified", "misclassified within the radius", "misclassified at all",
        "least pixels beyond the radius", "median beyond the radius", "median certified radius", "median attacked",
    )  # fmt: skip
    rows = []
    for name in ("mnist/spread-160", "cifar10/grid-8", "mnist/k45", "cifar10/k75"):
        folder = RESULTS / name
        votes = records.read(folder / "certify-attacked.jsonl.xz")
        found = compute_gap(votes, records.read_attack(folder / "misclassify.jsonl.xz"), summarise(votes))
        data, scheme = name.split("/")
        beyond = str(min(found.beyond)), f"{statistics.median(found.beyond):g}"
        proved = sum(pair.radius is not None for pair in found.pairs)
        counts = len(found.pairs), proved, len(found.broken), len(found.beyond)
        medians = format_median(found.median_certified), format_magnitude(found.median_attacked)
        rows.append((TITLES[data], f"`{data}-{scheme}`", *map(str, counts), *beyond, *medians))
    return markdown(headers, rows)


def smoothed_attacks() -> str:
    """The attacks on two smoothed classifiers: pixels changed, and forward passes of the base classifier."""
    columns = "median", "mean", "evaluations"
    headers = "attack", *(f"{column}, {masks} masks" for masks in ATTACKED.values() for column in columns)
    rows: dict[str, list[str]] = {}
    for name in ATTACKED:
        for path in sorted((RESULTS / "mnist" / "attacked" / name).glob("attack-*.jsonl.xz")):
            found = records.read_attack(path)
            made, distances = summarise_attack(found), [x.distance for x in found.lines if x.distance is not None]
            mean = f"{statistics.mean(distances):.2f}" if len(distances) == len(found.lines) else "-"
            cells = format_magnitude(made.median), mean, f"{made.mean_evaluations:,.0f}"
            rows.setdefault(made.attack["name"], []).extend(cells)
    return markdown(headers, ((f"`{attack}`", *cells) for attack, cells in rows.items()))


@cache
def summary(name: str, bound: str | None = None) -> Summary:
    """A run with the shipped model of k = 45: the study's, or by pairs or sequential sampling one of those here."""
    folder = STUDY if name == "certify" else RESULTS
    return summarise(records.read(folder / "mnist" / "k45" / f"{name}.jsonl.xz"), bound=bound)


def fewer_samples() -> str:
    """A fixed number of samples beside as many as each radius needs."""
    runs = {
        ("pairwise", "fixed"): summary("certify-pairwise"),
        ("two-sided", "fixed"): summary("certify", "two-sided"),
        ("two-sided", "sequential"): summary("certify-sequential"),
        ("one-sided", "fixed"): summary("certify", "one-sided"),
        ("one-sided", "sequential"): summary("certify-sequential-one-sided"),
    }
    rhos = range(max(len(run.certified_accuracy) for run in runs.values()))
    headers = "bound", "sampling", "samples an image", "median", "rho = 0", *map(str, rhos[1:])
    rows = (
        (
            *of,
            f"{run.mean_samples:,.0f}",
            format_median(run.median),
            *(f"{100 * x:.2f}" for x in run.certified_accuracy),
        )
        for of, run in runs.items()
    )
    return markdown(headers, rows)


def at_least_8() -> str:
    """Is the radius 8 or more?"""
    asked = summary("certify-at-least-8")
    assert asked.answers is not None
    shares = (format_percent(count / asked.inputs) for count in asked.answers.values())
    return markdown(("samples an image", *asked.answers), [(f"{asked.mean_samples:,.0f}", *shares)])


def first_minute() -> str:
    """What `make run` prints, without its notes."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mnist-sample").symlink_to(RESULTS / "mnist-sample")
        fixed, random = (made for made, _ in Demo(Path(folder)).run())
    headers = "", "28 fixed masks, exact", "best published", "k = 45, alpha = 0.05", "published"
    rows = zip(fixed.rows, random.rows, strict=True)
    return markdown(headers, ((name, *of_fixed, *of_random) for (name, *of_fixed), (_, *of_random) in rows))


RULES = "pairwise", "run-off", "plurality"


def pairwise_pixels() -> str:
    """Every rule on the same rankings, against perturbed pixels."""
    headers = "data", "masks", *(f"accuracy, {rule}" for rule in RULES), *(f"median, {rule}" for rule in RULES)
    rows = []
    for data, epochs in FIXED_EPOCHS.items():
        for spec in default_specs(data):
            by_rule = [fixed_row(data, spec, epochs).by(rule) for rule in RULES]
            accuracies = (format_percent(one.accuracy) for one in by_rule)
            medians = (format_median(one.median) for one in by_rule)
            rows.append((data, str(spec), *accuracies, *medians, str(published_medians("partitions").of(data))))
    return markdown((*headers, "published"), rows)


def pairwise_patches() -> str:
    """Pairwise comparison and the run-off on the same rankings, against a patch."""
    rows = []
    for data, epochs in PATCH_EPOCHS.items():
        for spec in patches_of(data):
            for rule in RULES[:2]:
                one = fixed_row(data, spec, epochs).by(rule)
                shares = (format_percent(one.certified_accuracy_at(side) or 0.0) for side in (1, 2, 3, 5, 8))
                rows.append((data, str(spec), rule, format_percent(one.accuracy), *shares))
    return markdown(("data", "masks", "rule", "accuracy", "1 x 1", "2 x 2", "3 x 3", "5 x 5", "8 x 8"), rows)


def by_bands() -> tuple[int, str, str, str]:
    """The side of the published patch on CIFAR-10, accuracy, and the shares certified, measured and published."""
    bands = fixed_row("cifar10", SchemeSpec.parse("bands-4"), PATCH_EPOCHS["cifar10"]).default
    (patch,) = published_patches("patches").rows
    shares = format_percent(bands.certified_accuracy_at(patch.side) or 0.0), f"{patch.certified:.1f}%"
    return patch.side, format_percent(bands.accuracy), *shares


def certified_by(data: str, folder: str) -> tuple[str, str, str, str]:
    """The data set, and the accuracy, median and best published median of a model that certifies many pixels."""
    one = model(data, folder)
    accuracy, median = format_percent(one.summary().accuracy), format_median(one.summary().median)
    return TITLES[data], accuracy, median, one.published(data)


def five() -> str:
    """What a newcomer wants to know first."""
    side, *patch = by_bands()
    rows = (
        ("median, 160 fixed masks", *certified_by("mnist", "spread-160")),
        ("median, 64 fixed masks, 8 networks averaged", *certified_by("cifar10", "grid-8-averaged")),
        ("median, 784 fixed masks", *certified_by("imagenette", "grid-28")),
        ("median, random masks of 8 pixels", *certified_by("mnist", "k8")),
        (f"certified against every {side} x {side} patch", "CIFAR-10", *patch),
    )
    return markdown(("", "data", "accuracy", "measured", "published"), rows)


def beyond() -> str:
    """The headline numbers of what goes beyond the paper's tables."""
    side, _, *patch = by_bands()
    ours = rows_of(attacked())[-1]
    imagenette = next(row for row in rows_of(photographs()) if row["k"] == "1000")
    fixed, sequential = summary("certify", "two-sided"), summary("certify-sequential")
    medians = {
        "60 fixed masks": ("mnist", "lattice-60x1"),
        "100 fixed masks, trained for the vote": ("mnist", "spread-100"),
        "160 fixed masks, trained for the vote": ("mnist", "spread-160"),
        "random masks of 8 pixels, trained for the vote": ("mnist", "k8"),
        "64 fixed masks": ("cifar10", "grid-8"),
        "64 fixed masks, 8 networks averaged": ("cifar10", "grid-8-averaged"),
        "784 fixed masks": ("imagenette", "grid-28"),
    }
    rows: list[tuple[str, ...]] = [
        (f"median certified by {name}, accuracy {accuracy}", data, median, published)
        for name, of in medians.items()
        for data, accuracy, median, published in [certified_by(*of)]
    ]
    rows += [
        (
            f"certified against every patch of {side} x {side} pixels, bands of 4 columns",
            "CIFAR-10",
            *patch,
        ),
        ("median that the Pointwise attack needs, k = 45", "MNIST", ours["median measured"], ours["median published"]),
        (
            "certified images misclassified within their radius, k = 45",
            "MNIST",
            f"{len(gap().broken)} of {gap().certified}",
            "",
        ),
        (
            f"samples an image, k = 45: sequential, instead of {fixed.mean_samples:,.0f}",
            "MNIST",
            f"{sequential.mean_samples:,.0f}",
            "",
        ),
        ("accuracy (abstained), k = 1,000", "Imagenette, 224 x 224", imagenette["accuracy"], ""),
        ("median certified, k = 1,000", "Imagenette, 224 x 224", imagenette["median"], ""),
        ("images certified a second on one H200, k = 45", "MNIST", speeds()[0][0], ""),
        ("images certified a second on two x86_64 cores, k = 45", "MNIST", speeds()[2][0], ""),
        ("images certified a second on one H200, 28 fixed masks", "MNIST", end_to_end()["h200"][1], ""),
    ]
    return markdown(("", "data", "measured", "published"), rows)


TEXT_RUNS = (  # data, model and masks, records, bounds
    ("SST-2", "bag of words, each word votes", "sst2/words", (None,)),
    ("SST-2", "bag of words, 5% of the words", "sst2/share-0.05", ("one-sided", "two-sided", "pairwise")),
    ("AG News", "bag of words, each word votes", "ag-news/words", (None,)),
    ("AG News", "bag of words, 5% of the words", "ag-news/share-0.05", ("one-sided", "two-sided", "pairwise")),
    ("AG News", "transformer, 12 runs of words", "ag-news/transformer-12", (None,)),
)


@cache
def text_run(name: str, bound: str | None) -> Summary:
    """The certificates of a run on texts."""
    return summarise(records.read(RESULTS / "text" / name / "certify.jsonl.xz"), bound=bound)


def texts() -> str:
    """Certified accuracy by the number of replaced words."""
    headers = "data", "model and masks", "certificate", "accuracy", *map(str, range(11)), "median", "of the text"
    rows = []
    for data, model_and_masks, name, bounds in TEXT_RUNS:
        for bound in bounds:
            one = text_run(name, bound)
            shares = (f"{one.certified_accuracy_at(rho) or 0:.1%}" for rho in range(11))
            median = format_median(one.median), "N/A" if one.median_share is None else f"{float(one.median_share):.1%}"
            rows.append((data, model_and_masks, bound or "deterministic", f"{one.accuracy:.1%}", *shares, *median))
    return markdown(headers, rows)


def text_attacks() -> str:
    """Certificates and the substitution attack on the same texts."""
    headers = (
        "data",
        "texts",
        "fooled within the radius",
        "one word beyond it",
        "median certified",
        "median attacked",
        *(f"{kind} at {rho}" for rho in (1, 2, 4, 6) for kind in ("certified", "attacked")),
    )
    rows = []
    for data, name in (("SST-2", "sst2/words"), ("AG News", "ag-news/words")):
        folder = RESULTS / "text" / name
        votes = records.read(folder / "certify.jsonl.xz")
        gap = compute_gap(votes, records.read_attack(folder / "attack.jsonl.xz"), summarise(votes))
        pairs = (gap.certified_accuracy, gap.accuracy_under_attack)
        shares = [f"{share[rho] if rho < len(share) else 0:.1%}" for rho in (1, 2, 4, 6) for share in pairs]
        medians = format_median(gap.median_certified), format_magnitude(gap.median_attacked)
        next_to = f"{gap.beyond.count(1)} of {len(gap.beyond)}"
        rows.append((data, str(len(gap.pairs)), str(len(gap.broken)), next_to, *medians, *shares))
    return markdown(headers, rows)


BLOCKS: dict[str, Callable[[], str]] = {
    # README.md
    "five": five,
    # docs/five-minutes.md
    "first-minute": first_minute,
    # docs/pairwise.md
    "pairwise-pixels": pairwise_pixels,
    "pairwise-patches": pairwise_patches,
    **{f"trade-off-{data}": partial(trade_off, data) for data in MODELS},
    # docs/text.md
    "texts": texts,
    "text-attacks": text_attacks,
    # docs/attacks.md
    "smoothed-attacks": smoothed_attacks,
    # docs/results.md
    "beyond": beyond,
    "table-1": lambda: shown(certified("table-1", "mnist")),
    "table-8-mnist": lambda: shown(certified("table-8-mnist", "mnist")),
    "fewer-samples": fewer_samples,
    "at-least-8": at_least_8,
    "exact-mnist": partial(exact, "mnist"),
    "patches-mnist": partial(patches, "mnist"),
    "table-7": lambda: shown(table_7(Study(STUDY / "table-7", limit=1_000, epochs=200))),
    "table-2": lambda: shown(attacked()),
    "attack-gap": attack_gap,
    "misclassified": misclassified,
    "table-3": lambda: shown(certified("table-3", "cifar10")),
    "table-8-cifar10": lambda: shown(certified("table-8-cifar10", "cifar10")),
    "exact-cifar10": partial(exact, "cifar10"),
    "patches-cifar10": partial(patches, "cifar10"),
    "recipes": lambda: shown(recipes(Study(STUDY, data="cifar10")), without=["training time"]),
    "table-4": lambda: shown(base_table(Study(STUDY, data="cifar10"), "table-4")),
    "table-5": lambda: shown(base_table(Study(STUDY, data="cifar10", epochs=20), "table-5")),
    "table-6": lambda: shown(photographs()),
}
