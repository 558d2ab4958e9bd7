"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli.registered import Command, NameOption, Registered, name_option
from sparsecert.errors import InputError
from sparsecert.registry import CERTIFICATES, DATASETS, MODELS, RULES

if TYPE_CHECKING:
    from sparsecert.runs import Cluster, Limit, Shard
    from sparsecert.smoothed import Smoothed

QUIET_RAY = {  # set in this process only; Ray reads them when it is imported
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # hide its log messages: we report what matters
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else, under `uv run`, it uploads the working folder to every machine
}


class DataName(Registered):
    """The name of a data set, or a path."""

    other = ", or a folder, an .npz file or module:function"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accepts anything; `datasets.load` refuses unknown names."""
        return str(value)


class ModelName(Registered):
    """The name of an architecture, or `module:factory`."""

    other = ", or module:factory, a network of yours, called as factory(channels, classes)"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Accepts any module:factory; it is imported, or refused, where the network is built."""
        if ":" not in str(value) and value not in self.registry:
            known = ", ".join(self.registry)
            self.fail(f"model must be one of {known}, or module:factory, a network of yours; got {value!r}", param, ctx)
        return str(value)


DATA_HELP = "Data set; digits, mnist-sample and cifar10-sample are built in."
data = click.option("--data", "data_name", required=True, cls=NameOption, type=DataName(DATASETS), help=DATA_HELP)
optional_data = click.option("--data", "data_name", cls=NameOption, type=DataName(DATASETS), help=DATA_HELP)
data_dir = click.option(
    "--data-dir", type=click.Path(file_okay=False), envvar="SPARSECERT_DATA", show_envvar=True,
    help="Folder of the data sets (default: data).",
)  # fmt: skip
skip_bad = click.option(
    "--skip-bad", is_flag=True,
    help="Skip files of an image folder that cannot be decoded; see `sparsecert data check`.",
)  # fmt: skip
resize = click.option(
    "--resize", type=click.IntRange(1, 10_000), metavar="N",
    help="Crop the images of a folder to N x N (default: their own size; 224 where they differ).",
)  # fmt: skip
network = click.option(
    "--model", "network", type=ModelName(MODELS), metavar="MODULE:FACTORY",
    help="The network of yours that `train --model` was given; it is imported only if named here again.",
)  # fmt: skip
out_file = click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE",
    help="Records file; an existing run is resumed (default: in the run's folder, or in runs).",
)  # fmt: skip
answers_file = click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE",
    help="Records file; an existing run is resumed (default: in the run's folder, or in runs). FILE.csv: one line per "
    "input with its answer, and records in FILE.jsonl beside it.",
)  # fmt: skip
rankings = click.option(
    "--rankings/--no-rankings", default=None,
    help="Fixed masks: whether records keep how each mask ranks the classes, so that `report --rule` can elect in "
    "another way (default: yes, but not for tables with --keep, whose masks are many).",
)  # fmt: skip
split = click.option("--split", default="test", show_default=True, type=click.Choice(["train", "test"]))
limit = click.option("--limit", type=int, metavar="N", help="Only N inputs, evenly spaced over the split.")
drawn = click.option("--random", "drawn", is_flag=True, help="Choose the --limit inputs at random, by --seed.")
n = click.option("--n", default=10_000, show_default=True, help="Ablated copies per input that vote.")
alpha = click.option("--alpha", type=float, help="Maximum probability of a wrong answer (default: 0.05).")
seed = click.option("--seed", default=0, show_default=True, help="Seed of all random choices.")
bound = name_option(
    "--bound", registry=CERTIFICATES,
    help="Two-sided: Corollary 2, top class against runner-up. One-sided: Corollary 1, as in the paper's tables. "
    "Pairwise: the class that beats every other one (default: the model's own, else two-sided).",
)  # fmt: skip
sampling = click.option(
    "--sampling", default="fixed", show_default=True, type=click.Choice(["fixed", "sequential"]),
    help="Fixed: n0 + n copies of every input. Sequential: as many as its radius needs, with the same guarantee.",
)  # fmt: skip
at_least = click.option(
    "--at-least",
    type=int,
    metavar="R",
    help="Sequential: only decide whether the radius is at least R: yes, no, or undecided within the budget.",
)
max_samples = click.option(
    "--max-samples", type=int,
    help="Sequential: maximum copies per input (default: 17000, or 6000 with --at-least).",
)  # fmt: skip
tolerance = click.option(
    "--tolerance", type=float,
    help="Sequential: stop when 1000 more copies would gain less radius than this (default: 0.01).",
)  # fmt: skip
AGAINST = ["pixels", "patches"]
rule = name_option(
    "--rule", registry=RULES,
    help="Fixed masks: how votes elect a class (default: the model's own, else pairwise; run-off for blocks and bands, "
    "plurality for tables with --keep).",
)  # fmt: skip
against = click.option(
    "--against", type=click.Choice(AGAINST),
    help="Fixed masks: the radius counts perturbed pixels, or is the side of a perturbed square patch (default: "
    "patches for blocks and bands, else pixels).",
)  # fmt: skip
seconds = click.option(
    "--seconds", type=float,
    help="Overlapping fixed masks: time limit of each linear program that may enlarge a radius (default: 0).",
)  # fmt: skip
shard = click.option("--shard", metavar="I/N", help="Only shard I of N of the inputs; see `sparsecert records merge`.")
ray = click.option(
    "--ray", metavar="ADDRESS",
    help="Run on a Ray cluster; auto: the one that is running, or a new one on this machine.",
)  # fmt: skip
workers = click.option("--workers", type=int, help="Workers on the cluster (default: as many as fit).")
cpus_per_worker = click.option("--cpus-per-worker", type=float, help="CPUs and threads per worker (default: 1).")
gpus_per_worker = click.option(
    "--gpus-per-worker", type=float, help="GPUs per worker, or a fraction of one (default: 1 if the cluster has any)."
)
device = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
precision = click.option(
    "--precision", type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
    help="Precision of the forward passes; the certificate holds for the model at this precision. auto: bf16 if the "
    "device supports it in hardware, else fp32 (default: as saved with the model, usually auto).",
)  # fmt: skip
rows = click.option("--rows", type=int, help="Ablated copies per forward pass (default: depends on the memory).")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order of the help."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


