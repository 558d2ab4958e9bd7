"""Writes the numbers of README.md and docs/: each marker block is made from the records and printed files in here.

    <!-- results: table-1 -->
    ...
    <!-- end of results -->

`python results/pages.py` writes every block anew, or those that are named; with `--check` it writes nothing, lists the
blocks that are stale, and exits with 1 if there are any. The prose around the blocks is free.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import zip_longest
from pathlib import Path

from sparsecert import records
from sparsecert.published import published_medians, published_patches
from sparsecert.reports import Gap, Summary, compute_gap, summarise
from sparsecert.reports.attack_tables import format_magnitude
from sparsecert.reports.comparison import Table, format_median, format_percent
from sparsecert.reproduce import Study
from sparsecert.reproduce.attacked import PUBLISHED, Attacked
from sparsecert.reproduce.base_tables import base_table
from sparsecert.reproduce.exact import choices_of, exact_table
from sparsecert.reproduce.fixed import FixedRow, fixed_rows
from sparsecert.reproduce.headline import headline
from sparsecert.reproduce.patches import choices_of as patches_of
from sparsecert.reproduce.patches import patches_table
from sparsecert.reproduce.recipes import recipes
from sparsecert.reproduce.table_2 import table_2
from sparsecert.reproduce.table_6 import table_6
from sparsecert.reproduce.table_7 import table_7
from sparsecert.reproduce.tables import table
from sparsecert.schemes import Choice
from sparsecert.training.plans import Rates, find_plan, format_duration, format_plan

RESULTS = Path(__file__).resolve().parent
ROOT = RESULTS.parent
PAGES = ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))
START, END = "<!-- results: {} -->", "<!-- end of results -->"
MARKER = re.compile(rf"^(?:{START.format('(.+)')}|{END})$", re.MULTILINE)
A_NUMBER = re.compile(r"N/A|[-+\d.,%() ]*(?:e[-+]\d+)?(?:(?:of|to) [\d,]+)?(?: ?(?:d|h|min|s|MiB))?")
FIXED_EPOCHS = {"mnist": 200, "cifar10": 100}
PATCH_EPOCHS = {"mnist": 200, "cifar10": None}
NETWORKS = {
    "mnist-cnn": "MNIST CNN, k = 45",
    "resnet18-cifar": "CIFAR ResNet-18, k = 75",
    "resnet50": "ResNet-50 at 224 px, k = 1,000",
}
SAMPLES = 1_000 + 10_000


# Pages and their blocks


@dataclass(frozen=True)
class Block:
    """The text between two markers of a page."""

    page: Path
    name: str
    text: str

    def write(self, text: str) -> None:
        """Puts another text there."""
        start = START.format(self.name)
        before, _, rest = self.page.read_text().partition(start)
        _, _, after = rest.partition(END)
        self.page.write_text(f"{before}{start}\n\n{text}\n\n{END}{after}")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; an unknown name, or a marker without its counterpart, is an error."""
    blocks = []
    text = page.read_text()
    markers = list(MARKER.finditer(text))
    for start, end in zip_longest(markers[::2], markers[1::2]):
        if start[1] is None:
            raise SystemExit(f"{page}: {END} closes no block")
        if start[1] not in BLOCKS:
            raise SystemExit(f"{page}: unknown block {start[1]!r}, must be one of {', '.join(sorted(BLOCKS))}")
        if end is None or end[1] is not None:
            raise SystemExit(f"{page}: block {start[1]!r} is not closed by {END}")
        blocks.append(Block(page, start[1], text[start.end() : end.start()].strip()))
    return blocks


