"""`sparsecert info`."""

from __future__ import annotations

import json
import math
import platform
from fractions import Fraction
from typing import Any

import click

import sparsecert
from sparsecert.errors import InputError


@click.command()
@click.argument("model", required=False, type=click.Path())
@click.option("--units", type=int, help="With --keep: how far a scheme can certify.")
@click.option("--keep", type=int, help="With --units: how far a scheme can certify.")
@click.option("--plan", metavar="NAME", help="What a whole table would take: imagenet. Needs both rates.")
@click.option("--training-rate", type=float, help="With --plan: ablated images/s that one GPU trains on.")
@click.option("--certifying-rate", type=float, help="With --plan: ablated copies/s that one GPU classifies.")
def info(
    model: str | None,
    units: int | None,
    keep: int | None,
    plan: str | None,
    training_rate: float | None,
    certifying_rate: float | None,
) -> None:
    """Versions and devices; what a MODEL file says of itself; what a scheme can certify; what a table would take.

    The rates of a plan are printed by `python -m benchmarks.training` and `python -m benchmarks.engine`.

    \b
    Examples:
      sparsecert info
      sparsecert info runs/mnist-k45
      sparsecert info --units 784 --keep 45
      sparsecert info --plan imagenet --training-rate 6000 --certifying-rate 40000
    """
    if (plan is None) != (training_rate is None) or (plan is None) != (certifying_rate is None):
        raise InputError("--plan, --training-rate and --certifying-rate go together: give all three or none")
    if plan is not None and training_rate is not None and certifying_rate is not None:
        _plan(plan, training_rate, certifying_rate)
        return
    if (units is None) != (keep is None):
        raise InputError("--units and --keep go together: give both or neither")
    if units is not None and keep is not None:
        _scheme(units, keep)
    elif model is not None:
        _model(model)
    else:
        _machine()


def _scheme(units: int, keep: int) -> None:
    """delta, and the share of votes that each radius needs, for every radius that can be certified."""
    scheme = sparsecert.Uniform(units=units, keep=keep)
    click.echo(f"{scheme}: a mask meets rho altered units with probability delta(rho); rounded up")
    click.echo(f"{'rho':>6}  {'delta':>10}  {'p_lower >':>10}  {'p_lower - p_upper >':>20}")
    for rho in range(len(scheme.deltas)):
        delta = scheme.delta(rho)
        if 2 * delta >= 1:
            break
        shown = (math.ceil(value * 10**6) / 10**6 for value in (delta, Fraction(1, 2) + delta, 2 * delta))
        click.echo("{:6}  {:10.6f}  {:10.6f}  {:20.6f}".format(rho, *shown))


def _plan(name: str, training: float, certifying: float) -> None:
    from sparsecert.plans import Rates, plan_text, planned

    click.echo(plan_text(planned(name), Rates(training, certifying)))


def _model(path: str) -> None:
    from sparsecert import modelfile

    header = modelfile.read_header(path)
    file = {"file": str(modelfile.located(path)), "sha256": modelfile.fingerprint(path)}
    click.echo(json.dumps({**file, **header, **_masks(header.get("scheme"))}, indent=2))


def _masks(config: Any) -> dict[str, Any]:
    """Of a fixed set of masks how many there are, and the least and the most pixels that one retains."""
    from sparsecert.schemes import FixedMasks, from_config

    if config is None or not isinstance(scheme := from_config(config), FixedMasks):
        return {}
    sizes = scheme.table.sum(axis=1)
    return {"masks": {"count": len(sizes), "fewest_retained": int(sizes.min()), "most_retained": int(sizes.max())}}


def _machine() -> None:
    import numpy
    import scipy
    import torch

    from sparsecert.modelfile import shipped

    click.echo(f"sparsecert {sparsecert.__version__}, Python {platform.python_version()}, torch {torch.__version__}")
    click.echo(f"numpy {numpy.__version__}, scipy {scipy.__version__}, {torch.get_num_threads()} CPU threads")
    for number in range(torch.cuda.device_count()):
        click.echo(f"cuda:{number} {torch.cuda.get_device_name(number)}")
    click.echo(f"models that ship with the package: {', '.join(shipped())}")
    click.echo("mps available" if torch.backends.mps.is_available() else "mps not available")