data_files = together(data_dir, skip_bad, resize)
selection = together(split, limit, drawn)
on_cluster = together(shard, ray, workers, cpus_per_worker, gpus_per_worker)
computation = together(device, precision, rows)


def given() -> dict[str, str]:
    """The parameters on the command line: name and flag of each."""
    from click.core import ParameterSource

    context = click.get_current_context()
    return {
        parameter.name: parameter.opts[0]
        for parameter in context.command.get_params(context)
        if parameter.name and context.get_parameter_source(parameter.name) == ParameterSource.COMMANDLINE
    }


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuses these parameters on the command line."""
    for name, flag in given().items():
        if name in names:
            raise InputError(f"{flag} {why}")


def records_file(out: str | None, model: str, verb: str, data_name: str, part: Shard | None = None) -> str:
    """The records file: `out`, else a file in the run's folder, else runs/MODEL-DATA-VERB.jsonl."""
    if out is not None:
        return out
    path, verb = Path(model), verb if part is None else f"{verb}-{part.index}-of-{part.of}"
    if path.is_dir() or path.name == "model.safetensors":
        return str((path if path.is_dir() else path.parent) / f"{verb}.jsonl")
    name = Path(data_name).stem if Path(data_name).expanduser().is_file() else Path(data_name).name.replace(":", "-")
    return str(Path("runs") / f"{path.stem}-{name}-{verb}.jsonl")


def chosen(limit: int | None, drawn: bool, seed: int) -> Limit:
    """The inputs to use: evenly spaced, or a random subset."""
    from sparsecert.runs import RandomSample

    if drawn and limit is None:
        raise InputError("--random needs --limit, the number of inputs")
    return RandomSample(limit, seed) if drawn and limit is not None else limit


def cluster(
    address: str | None, workers: int | None, cpus: float | None, gpus: float | None, device: str
) -> Cluster | None:
    """The cluster to run on, if any; without one, refuses the cluster's options."""
    given = {"--workers": workers, "--cpus-per-worker": cpus, "--gpus-per-worker": gpus}
    if address is None:
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} is for a cluster; add --ray auto or --ray ADDRESS")
        return None
    from sparsecert.runs import Cluster

    for variable, setting in QUIET_RAY.items():
        os.environ.setdefault(variable, setting)
    return Cluster(address, workers, 1 if cpus is None else cpus, gpus, device)


def computing(verb: str, model: Smoothed, cluster: Cluster | None = None) -> str:
    """The label of a progress bar: verb, precision and device; workers of a cluster choose their own."""
    return verb if cluster is not None else f"{verb} in {model.precision} on {model.device}"