def all_blocks() -> list[Block]:
    """The blocks of all pages; one that no page shows, or that is shown twice, is an error."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    names = [block.name for block in blocks]
    for name in BLOCKS:
        if names.count(name) != 1:
            raise SystemExit(f"block {name!r} must be in one page, it is in {names.count(name)}")
    return blocks


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="Write the numbers of README.md and docs/ from results/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a block is stale")
    parser.add_argument("names", nargs="*", metavar="BLOCK", help="blocks to write or check (default: all)")
    asked = parser.parse_args(arguments)
    if unknown := {*asked.names} - {*BLOCKS}:
        parser.error(f"unknown block {', '.join(sorted(unknown))}; there are {', '.join(sorted(BLOCKS))}")
    blocks = [block for block in all_blocks() if block.name in (asked.names or BLOCKS)]
    made = {block: BLOCKS[block.name]() for block in blocks}
    stale = [block for block in blocks if block.text != made[block]]
    for block in stale:
        print(f"{block.page.relative_to(ROOT)}: {block.name} {'is stale' if asked.check else 'written'}")
        if not asked.check:
            block.write(made[block])
    return 1 if asked.check and stale else 0


# Markdown


def markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; columns of numbers are set to the right."""
    rows = list(rows)
    columns = zip(*rows, strict=True)
    rules = ("---:" if all(map(A_NUMBER.fullmatch, column)) else "---" for column in columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headers, tuple(rules), *rows))


def shown(made: Table, without: Sequence[str] = ()) -> str:
    """A table of the package, less some columns; its notes are for the page to say."""
    kept = [place for place, header in enumerate(made.headers) if header not in without]
    return markdown([made.headers[place] for place in kept], [[row[place] for place in kept] for row in made.rows])


def rows_of(made: Table) -> list[dict[str, str]]:
    """Each row by the names of its columns."""
    return [dict(zip(made.headers, row, strict=True)) for row in made.rows]


# From the records: the tables that `sparsecert reproduce ... --out results` prints


@cache
def certified(name: str, data: str) -> Table:
    """A table of certificates over k."""
    return table(Study(RESULTS, data=data), name)


def some_rows(name: str, data: str, *keeps: int) -> str:
    """Those of its rows."""
    made = certified(name, data)
    return shown(replace(made, rows=tuple(row for row in made.rows if int(row[0]) in keeps)))


@cache
def fixed_row(data: str, choice: Choice, epochs: int | None) -> FixedRow:
    """What one fixed set of masks certifies."""
    (row,) = fixed_rows(Study(RESULTS, data=data, epochs=epochs), [choice])
    return row


def exact(data: str) -> str:
    """Fixed sets of masks."""
    epochs = FIXED_EPOCHS[data]
    rows = [fixed_row(data, choice, epochs) for choice in choices_of(data)]
    return shown(exact_table(Study(RESULTS, data=data, epochs=epochs), rows))


def patches(data: str) -> str:
    """Bands and blocks against patches."""
    epochs = PATCH_EPOCHS[data]
    rows = [fixed_row(data, choice, epochs) for choice in patches_of(data)]
    return shown(patches_table(Study(RESULTS, data=data, epochs=epochs), rows))


@cache
def photographs() -> Table:
    """Imagenette below ImageNet."""
    return table_6(Study(RESULTS, data="imagenette", epochs=20))


