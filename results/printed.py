"""Tables of the pages from what the benchmarks printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from results.markdown import markdown
from sparsecert.training.plans import Rates, find_plan, format_duration, format_plan

RESULTS = Path(__file__).resolve().parent
NETWORKS = {
    "mnist-cnn": "MNIST CNN, k = 45",
    "resnet18-cifar": "CIFAR ResNet-18, k = 75",
    "resnet50": "ResNet-50 at 224 px, k = 1,000",
}
SAMPLES = 1_000 + 10_000


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


def service(device: str = "cpu") -> str:
    """Clients that ask the service at the same time; the file may hold a run for each of several models."""
    rows, text = [], printed(f"service-{device}")
    for run in re.split(r"^(?=.*requests at once$)", text, flags=re.MULTILINE)[1:]:
        ((model,),) = found(r", (\S+), at most \d+ requests at once$", run)
        ((kind,),) = found(r"^(\w+)(?:, n = \d+)?, [\d,]+ requests a level", run)
        for clients, rate, _, *others in found(r"^ +" + r" +".join([r"([\d.,]+)"] * 9) + "$", run):
            rows.append((f"`{model}`, {kind}", clients, rate, *others))
    for model, levels in found(
        r", (\S+)\nPython [\d.]+\n(certify without HTTP.*(?:\n.*)*)", printed(f"service-{device}")
    ):
        for level in found(r"^ +" + r" +".join([r"([\d.]+)"] * 4) + "$", levels):
            rows.append((f"`{model}`, certify without HTTP", *level, *"----"))
    headers = (
        *("model, request", "clients", "requests a second", "p50, ms", "p99, ms", "refused for a moment", "lost"),
        *("requests a pass", "memory, MiB"),
    )
    return markdown(headers, rows)


def pretrained() -> str:
    """Three ways from a network of whole images to a certified classifier."""
    rows, plain = [], ""
    for run in re.split(r"^(?=\$ )", printed("pretrained-h200"), flags=re.MULTILINE)[1:]:
        ((data, model, masks),) = found(r"^NVIDIA H200, torch \S+, (\w+), (\S+), (\w+\(.*\)), \w+$", run)
        if "--ways random" not in run:  # which goes on where the run before it ended
            ((plain,),) = found(r"plain network: (\S+%) of whole images right$", run)
        trained = found(r"^\S+ (.+): (\S+ \w+) in ([\d.]+) minutes, certifying", run)
        certified = found(r"^\S+ (.+): (\S+%) right, median radius (\S+)$", run)
        for (way, *length), (_, *radius) in zip(trained, certified, strict=True):
            rows.append((data, f"`{model}`, {plain}", f"`{masks}`", way, *length, *radius))
    return markdown(("data", "network, whole images", "masks", "way", "trained", "minutes", "accuracy", "median"), rows)


POINTWISE = r"^(.+): median ([\d.]+), mean ([\d.]+), \d+ failures, ([\d,]+) queries"
POINTWISE_NAMES = {
    "Foolbox PointwiseAttack": "Foolbox",
    "sparsecert Pointwise, 0 rounds": "ours as published (`--rounds 0`)",
    "sparsecert Pointwise, 20 rounds": "ours by default, 20 rounds of fresh noise",
}


def foolbox() -> str:
    """Our Pointwise attack and Foolbox's, on a plain network."""
    lines = found(POINTWISE, printed("foolbox-pointwise-cpu"))
    headers = "attack", "median, pixels", "mean, pixels", "queries an image"
    return markdown(headers, ((POINTWISE_NAMES[name], *numbers) for name, *numbers in lines))


def foolbox_synthesis() -> str:
    """The same on analysis by synthesis."""
    runs = re.split(r"^(?=\$ )", printed("foolbox-synthesis-cpu"), flags=re.MULTILINE)[1:]
    lines = [
        (model, POINTWISE_NAMES[name], *numbers)
        for model, run in zip(("ABS", "binary ABS"), runs, strict=True)
        for name, *numbers in found(POINTWISE, run)
    ]
    return markdown(("model", "attack", "median, pixels", "mean, pixels", "queries an image"), lines)


def sparse_attacks() -> str:
    """Our Sparse-PGD and its authors'."""
    lines = found(
        r"^sparse-pgd(, projected)?, for (\d+) pixels: accuracy (\S+), by the authors' program (\S+)$",
        printed("sparse-attacks-cpu"),
    )
    headers = "gradient", "pixels", "accuracy left by ours", "left by theirs, rendered"
    return markdown(headers, (("projected" if kind else "unprojected", *others) for kind, *others in lines))


