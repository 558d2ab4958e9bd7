"""`sparsecert choose`."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparsecert.cli import options
from sparsecert.cli.data_source import DataSource
from sparsecert.cli.interrupted import saying_kept
from sparsecert.cli.log_lines import EVERY, duration
from sparsecert.cli.registered import NameOption, name_option
from sparsecert.errors import InputError
from sparsecert.registry import MODELS, RECIPES

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.records import Records
    from sparsecert.reports.choices import Choice
    from sparsecert.schemes import SchemeSpec
    from sparsecert.training.recipe import Recipe

FULL_VOTES = 1_000, 10_000  # copies that `certify` takes of an input by default
CERTIFIED = 1_000  # inputs that the cost of certifying is given for, where there is no test set yet
HALF = Fraction(1, 2)
TRAINING = "keeps", "scheme_names", "recipe_name", "steps"


@click.command(short_help="Find the masks and the bound that certify most at a radius.")
@click.argument("models", nargs=-1, type=click.Path())
@options.together(
    options.data,
    click.option("--radius", required=True, type=click.IntRange(min=1), metavar="R",
                 help="Perturbed pixels that certificates should tolerate."),
    click.option("--keep", "keeps", multiple=True, type=click.IntRange(min=1), metavar="K",
                 help="Try random masks that retain K pixels; repeatable (default: four K that suit the radius)."),
    click.option("--masks", "scheme_names", multiple=True, metavar="NAME",
                 help="Try fixed masks, such as lattice-28x1; repeatable (default: two lattices)."),
    click.option("--training-steps", "steps", default=1_000, show_default=True, type=click.IntRange(min=1),
                 help="Training steps of each, in whole epochs; the recipe's own if those are fewer."),
    click.option("--limit", default=200, show_default=True, type=click.IntRange(min=2), metavar="N",
                 help="Held-out training images to certify."),
    click.option("--n", default=1_000, show_default=True, type=click.IntRange(min=10),
                 help="Random masks: copies per image for estimation, after a tenth as many for selection."),
    options.alpha,
    name_option("--recipe", "recipe_name", registry=RECIPES, help="Training recipe (default: the data set's)."),
    click.option("--model", "network", cls=NameOption, type=options.ModelName(MODELS),
                 help="Architecture (default: the recipe's)."),
    click.option("--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
                 help="Folder of models, records and the plot (default: runs/choose-DATA-R)."),
    options.data_files,
    options.seed,
    options.device,
)  # fmt: skip
def choose(
    models: tuple[str, ...],
    data_name: str,
    radius: int,
    keeps: tuple[int, ...],
    scheme_names: tuple[str, ...],
    steps: int,
    limit: int,
    n: int,
    alpha: float | None,
    recipe_name: str | None,
    network: str | None,
    out: Path | None,
    data_dir: str | None,
    skip_bad: bool,
    resize: int | None,
    seed: int,
    device: str,
) -> None:
    """Find the masks and the bound that certify most images at a radius, and what they will cost.

    Trains briefly with several masks, certifies training images that were held out, and compares certified accuracy at
    the radius. No test image is looked at. Then prints the commands that train and certify with the best masks, and how
    long they take at the measured rates. Brief training is by AdamW over one cycle, or by the --recipe you name. Longer
    training certifies more; --training-steps brings the comparison closer to it.

    With MODELS, files or run folders, nothing is trained and these are compared. They must not have been trained on the
    held-out images: every fifth training image, or of a known data set the last 5,000 (or fifth).

    Rerun the same command to resume.

    \b
    Examples:
      sparsecert choose --data digits --radius 4
      sparsecert choose --data mnist --radius 8 --keep 30 --keep 45 --keep 60
      sparsecert choose --data mine.npz --radius 4 --masks lattice-20x1
      sparsecert choose --data photos --radius 4 --model my_nets:small
      sparsecert choose runs/a runs/b --data mine.npz --radius 4
    """
    if models:
        options.refuse_given(TRAINING, "is for training; leave it out, or leave out the models")
    from sparsecert.reports import write_curves
    from sparsecert.reports.choices import best_choice, choices_table, choose_bound
    from sparsecert.reports.tables import table_text
    from sparsecert.training import held_out

    source = DataSource(data_name, "train", data_dir, skip_bad, resize)
    data = source.load_images()
    fit, held = held_out.split(data)
    out = out or Path("runs") / f"choose-{_short(data_name)}-{radius}"
    candidates: Sequence[Candidate]
    if models:
        candidates = [given_model(model, out, data) for model in models]
    else:
        specs = _specs(data, radius, keeps, scheme_names)
        candidates = masks_to_try(specs, fit, recipe_name, network, steps, out)
    names = ", ".join(candidate.name for candidate in candidates)
    click.echo(f"comparing {names} on {min(limit, len(held)):,} of {len(held):,} held-out images", err=True)
    choices: list[Choice] = []
    began = time.monotonic()
    for place, candidate in enumerate(candidates, start=1):
        label = f"{candidate.name} ({place} of {len(candidates)})"
        with saying_kept(lambda: f"{len(choices)} of {len(candidates)} are done in {out}" if choices else ""):
            candidate.train(label, seed, device, alike=len(candidates) - place + 1)
            found = _certify(candidate, label, held, network, limit, n, alpha, seed, device)
        choices.append(choose_bound(candidate.name, found, radius))
        _say_left(time.monotonic() - began, place, len(candidates))
    click.echo(table_text(choices_table(choices, radius), "terminal"))
    for file in write_curves([choice.summary for choice in choices], out / "choose.png"):
        click.echo(f"wrote {file}", err=True)
    best = best_choice(choices)
    click.echo(f"best at radius {radius}: {best.name} by {best.summary.bound}, {best.share:.1%} certified")
    if not best.share:
        click.echo("nothing is certified at this radius: try a smaller one, or more --training-steps", err=True)
    candidate = candidates[choices.index(best)]
    for line in _next(candidate, best, source, len(data), recipe_name, network):
        click.echo(line)


@dataclass(frozen=True)
class Candidate:
    """A model to compare. records: the file of its certificates."""

    name: str
    model: Path
    records: Path

    def train(self, label: str, seed: int, device: str, alike: int) -> None:
        """Nothing is left to do for a model that is given."""


@dataclass(frozen=True)
class Masks(Candidate):
    """Masks to try: a model is trained on these images by the short recipe; `epochs` are those of the whole one."""

    spec: SchemeSpec
    images: Dataset
    recipe: Recipe
    epochs: int

    def train(self, label: str, seed: int, device: str, alike: int) -> None:
        from sparsecert import training
        from sparsecert.cli.progress import training_bar
        from sparsecert.devices import device_named
        from sparsecert.encodings import ENCODINGS

        channels, height, width = self.images.shape
        scheme = self.spec.of(height, width, channels)
        encoding = ENCODINGS[scheme.encoding].for_training(self.images, self.recipe, scheme)
        with training_bar(f"training {label}", self.model, alike=alike) as on_progress:
            training.train(
                self.images, self.recipe, self.model, scheme=scheme, encoding=encoding, seed=seed,
                device=device_named(device), on_progress=on_progress,
            )  # fmt: skip

    def whole_seconds(self, images: int) -> float:
        """What the whole recipe takes on so many images, at the rate of the short one."""
        from sparsecert.training.run import LOG_NAME

        log = [json.loads(line) for line in (self.model / LOG_NAME).read_text().splitlines()]
        per_epoch: float = sum(line["seconds"] for line in log) / len(log)
        return per_epoch * self.epochs * images / len(self.images)


def given_model(model: str, out: Path, data: Dataset) -> Candidate:
    """A model of the user's; refused if it was trained on all of these images."""
    from sparsecert import modelfile

    settings = modelfile.read_header(model).get("facts", {}).get("training", {}).get("settings", {})
    if settings.get("data", {}).get("fingerprint") == data.fingerprint():
        raise InputError(
            f"{model} was trained on all training images of {data.name}, so none is held out; leave out the models, "
            "and choose trains on a part, or name other images by --data"
        )
    file = modelfile.find_model(model)
    name = file.parent.name if file.name == modelfile.MODEL_NAME else file.stem
    return Candidate(name, Path(model), out / f"{name}-{modelfile.fingerprint(model)[:8]}.jsonl")