@cache
def attacked() -> Table:
    """The Pointwise attack; the figure that belongs to it is drawn elsewhere and thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mnist").symlink_to(RESULTS / "mnist")
        (made,) = table_2(Attacked(Study(Path(folder)))).tables
    measured = made.headers.index("accuracy measured")
    return replace(made, rows=tuple(row for row in made.rows if row[measured] != "-"))


@cache
def gap() -> Gap:
    """The attack on our model and its certificates, for the same images."""
    found = Attacked(Study(RESULTS))
    findings = found.findings(found.ours, PUBLISHED)
    certificates, reason = found.certificates(findings)
    assert certificates is not None, reason
    return compute_gap(certificates, findings, summarise(certificates, bound="two-sided"))


def attack_gap() -> str:
    """How far the attack stays from the certificates."""
    headers = "certified", "misclassified within the radius", "median certified radius", "median attacked"
    medians = format_median(gap().median_certified), format_magnitude(gap().median_attacked)
    return markdown(headers, [(str(gap().certified), str(len(gap().broken)), *medians)])


@cache
def summary(name: str, bound: str | None = None) -> Summary:
    """A run with the shipped model of k = 45."""
    return summarise(records.read(RESULTS / "mnist" / "k45" / f"{name}.jsonl.xz"), bound=bound)


def fewer_samples() -> str:
    """A fixed number of samples beside as many as each radius needs."""
    runs = {
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
        fixed, random = (made for made, _ in headline(Study(Path(folder))))
    headers = "", "28 fixed masks, exact", "best published", "k = 45, alpha = 0.05", "published"
    rows = zip(fixed.rows, random.rows, strict=True)
    return markdown(headers, ((name, *of_fixed, *of_random) for (name, *of_fixed), (_, *of_random) in rows))


def beyond() -> str:
    """The headline numbers of what goes beyond the paper's tables."""

    def by_lattice(data: str, parts: int) -> tuple[str, str]:
        row = fixed_row(data, Choice.parse(f"lattice-{parts}x1"), FIXED_EPOCHS[data])
        return format_median(row.run_off.median), str(published_medians("partitions").of(data))

    bands = fixed_row("cifar10", Choice.parse("bands-4"), PATCH_EPOCHS["cifar10"]).run_off
    (patch,) = published_patches("patches").rows
    ours = rows_of(attacked())[-1]
    imagenette = next(row for row in rows_of(photographs()) if row["k"] == "1000")
    fixed, sequential = summary("certify", "two-sided"), summary("certify-sequential")
    rows = (
        ("median certified by 28 fixed masks", "MNIST", *by_lattice("mnist", 28)),
        ("median certified by 40 fixed masks", "MNIST", *by_lattice("mnist", 40)),
        ("median certified by 64 fixed masks", "CIFAR-10", *by_lattice("cifar10", 64)),
        (
            f"certified against every patch of {patch.side} x {patch.side} pixels, bands of 4 columns",
            "CIFAR-10",
            format_percent(bands.certified_accuracy_at(patch.side) or 0.0),
            f"{patch.certified:.1f}%",
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
    )
    return markdown(("", "data", "measured", "published"), rows)


# From what the benchmarks printed


def printed(name: str) -> str:
    """A file of what a benchmark printed."""
    return (RESULTS / f"{name}.txt").read_text()


def found(pattern: str, text: str) -> list[tuple[str, ...]]:
    """The groups of each line that fits; none is an error."""
    lines = [tuple(fit.groups()) for fit in re.finditer(pattern, text, re.MULTILINE)]
    if not lines:
        raise SystemExit(f"nothing was printed like {pattern!r}")
    return lines


def number(text: str) -> float:
    """A number with commas."""
    return float(text.replace(",", ""))


@cache
def speeds() -> list[list[str]]:
    """For the H200 in bf16 and the CPU in fp32 and bf16: what `benchmarks.speed` printed, in the page's order."""
    runs = [printed("speed-h200"), *printed("bench-cpu").split("$ python -m benchmarks.speed")[1:]]
    columns = []
    for run in runs:
        ((images, samples),) = found(r": ([\d.,]+) images/s.*, ([\d,]+) samples/s$", run)
        ((share,),) = found(r"TFLOP/s, ([\d.]+%) of the matrix rate$", run)
        ((masks, encoding),) = found(r"masks ([\d.]+)%, encoding ([\d.]+)%, network", run)
        training = {at_once: time for at_once, time in found(r"^training, (\d+) at once: ([\d,]+) s for", run)}
        times = (training.get(at_once, "") for at_once in ("1", "21"))
        columns.append([images, samples, share, f"{number(masks) + number(encoding):.1f}%", *times])
    return columns


def rates() -> str:
    """What a GPU and a CPU do in a second."""
    names = (
        "images certified a second",
        "samples a second",
        "share of the rate of large matrix products",
        "masks and encoding, share of a pass",
        "400 epochs, seconds for one k alone",
        "400 epochs, seconds for each of 21 k at once",
    )
    headers = "", "NVIDIA H200, bf16", "two x86_64 cores, fp32", "the same, bf16"
    return markdown(headers, zip(names, *speeds(), strict=True))


@cache
def engines(device: str) -> dict[str, dict[str, str]]:
    """For each network: copies a second by each way, and by the engine in bf16 two shares."""
    networks = {}
    for part in printed(f"engine-{device}").split("\n\n")[1:]:
        ways = found(r"^((?:plain|engine), (?:fp32|bf16))(?:, batches of \d+)?: ([\d,]+) copies/s", part)
        ((masks, encoding, share),) = found(
            r"masks ([\d.]+)%, encoding ([\d.]+)%.*\nengine, bf16: .*, ([\d.]+%) of the matrix rate$", part
        )
        shares = {"matrix rate": share, "masks and encoding": f"{number(masks) + number(encoding):.1f}%"}
        networks[NETWORKS[part.split(",")[0]]] = {way: rate for way, rate in ways} | shares
    return networks


def engine() -> str:
    """The engine beside the plain rendering."""
    ways = "plain, fp32", "plain, bf16", "engine, fp32", "engine, bf16", "matrix rate", "masks and encoding"
    headers = "copies a second", *ways[:4], "share of the matrix rate", "masks and encoding, share of a pass"
    rows = (
        (f"{network}, {where}", *(known[way] for way in ways))
        for where, device in (("H200", "h200"), ("two cores", "cpu"))
        for network, known in engines(device).items()
    )
    return markdown(headers, rows)


def compiled() -> str:
    """The engine's networks beside those that `torch.compile` makes."""
    lines = found(
        r"^([\w-]+), k = (?:.*\n)+?network alone, bf16, ([\d,]+) copies a pass, copies/s: "
        r"fused ([\d,]+), compiled ([\d,]+), plain module ([\d,]+)\n  fused / compiled ([\d.]+)",
        printed("engine-compiled-h200"),
    )
    headers = "the network alone, copies a second", "copies a pass", "engine", "compiled", "plain module", "ratio"
    return markdown(headers, ((NETWORKS[name], *numbers) for name, *numbers in lines))


def networks() -> str:
    """The same as images a second."""
    headers = "", "H200, bf16: copies a second", "share of the matrix rate", "1,000 + 10,000 samples, images a second"
    rows = (
        (name, known["engine, bf16"], known["matrix rate"], f"{number(known['engine, bf16']) / SAMPLES:,.1f}")
        for name, known in engines("h200").items()
    )
    return markdown(headers, rows)


def hundred_million() -> str:
    """What 10^8 images would take: arithmetic."""
    rows = []
    for name, known in engines("h200").items():
        seconds = 1e8 * SAMPLES / number(known["engine, bf16"])
        rows.append((name, f"{seconds / 3_600:,.1f}", *(format_duration(seconds / gpus) for gpus in (64, 1_024))))
    return markdown(("", "GPU hours", "on 64 such GPUs", "on 1,024"), rows)


def growth(pattern: str, *headers: str) -> str:
    """What `benchmarks.growth` printed of one thing that grows: its size, then numbers of the H200 and of two cores."""

    def sizes(device: str) -> dict[str, list[str]]:
        lines = found(pattern, printed(f"growth-{device}"))
        return {re.sub(" +", " ", size): list(map(in_full, numbers)) for size, *numbers in lines}

    gpu, cpu, absent = sizes("h200"), sizes("cpu"), [""] * (len(headers) // 2)
    return markdown(headers, ((size, *gpu.get(size, absent), *cpu.get(size, absent)) for size in gpu | cpu))


def in_full(text: str) -> str:
    """A large number without its exponent."""
    return f"{float(text):,.0f}" if "e+" in text else text


def memory() -> str:
    """Peaks from a small run to a large one."""
    peaks = found(r"^(.+): peak ([\d,]+) MiB", printed("sizes-cpu"))
    rows = [(small, large, f"{low} to {high} MiB", "") for (small, low), (large, high) in pairs(peaks)]
    peaks = found(r"^(.+): peak .*, tensors on the GPU ([\d,]+) MiB", printed("sizes-h200"))
    rows += [(small, large, "", f"{low} to {high} MiB") for (small, low), (large, high) in pairs(peaks)]
    return markdown(("from", "to", "two cores", "H200"), rows)


def pairs(lines: Sequence[tuple[str, ...]]) -> Iterable[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The first and the second, the third and the fourth, and so on."""
    return zip(lines[::2], lines[1::2], strict=True)


def busy() -> str:
    """A CPU run beside another process, by how threads wait."""
    names = {"default": "torch's default: spin", "sleeping": "ours: sleep", "one thread": "one thread"}
    lines = found(
        r"^ *(default|sleeping|one thread): ([\d.]+) s .*, ([\d.]+) s .*, ratio ([\d.]+)$", printed("busy-cpu")
    )
    headers = "threads that wait", "idle, s an image", "beside a busy process, s", "ratio"
    return markdown(headers, ((names[name], *numbers) for name, *numbers in lines))


def workers() -> str:
    """Ray on two cores."""
    text = printed("workers-cpu")
    ((alone,),) = found(r"^without Ray: ([\d.]+) images/s", text)
    some = found(r"^(\d+) workers: ([\d.]+) images/s, ([\d.]+) times one.*after ([\d.]+) s$", text)
    headers = "workers", "images a second", "times one worker", "first results after, s"
    return markdown(headers, [("without Ray", alone, "", ""), *some])


def service() -> str:
    """Clients that ask the service at the same time."""
    levels = found(r"^ +" + r" +".join([r"([\d.,]+)"] * 9) + "$", printed("service-cpu"))
    headers = (
        *("clients", "requests a second", "p50, ms", "p99, ms", "refused for a moment", "lost"),
        *("requests a pass", "memory, MiB"),
    )
    return markdown(headers, ((clients, rate, *others) for clients, rate, _, *others in levels))


def foolbox() -> str:
    """Our Pointwise attack and Foolbox's."""
    names = {
        "Foolbox PointwiseAttack": "Foolbox",
        "sparsecert Pointwise, 0 rounds": "ours as published (`--rounds 0`)",
        "sparsecert Pointwise, 20 rounds": "ours by default, 20 rounds of fresh noise",
    }
    lines = found(
        r"^(.+): median ([\d.]+), mean ([\d.]+), \d+ failures, ([\d,]+) queries", printed("foolbox-pointwise-cpu")
    )
    headers = "attack", "median, pixels", "mean, pixels", "queries an image"
    return markdown(headers, ((names[name], *numbers) for name, *numbers in lines))


def attack_cost() -> str:
    """Queries that are answered by fresh masks, and those of our search."""
    names = {
        "fresh masks": "fresh copies for every query, as in the paper",
        "error 0.05": "the same masks, each query settled by a test (`--error 0.05`), as above",
        "error 0": "the same masks, no query settled early (`--error 0`)",
    }
    lines = found(
        r"^ +(fresh masks|error [\d.]+) +[\d,]+ +([\d,]+) +[\d,]+ +([\d.]+)x +\d+ +([\d.]+) +([\d.]+) ",
        printed("attack-cost-h200"),
    )
    headers = "answers", "base evaluations", "times fewer", "median, pixels", "mean, pixels"
    return markdown(headers, ((names[name], *numbers) for name, *numbers in lines))


def of_tables(start: str) -> str:
    """The table of what `benchmarks.tables` printed that has such a heading."""
    (made,) = (part for part in printed("tables-cpu").split("\n\n") if part.startswith(start))
    return made.strip()


def plan() -> str:
    """What ImageNet would take by these rates, and the command that computes it."""
    of_paper = printed("training-h200").split("\npaper-imagenet, ")[1]
    ((training,),) = found(r"^from memory: ([\d,]+) ablated images/s", of_paper)
    known = Rates(number(training), number(engines("h200")[NETWORKS["resnet50"]]["engine, bf16"]))
    options = f"--training-rate {known.training:.0f} --certifying-rate {known.certifying:.0f}"
    command = f"```console\n$ sparsecert info --plan imagenet {options}\n```"
    return f"{command}\n\n```text\n{format_plan(find_plan('imagenet'), known)}\n```"


COPIES = r"+([\d,]+) copies/s"
BLOCKS: dict[str, Callable[[], str]] = {
    # README.md
    "first-minute": first_minute,
    "some-of-table-1": lambda: some_rows("table-1", "mnist", 15, 30, 45, 65, 100),
    "some-of-table-3": lambda: some_rows("table-3", "cifar10", 20, 25, 50, 75, 150),
    "beyond": beyond,
    # docs/results.md
    "table-1": lambda: shown(certified("table-1", "mnist")),
    "table-8-mnist": lambda: shown(certified("table-8-mnist", "mnist")),
    "fewer-samples": fewer_samples,
    "at-least-8": at_least_8,
    "exact-mnist": partial(exact, "mnist"),
    "patches-mnist": partial(patches, "mnist"),
    "table-7": lambda: shown(table_7(Study(RESULTS / "table-7", limit=1_000, epochs=200))),
    "table-2": lambda: shown(attacked()),
    "attack-gap": attack_gap,
    "attack-cost": attack_cost,
    "table-3": lambda: shown(certified("table-3", "cifar10")),
    "table-8-cifar10": lambda: shown(certified("table-8-cifar10", "cifar10")),
    "exact-cifar10": partial(exact, "cifar10"),
    "patches-cifar10": partial(patches, "cifar10"),
    "recipes": lambda: shown(recipes(Study(RESULTS, data="cifar10")), without=["training time"]),
    "table-4": lambda: shown(base_table(Study(RESULTS, data="cifar10"), "table-4")),
    "table-5": lambda: shown(base_table(Study(RESULTS, data="cifar10", epochs=20), "table-5")),
    "table-6": lambda: shown(photographs()),
    # docs/scaling.md
    "rates": rates,
    "engine": engine,
    "compiled": compiled,
    "samples": lambda: growth(
        rf"^n = +([\d,]+): {COPIES}, (\S+) s an image",
        *("n", "H200, copies a second", "seconds an image", "two cores, copies a second", "seconds an image"),
    ),
    "images": lambda: growth(
        r"^ +([\d,]{2,} images(?:, sequential)?): +([\d.,]+) images/s",
        *("", "H200, images a second", "two cores, images a second"),
    ),
    "host": lambda: growth(
        r"^host, +([\d,]+ classes, .+): (\d+) us an image",
        *("microseconds an image", "host of the H200", "two cores"),
    ),
    "retained": lambda: growth(rf"^k = +(\d+): {COPIES}", "k of 784", "H200, copies a second", "two cores"),
    "classes": lambda: growth(rf"^ *([\d,]+) classes: {COPIES}", "classes", "H200, copies a second", "two cores"),
    "units": lambda: growth(
        r"^d = +([\d,]+, k = +[\d,]+): masks (\S+) us a copy, encoding (\S+) us a copy",
        *("d", "H200: masks, microseconds a copy", "encoding", "two cores: masks", "encoding"),
    ),
    "networks": networks,
    "memory": memory,
    "busy": busy,
    "workers": workers,
    "hundred-million": hundred_million,
    # docs/service.md, docs/attacks.md, docs/tables.md, docs/imagenet.md
    "service": service,
    "foolbox": foolbox,
    "tables-certified": lambda: of_tables("| data set | features"),
    "tables-attacked": lambda: of_tables("| data set | k | defender"),
    "plan": plan,
}


if __name__ == "__main__":
    sys.exit(main())