def sparse_attacks_cifar10() -> str:
    """All attacks on one plain network."""
    lines = found(
        r"^(.+): median ([\d.]+), mean ([\d.]+), \d+ failures, ([\d,]+) queries.* accuracy (\S+) within 20 ",
        printed("sparse-attacks-h200"),
    )
    headers = "attack", "median, pixels", "mean, pixels", "queries an image", "accuracy left within 20 pixels"
    return markdown(headers, lines)


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


def elections() -> str:
    """Elections of many images at once, and of one after the other."""
    lines = found(
        r"^(.+ masks), (.+): ([\d,]+) images/s, image by image ([\d,]+) images/s, ratio ([\d.]+)",
        printed("elections-cpu"),
    )
    return markdown(("masks", "rule", "images a second", "image by image", "ratio"), lines)


@cache
def end_to_end() -> dict[str, tuple[str, ...]]:
    """For each device: images, how many a second become labels and radii, the same one by one, and the ratio."""
    return {
        device: found(
            r", ([\d,]+) images on the device\nto labels and radii: ([\d,]+) images/s, one by one ([\d.,]+) images/s, "
            r"ratio ([\d,]+)",
            printed(f"elections-{device}"),
        )[0]
        for device in ("h200", "cpu")
    }


def certified_images() -> str:
    """From images to labels and radii by 28 fixed masks."""
    names = {"h200": "NVIDIA H200", "cpu": "two x86_64 cores"}
    headers = "", "images", "images a second", "one by one", "ratio"
    return markdown(headers, ((names[device], *numbers) for device, numbers in end_to_end().items()))


def held_out() -> str:
    """Settings judged by training images that are held out."""
    rows = []
    for part in printed("held-out-h200").split("\n\n"):
        if of := re.match(r"NVIDIA H200, (\w+), ([\w-]+), .*, (\w+)\(.*=(\d+)\), seed 0\n", part):
            masks = f"random, k = {of[4]}" if of[3] == "Uniform" else f"{of[3].lower()}-{of[4]}"
            lines = found(r"^(\S+=\S+) +[\d.]+ +[\d.]+% +([\w-]+) +([\d.]+%) +(\d+) ", part)
            rows += [(of[1], masks, f"`{of[2]}`", f"`{change}`", *judged) for change, *judged in lines]
    return markdown(("data", "masks", "recipe", "change", "rule or bound", "accuracy", "median"), rows)


def paper_recipe() -> str:
    """The paper's training with one setting changed at a time."""
    rows = []
    for part in printed("paper-recipe-h200").split("\n\n"):
        if of := re.match(r"NVIDIA H200, (\w+), paper-\w+, k = (\d+),.*\n.* judge by, ([\d,]+ \+ [\d,]+) votes", part):
            lines = found(r"^(\S+) +([\d.]+%|-) +([\d.]+%|-) +([\d.]+% +\(.*\)) +(\S+)$", part)
            for change, training, copies, accuracy, median in lines:
                name = change if change in ("none", "published") else f"`{change}`"
                votes = "1,000 + 10,000" if change == "published" else of[3]
                rows.append((of[1], of[2], name, votes, training, copies, re.sub(" +", " ", accuracy), median))
    names = "data", "k", "change", "votes", "training, last epoch", "single copies", "accuracy (abstained)", "median"
    return markdown(names, dict.fromkeys(rows))  # what is published stands in every part


COPIES = r"+([\d,]+) copies/s"
BLOCKS: dict[str, Callable[[], str]] = {
    # docs/results.md
    "attack-cost": attack_cost,
    "paper-recipe": paper_recipe,
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
    "elections": elections,
    "certified-images": certified_images,
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
    # docs/pairwise.md
    "held-out": held_out,
    # docs/service.md, docs/attacks.md, docs/tables.md, docs/imagenet.md
    "service": service,
    "service-h200": lambda: service("h200"),
    # docs/your-model.md
    "pretrained": pretrained,
    "foolbox": foolbox,
    "foolbox-synthesis": foolbox_synthesis,
    "sparse-attacks": sparse_attacks,
    "sparse-attacks-cifar10": sparse_attacks_cifar10,
    "tables-certified": lambda: of_tables("| data set | features"),
    "tables-attacked": lambda: of_tables("| data set | k | defender"),
    "plan": plan,
}