def masks_to_try(
    specs: Sequence[SchemeSpec], fit: Dataset, recipe_name: str | None, network: str | None, steps: int, out: Path
) -> list[Masks]:
    """Candidates, each with a folder of its own."""
    from dataclasses import replace

    from sparsecert.training.candidates import brief, quick
    from sparsecert.training.recipes import recipe_for

    recipe = recipe_for(fit, recipe_name)
    recipe = recipe if network is None else replace(recipe, model=network)
    images, short = brief(fit, quick(recipe) if recipe_name is None else recipe, steps)
    found = []
    for spec in specs:
        name = f"k{spec.settings['keep']}" if spec.kind == "uniform" else str(spec)
        own, folder = short.for_scheme(spec), out / name
        found.append(Masks(name, folder, folder / "held-out.jsonl", spec, images, own, recipe.epochs))
    return found


def _specs(data: Dataset, radius: int, keeps: Sequence[int], names: Sequence[str]) -> list[SchemeSpec]:
    """The masks to try; refuses what does not fit the images, before anything is trained."""
    from sparsecert.schemes import SchemeSpec
    from sparsecert.training.candidates import candidates

    if not keeps and not names:
        return candidates(data.shape, radius)
    channels, height, width = data.shape
    specs = [*(SchemeSpec("uniform", keep=keep) for keep in keeps), *map(SchemeSpec.parse, names)]
    for spec in specs:
        if (delta := spec.of(height, width, channels).delta(radius)) >= HALF:
            raise InputError(
                f"{spec} cannot certify radius {radius}: {float(delta):.0%} of its masks may meet so many perturbed "
                "pixels, and that must be below one half; retain fewer"
            )
    return specs


