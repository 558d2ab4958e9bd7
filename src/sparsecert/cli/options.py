"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli.registered import NameOption, Registered, name_option
from sparsecert.errors import InputError
from sparsecert.registry import DATASETS, METHODS, RULES

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.inputs import Inputs
    from sparsecert.runs import Cluster, Limit, Shard, Target
    from sparsecert.smoothed import Smoothed

Command = Callable[..., Any]

QUIET_RAY = {  # in a process of the command line, which is nobody else's; Ray reads them when it is imported
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # its messages on the terminal: what matters is said in a line of ours
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run` it would send the working folder to every machine
}


class DataName(Registered):
    """The name of a data set, or a path."""

    other = ", or a folder of train/ and val/"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Anything: `datasets.load` refuses what it does not find."""
        return str(value)


DATA_HELP = "Data set; digits and mnist-sample are built in."
data = click.option("--data", "data_name", required=True, cls=NameOption, type=DataName(DATASETS), help=DATA_HELP)
optional_data = click.option("--data", "data_name", cls=NameOption, type=DataName(DATASETS), help=DATA_HELP)
data_dir = click.option(
    "--data-dir", type=click.Path(file_okay=False), envvar="SPARSECERT_DATA", show_envvar=True,
    help="Folder that holds the data sets (default: data).",
)  # fmt: skip
skip_bad = click.option(
    "--skip-bad", is_flag=True,
    help="Leave out files of an image folder that cannot be decoded, and say how many; see `sparsecert data check`.",
)  # fmt: skip
out_file = click.option(
    "--out", type=click.Path(dir_okay=False), metavar="FILE",
    help="Records file; if it exists, the run it holds is continued (default: in the run's folder, or in runs).",
)  # fmt: skip
split = click.option("--split", default="test", show_default=True, type=click.Choice(["train", "test"]))
limit = click.option("--limit", type=int, help="Only so many inputs, evenly spaced over the split.")
drawn = click.option("--random", "drawn", is_flag=True, help="Draw the --limit inputs at random, by --seed.")
n = click.option("--n", default=10_000, show_default=True, help="Ablated copies per input to estimate with.")
alpha = click.option("--alpha", default=0.05, show_default=True, help="Probability with which an answer may be wrong.")
seed = click.option("--seed", default=0, show_default=True, help="Decides everything that is left to chance.")
bound = name_option(
    "--bound", default="two-sided", show_default=True, registry=METHODS,
    help="Two-sided: Corollary 2, the leader against its rival. One-sided: Corollary 1, as in the paper's tables.",
)  # fmt: skip
sampling = click.option(
    "--sampling", default="fixed", show_default=True, type=click.Choice(["fixed", "sequential"]),
    help="Fixed: n0 + n copies of every input. Sequential: as many as its radius needs, with the same guarantee.",
)  # fmt: skip
at_least = click.option(
    "--at-least",
    type=int,
    metavar="R",
    help="Sequential: only answer whether the radius is R or more, with yes, no, or undecided at the budget.",
)
max_samples = click.option(
    "--max-samples", type=int,
    help="Sequential: the most copies of an input (default: 17000, or 6000 with --at-least).",
)  # fmt: skip
tolerance = click.option(
    "--tolerance", type=float,
    help="Sequential: stop when 1000 more copies are expected to gain less radius than this (default: 0.01).",
)  # fmt: skip
CHANCE = "n0", "n", "alpha", "bound", "sampling", "at_least", "max_samples", "tolerance"  # what only samples have
FIXED = "rule", "against", "seconds"  # what only a fixed set of masks has
AGAINST = ["pixels", "patches"]
rule = name_option(
    "--rule", registry=RULES,
    help="Fixed masks: how their votes elect a class (default: a run-off between the two leading ones).",
)  # fmt: skip
against = click.option(
    "--against", type=click.Choice(AGAINST),
    help="Fixed masks: the radius counts altered pixels, or is the side of an altered square patch (default: patches "
    "for blocks and bands, else pixels).",
)  # fmt: skip
seconds = click.option(
    "--seconds", type=float,
    help="Fixed masks that overlap: time for each linear program that may enlarge a radius (default: 0).",
)  # fmt: skip
shard = click.option("--shard", metavar="I/N", help="Only part I of N of the inputs; see `sparsecert records merge`.")
ray = click.option(
    "--ray", metavar="ADDRESS",
    help="Compute on the workers of a Ray cluster; auto: the one that is running, or a new one on this machine.",
)  # fmt: skip
workers = click.option("--workers", type=int, help="Of the cluster (default: as many as it has room for).")
cpus_per_worker = click.option("--cpus-per-worker", type=float, help="CPUs, and so threads, of each (default: 1).")
gpus_per_worker = click.option(
    "--gpus-per-worker", type=float, help="GPUs of each, or a share of one (default: 1 where the cluster has any)."
)
device = click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, mps.")
precision = click.option(
    "--precision", type=click.Choice(["auto", "fp32", "bf16", "fp16"]),
    help="Of the forward passes; the certificate is of the model so computed. auto: bf16 where the device multiplies "
    "it in hardware, else fp32 (default: the one the model was saved with, usually auto).",
)  # fmt: skip
rows = click.option("--rows", type=int, help="Ablated copies per forward pass (default: what the memory suggests).")


def together(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """Several options as one decorator, in the order in which the help lists them."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def refuse_given(names: Collection[str], why: str) -> None:
    """Refuses options of these parameters that are on the command line."""
    from click.core import ParameterSource

    context = click.get_current_context()
    for parameter in context.command.get_params(context):
        given = context.get_parameter_source(parameter.name or "") == ParameterSource.COMMANDLINE
        if given and parameter.name in names:
            raise InputError(f"{parameter.opts[0]} {why}")


def refuse_in_memory(names: Collection[str], data_name: str) -> None:
    """Refuses options of image folders that are on the command line, where the data set is one held in memory."""
    from sparsecert.datasets import in_memory

    if in_memory(data_name):
        refuse_given(names, f"is for folders of image files, and {data_name} is held in memory; leave it out")


def records_file(out: str | None, model: str, verb: str, data_name: str, part: Shard | None = None) -> str:
    """Where records go: `out`, or beside the model of a run's folder, or a file in runs/ that names model and data."""
    if out is not None:
        return out
    path, verb = Path(model), verb if part is None else f"{verb}-{part.index}-of-{part.of}"
    if path.is_dir() or path.name == "model.safetensors":
        return str((path if path.is_dir() else path.parent) / f"{verb}.jsonl")
    name = Path(data_name).stem if Path(data_name).expanduser().is_file() else Path(data_name).name
    return str(Path("runs") / f"{path.stem}-{name}-{verb}.jsonl")


def load_data(name: str, split: str, data_dir: str | None, skip_bad: bool, limit: int | None = None) -> Dataset:
    """A split of a data set; says what was skipped or not taken for an image, and if it has fewer than `limit`."""
    from sparsecert import datasets
    from sparsecert.cli.progress import files_bar

    refuse_in_memory(["skip_bad"], name)
    with files_bar(f"looking for bad files in {split}") as on_progress:
        data = datasets.load(name, split, data_dir, skip_bad, on_progress)
    say_others(data)
    if data.skipped:
        from sparsecert.datasets.bad_files import describe_skipped

        click.echo(describe_skipped(data), err=True)
    if limit is not None and limit > len(data):
        click.echo(f"--limit {limit:,} is more than {name} {split} has: all {len(data):,} inputs are taken", err=True)
    return data


def load_inputs(
    smoothed: Smoothed, name: str, split: str, data_dir: str | None, skip_bad: bool, limit: int | None
) -> Inputs:
    """The rows of a table, where the model was trained on one or `name` is a file; else a split of a data set."""
    if "table" not in smoothed.facts and not Path(name).expanduser().is_file():
        return load_data(name, split, data_dir, skip_bad, limit)
    from sparsecert.inputs.rows import Rows

    if not Path(name).expanduser().is_file():
        raise InputError(f"the model was trained on a table; certify it on the file of one, not on {name}")
    refuse_given(["split", "skip_bad", "device", "precision"], "is for images; leave it out for a table")
    return Rows.read(name, smoothed)


def say_others(data: Dataset) -> None:
    """Says how much lies beside the images of a folder, where anything does."""
    if data.non_images:
        from sparsecert.datasets.folder import describe_non_images

        click.echo(describe_non_images(data), err=True)


def chosen(limit: int | None, drawn: bool, seed: int) -> Limit:
    """Which inputs were asked for: evenly spaced ones, or a random subset."""
    from sparsecert.runs import RandomSample

    if drawn and limit is None:
        raise InputError("--random draws a subset of the inputs; say how many with --limit")
    return RandomSample(limit, seed) if drawn and limit is not None else limit


def inputs(data: Inputs, limit: Limit, shard: Shard | None) -> int:
    """How many inputs the run has."""
    from sparsecert.runs.inputs import indices_of

    return len(indices_of(data, limit, shard))


def cluster(
    address: str | None, workers: int | None, cpus: float | None, gpus: float | None, device: str
) -> Cluster | None:
    """The cluster to compute on, where one was asked for; refuses options that only a cluster has."""
    given = {"--workers": workers, "--cpus-per-worker": cpus, "--gpus-per-worker": gpus}
    if address is None:
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} is for a cluster; add --ray auto, or --ray with the address of one")
        return None
    from sparsecert.runs import Cluster

    for variable, setting in QUIET_RAY.items():
        os.environ.setdefault(variable, setting)
    return Cluster(address, workers, 1 if cpus is None else cpus, gpus, device)


def masks(smoothed: Smoothed) -> int | None:
    """How many masks vote for each input where they are a fixed set, None where they are drawn at random."""
    from sparsecert.schemes import FixedMasks

    return len(smoothed.scheme.table) if isinstance(smoothed.scheme, FixedMasks) else None


def has_fixed_masks(smoothed: Smoothed) -> bool:
    """Whether the classifier votes by a fixed set of masks; refuses the options of the other kind of classifier."""
    fixed = masks(smoothed)
    if fixed is None:
        refuse_given(FIXED, f"is for a fixed set of masks; this model draws them at random ({smoothed.scheme})")
        return False
    chance = CHANCE if click.get_current_context().params.get("drawn") else (*CHANCE, "seed")
    why = f"is for masks drawn at random; the {fixed} masks of this model are fixed, and all of them vote"
    refuse_given(chance, f"{why}: leave it out")
    return True


def load_model(
    path: str,
    device: str,
    precision: str | None,
    rows: int | None,
    out: str | None = None,
    cluster: Cluster | None = None,
) -> Smoothed:
    """The classifier of a model file, on its device, in the precision of the run that `out` holds, if it holds one."""
    from sparsecert.devices import device_named
    from sparsecert.runs.header import with_recorded_precision
    from sparsecert.smoothed import Smoothed

    place = device_named(device if cluster is None else "cpu")
    smoothed = Smoothed.load(path, device=place, precision=precision, rows=rows)
    return smoothed if out is None else with_recorded_precision(smoothed, out)


def computing(verb: str, model: Smoothed | Target, cluster: Cluster | None = None) -> str:
    """The label of a progress bar: in what precision forward passes are computed, and where.

    The workers of a cluster choose their own.
    """
    return verb if cluster is not None else f"{verb} in {model.precision} on {model.device}"
