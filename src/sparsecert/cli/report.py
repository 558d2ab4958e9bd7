"""`sparsecert report`."""

from __future__ import annotations

import click

FORMAT_NAMES = ["terminal", "markdown", "latex", "csv", "json"]


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path())
@click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES))
@click.option("--alpha", type=float, help="Certify the stored votes again at this alpha.")
@click.option(
    "--bound", type=click.Choice(["two-sided", "one-sided"]), help="Certify the stored votes again by this bound."
)
@click.option(
    "--predictions",
    type=click.Path(),
    metavar="FILE",
    help="Records of `predict`: classification accuracy is taken from them, not from the estimation votes.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Draw the certified-accuracy curves: .png, .svg or .pdf; without an ending, both PNG and SVG.",
)
def report(
    files: tuple[str, ...], form: str, alpha: float | None, bound: str | None, predictions: str | None, plot: str | None
) -> None:
    """Tables and curves from records alone; no model is needed.

    Several FILES make a table with a row each and one plot with a curve each.

    \b
    Examples:
      sparsecert report runs/mnist-k45/certify.jsonl --format json
      sparsecert report runs/*/certify.jsonl --bound one-sided --format markdown --plot curves.png
    """
    from sparsecert import records
    from sparsecert.reports import FORMATS, summarise, write_curves

    predicted = records.read(predictions) if predictions else None
    summaries = [summarise(records.read(file), alpha=alpha, bound=bound, predictions=predicted) for file in files]
    drawn = write_curves(summaries, plot) if plot else []
    click.echo(FORMATS[form](summaries))
    for path in drawn:
        click.echo(f"wrote {path}", err=True)
