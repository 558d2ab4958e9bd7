"""`sparsecert attack`."""

from __future__ import annotations

from typing import Any

import click

from sparsecert.cli import options
from sparsecert.cli.data_source import DataSource
from sparsecert.cli.registered import RegisteredCommand, name_option
from sparsecert.registry import ATTACKS


@click.command(cls=RegisteredCommand, short_help="Search for the fewest perturbed pixels that fool a model.")
@click.argument("model", type=click.Path())
@options.together(
    options.data,
    options.network,
    name_option(
        "--attack", "name", default="ensemble", show_default=True, registry=ATTACKS, with_options=True,
        help="The attack; `sparsecert attack --attack pointwise --help` shows its options.",
    ),
    click.option("--budget", type=int, metavar="PIXELS", help="Maximum perturbed pixels (default: any)."),
    click.option(
        "--goal", type=click.Choice(["any", "misclassify"]), default="any", show_default=True,
        help="What is a success: another class or an abstention, or another class only.",
    ),
    options.out_file,
    options.selection,
    click.option(
        "--samples", "--n", "samples", type=int, help="Ablated copies per query of a smoothed model (default: 10000)."
    ),
    click.option("--alpha", type=float, help="Level at which a smoothed model abstains (default: 0.05)."),
    click.option(
        "--error", type=float,
        help="Error rate of early stopping: how often some of the copies may decide a query of the search wrongly "
        "(default: 0.05); 0: use all copies. The result is always judged by all copies anew.",
    ),
    click.option("--full", is_flag=True, help="Fresh masks and all copies for every query; much slower."),
    options.bound,
    options.rule,
    options.seed,
    click.option(
        "--group", type=int, help="Images attacked and recorded together (default: depends on the memory)."
    ),
    options.data_files,
    options.computation,
)  # fmt: skip
def attack(
    model: str,
    data_name: str,
    network: str | None,
    name: str,
    attack_settings: dict[str, Any],
    budget: int | None,
    goal: str,
    out: str | None,
    split: str,
    limit: int | None,
    drawn: bool,
    samples: int | None,
    alpha: float | None,
    error: float | None,
    full: bool,
    bound: str | None,
    rule: str | None,
    seed: int,
    group: int | None,
    data_dir: str | None,
    skip_bad: bool,
    resize: int | None,
    device: str,
    precision: str | None,
    rows: int | None,
) -> None:
    """Attack a model by perturbing few pixels of each image, and record the results.

    MODEL is the model file or run folder of a smoothed classifier or a plain network, the name of a shipped model, such
    as mnist-k45, or nearest-neighbour. An attack succeeds if the model answers another class or
    abstains; with --goal misclassify, only another class counts, which is what certificates rule out. The records hold
    the perturbed pixels. Rerun the same command to resume.

    The default is an ensemble of gradient attacks, a random search and a clean-up; the best is kept.

    For a model of a table (`train table.csv`), --data is a table file: the attack perturbs columns, to values that
    they have in some row of it, or to missing ones.

    For a model of texts (`train --text`), --data is a file of texts: word-substitution, the default there, replaces
    words by others of the vocabulary.

    A smoothed classifier answers as certified by --bound: by pairwise, the class that beats every other one.

    With a fixed set of masks (`train --scheme lattice`, ...), the attack is on the vote of all masks, as certified:
    nothing is sampled, and the model never abstains.

    Pointwise, sparse-rs and noise are black-box, and the ensemble needs no gradients; the others do.

    \b
    Examples:
      sparsecert attack mnist-k45 --data mnist --limit 20
      sparsecert attack mnist-k45 --data mnist --limit 20 --goal misclassify
      sparsecert attack mnist-k45 --data mnist --attack pointwise --limit 275
      sparsecert attack runs/table-k5 --data table.csv
      sparsecert report runs/mnist-k45-mnist-*.jsonl
    """
    from sparsecert import records
    from sparsecert.attacks import attack_named
    from sparsecert.cli.progress import attack_bar
    from sparsecert.reports import attack_report, summarise_attack
    from sparsecert.runs import attack_dataset, target_of
    from sparsecert.runs.groups import indices_of

    facts = _facts(model)
    if "text" in facts and "name" not in options.given():
        name, attack_settings = "word-substitution", {}
    chosen = attack_named(name, **attack_settings)
    which = options.chosen(limit, drawn, seed)
    verb = f"attack-{name}" if goal == "any" else f"attack-{name}-{goal}"
    out = options.records_file(out, model, verb, data_name)
    data = DataSource(data_name, split, data_dir, skip_bad, resize, limit).load(facts)
    target = target_of(
        model, data, device, data_dir,
        network=network, precision=precision, rows=rows,
        n=samples, alpha=alpha, error=error, full=full, bound=bound, rule=rule,
    ).with_recorded_precision(out)  # fmt: skip
    units, inputs = data.units.name, len(indices_of(data, which))
    with attack_bar(f"attacking on {target.device}", inputs, units, _nouns(units), out) as callbacks:
        attack_dataset(
            target, chosen, data, out, budget=budget, goal=goal, seed=seed, limit=which, group=group, **callbacks
        )
    click.echo(attack_report([], [summarise_attack(records.read_attack(out))], [], "terminal"))
    click.echo(f"wrote {out}")


def _nouns(units: str) -> str:
    """What inputs with such units are called."""
    return {"features": "rows", "words": "texts"}.get(units, "images")


def _facts(model: str) -> dict[str, Any]:
    """What the file of a model says of the data it was trained on."""
    from sparsecert import modelfile
    from sparsecert.plain.defenders import NEAREST_NEIGHBOUR
    from sparsecert.smoothed import Smoothed

    header = {} if model == NEAREST_NEIGHBOUR else modelfile.read_header(model)
    facts = Smoothed.load(model).metadata if header.get("kind") == modelfile.TABLE else header.get("facts")
    return facts or {}
