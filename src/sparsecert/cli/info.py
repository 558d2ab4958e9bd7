"""`sparsecert info`."""

from __future__ import annotations

import json
import math
import platform
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

import sparsecert
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.schemes import RandomValues

MOST_CHARACTERS = 400  # of a string in a header
DISCUSSED_UNITS, DISCUSSED_VALUES, DISCUSSED_KAPPA = 3 * 224 * 224, 256, "0.1"  # Levine & Feizi (2020), discussion


@click.command(short_help="Versions and devices; a model file; what a scheme can certify.")
@click.argument("model", required=False, type=click.Path())
@click.option("--units", type=int, help="With --keep or --kappa: the radii a scheme can certify.")
@click.option("--keep", type=int, help="With --units: units retained by ablation.")
@click.option("--kappa", metavar="P", help="With --units: probability that random values keep a unit.")
@click.option("--values", type=int, help="With --kappa or --mutual-information: values per unit (default: 256).")
@click.option(
    "--mutual-information",
    "bits",
    is_flag=True,
    help="Bits of an input that a copy holds under either scheme (default: the paper's discussion).",
)
@click.option("--plan", metavar="NAME", help="Cost of a whole table: imagenet. Needs both rates.")
@click.option("--training-rate", type=float, help="With --plan: ablated images/s per GPU in training.")
@click.option("--certifying-rate", type=float, help="With --plan: ablated copies/s per GPU in certification.")
def info(
    model: str | None,
    units: int | None,
    keep: int | None,
    kappa: str | None,
    values: int | None,
    bits: bool,
    plan: str | None,
    training_rate: float | None,
    certifying_rate: float | None,
) -> None:
    """Versions and devices; the header of a MODEL file; what a scheme can certify; the cost of a table.

    The rates of a plan are measured by `python -m benchmarks.training` and `python -m benchmarks.engine`.

    \b
    Examples:
      sparsecert info
      sparsecert info runs/mnist-k45
      sparsecert info --units 784 --keep 45
      sparsecert info --units 784 --kappa 0.1
      sparsecert info --mutual-information
      sparsecert info --mutual-information --units 784 --kappa 0.1 --keep 75
      sparsecert info --plan imagenet --training-rate 6000 --certifying-rate 40000
    """
    if model is not None and (plan is not None or units is not None):
        raise InputError(f"a model has its own scheme; leave out {model}, or --units and --plan")
    if (plan is None) != (training_rate is None) or (plan is None) != (certifying_rate is None):
        raise InputError("--plan, --training-rate and --certifying-rate go together: give all three or none")
    if plan is not None and training_rate is not None and certifying_rate is not None:
        _plan(plan, training_rate, certifying_rate)
        return
    if bits:
        if model is not None:
            raise InputError("--mutual-information compares two schemes, not models; leave out the model")
        _mutual_information(units or DISCUSSED_UNITS, kappa or DISCUSSED_KAPPA, values or DISCUSSED_VALUES, keep)
        return
    if (units is None) != (keep is None and kappa is None):
        raise InputError("--units and --keep go together, or --units and --kappa: give both or neither")
    if keep is not None and kappa is not None:
        raise InputError("--keep is for ablation, --kappa for random values: give one, or add --mutual-information")
    if kappa is None and values is not None:
        raise InputError("--values is for random values; add --kappa, or leave it out")
    if units is not None and kappa is not None:
        _random_values(units, kappa, values or DISCUSSED_VALUES)
    elif units is not None and keep is not None:
        _scheme(units, keep)
    elif model is not None:
        _model(model)
    else:
        _machine()


def _random_values(units: int, kappa: str, values: int) -> None:
    """The share of votes that each radius needs, up to a share of 1 - 2**-40."""
    from sparsecert.certificates.random_values import thresholds

    scheme = sparsecert.RandomValues(units, kappa, values)
    click.echo(
        f"{_words(scheme)}: votes needed for each radius rho; delta of Theorem 1, for sequential sampling; rounded up"
    )
    click.echo(f"{'rho':>6}  {'delta':>10}  {'p_lower >':>10}")
    for rho, needed in enumerate(thresholds(scheme)):
        click.echo("{:6}  {:10.6f}  {:10.6f}".format(rho, *map(_rounded_up, (scheme.delta(rho), needed))))


def _words(scheme: RandomValues) -> str:
    return f"random values: {scheme.units:,} units of {scheme.values} values, kappa = {float(scheme.kappa):g}"


def _rounded_up(value: Fraction) -> float:
    return math.ceil(value * 10**6) / 10**6