def _certify(
    candidate: Candidate,
    label: str,
    held: Dataset,
    network: str | None,
    limit: int,
    n: int,
    alpha: float | None,
    seed: int,
    device: str,
) -> Records:
    """Certifies held-out images; every bound and rule is computed from these records."""
    from sparsecert.cli.voting import record
    from sparsecert.procedures import Exact, Fixed
    from sparsecert.procedures.exact import PIXELS
    from sparsecert.schemes import FixedMasks
    from sparsecert.smoothed import Smoothed

    smoothed = Smoothed.load(candidate.model, network, device)
    exact = isinstance(smoothed.scheme, FixedMasks)
    procedure = Exact(against=PIXELS) if exact else Fixed(-(-n // 10), n, "pairwise")
    return record(
        "certify", f"certifying {label}", smoothed, candidate.model, held, candidate.records, procedure,
        alpha=None if exact else alpha, seed=seed, limit=limit,
    )  # fmt: skip


def _say_left(taken: float, done: int, of: int) -> None:
    left = taken / done * (of - done)
    if left >= EVERY:
        click.echo(f"{done} of {of} done, about {duration(left)} left", err=True)


def _next(
    candidate: Candidate, best: Choice, source: DataSource, images: int, recipe: str | None, network: str | None
) -> Iterator[str]:
    """The commands that follow, with their time at the rates measured."""
    summary, own = best.summary, network is not None and ":" in network
    votes = summary.mean_samples if summary.exact else sum(FULL_VOTES)
    tested = _test_images(source)
    seconds = summary.mean_seconds / summary.mean_samples * votes * (tested or CERTIFIED)
    certified = f"all {tested:,} test images" if tested else f"{CERTIFIED:,} images"
    folder, way = str(candidate.model), ["--rule" if summary.exact else "--bound", str(summary.bound)]
    if isinstance(candidate, Masks):
        folder = f"runs/{_short(source.name)}-{candidate.name}"
        named = {"--recipe": recipe, "--model": network}
        chosen = [word for flag, value in named.items() if value is not None for word in (flag, value)]
        words = shlex.join([*candidate.spec.words(), *chosen, *way, "--out", folder])
        yield f"train, about {duration(candidate.whole_seconds(images))} for {candidate.epochs} epochs:"
        yield f"  sparsecert train {source.words()} {words}"
        way = []  # the model file says it
    more = shlex.join([*(["--model", str(network)] if own else []), *way])
    yield f"certify, about {duration(seconds)} for {certified} on this {summary.device}:"
    yield f"  sparsecert certify {shlex.quote(folder)} {source.words('test')} {more}".rstrip()


def _test_images(source: DataSource) -> int | None:
    """The size of the test set; None if there is none."""
    from sparsecert import datasets

    try:
        if datasets.has_test_images(source.name):
            return len(datasets.load(source.name, "test", source.data_dir, size=source.resize))
    except InputError:  # not downloaded, say
        pass
    return None


def _short(data_name: str) -> str:
    """The data's name in that of a folder."""
    return Path(data_name).stem.replace(":", "-")