def _mutual_information(units: int, kappa: str, values: int, keep: int | None) -> None:
    """Bits in a copy under both schemes, at the same p for radius 1 or at the given k.

    Levine & Feizi (2020), discussion: of an input with uniformly distributed values, k retained units hold
    k * log2(values) bits; random values d * (log2(values) + kappa log2(kappa) + (1 - kappa) log2(beta)).
    """
    from sparsecert.certificates.random_values import needed

    scheme = sparsecert.RandomValues(units, kappa, values)
    p = needed(scheme, 1)
    most = math.floor((p - Fraction(1, 2)) * units)  # the largest k with 1/2 + delta(1) <= p, as delta(1) = k / d
    if keep is None and not most:
        raise InputError(
            f"ablation has no k with p = {float(p):.3f} for radius 1 of {units} units; give one with --keep"
        )
    ablation = sparsecert.Uniform(units, keep or most)
    ours, theirs = ablation.keep * math.log2(values), scheme.mutual_information()
    click.echo(f"radius 1 needs p > {float(p):.3f} under {_words(scheme)}")
    chosen = (
        "may then retain at most" if keep is None else f"needs p > {float(Fraction(1, 2) + ablation.delta(1)):.3f} at"
    )
    click.echo(f"ablation {chosen} k = {ablation.keep:,} of them ({ablation.keep / units:.1%})")
    click.echo(
        f"bits of the input in a copy: ablation {ours:,.{0 if ours.is_integer() else 1}f}, random values {theirs:,.1f}"
    )
    click.echo("(mutual information, for inputs with uniformly distributed values)")


def _scheme(units: int, keep: int) -> None:
    """delta and the share of votes needed, for every radius that can be certified."""
    scheme = sparsecert.Uniform(units=units, keep=keep)
    click.echo(f"{scheme}: a mask meets rho perturbed units with probability delta(rho); rounded up")
    click.echo(f"{'rho':>6}  {'delta':>10}  {'p_lower >':>10}  {'p_lower - p_upper >':>20}")
    for rho in range(len(scheme.deltas)):
        delta = scheme.delta(rho)
        if 2 * delta >= 1:
            break
        shown = map(_rounded_up, (delta, Fraction(1, 2) + delta, 2 * delta))
        click.echo("{:6}  {:10.6f}  {:10.6f}  {:20.6f}".format(rho, *shown))


def _plan(name: str, training: float, certifying: float) -> None:
    from sparsecert.training.plans import Rates, find_plan, format_plan

    click.echo(format_plan(find_plan(name), Rates(training, certifying)))


def _model(path: str) -> None:
    from sparsecert import modelfile

    header = modelfile.read_header(path)
    file = {"file": str(modelfile.find_model(path)), "sha256": modelfile.fingerprint(path)}
    click.echo(json.dumps(_shortened({**file, **header, **_masks(header.get("scheme"))}), indent=2))


def _shortened(value: Any) -> Any:
    """The same with the beginning of long strings, such as a vocabulary."""
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"{value[:MOST_CHARACTERS]}... ({len(value):,} characters)"
    return value


def _masks(config: Any) -> dict[str, Any]:
    """The number of fixed masks, and the fewest and the most pixels one retains."""
    from sparsecert.schemes import FixedMasks, from_config

    if config is None or not isinstance(scheme := from_config(config), FixedMasks):
        return {}
    if scheme.is_open:
        return {"masks": {"most": scheme.count}}
    sizes = scheme.table.sum(axis=1)
    return {"masks": {"count": len(sizes), "fewest_retained": int(sizes.min()), "most_retained": int(sizes.max())}}


def _machine() -> None:
    import numpy
    import scipy
    import torch

    from sparsecert.devices import native_precision
    from sparsecert.modelfile import shipped_models

    click.echo(f"sparsecert {sparsecert.__version__}, Python {platform.python_version()}, torch {torch.__version__}")
    click.echo(f"numpy {numpy.__version__}, scipy {scipy.__version__}")
    click.echo(f"cpu, {torch.get_num_threads()} threads, precision auto is {native_precision(torch.device('cpu'))}")
    for number in range(torch.cuda.device_count()):
        precision = native_precision(torch.device("cuda", number))
        click.echo(f"cuda:{number} {torch.cuda.get_device_name(number)}, precision auto is {precision}")
    click.echo(f"shipped models: {', '.join(shipped_models())}")
    click.echo("mps available" if torch.backends.mps.is_available() else "mps not available")
