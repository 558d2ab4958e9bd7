"""`sparsecert demo`."""

from __future__ import annotations

from pathlib import Path

import click

from sparsecert.cli import options
from sparsecert.cli.report import FORMAT_NAMES


@click.command(short_help="The shipped models on the shipped MNIST digits.")
@options.together(
    click.option("--out", default="runs/demo", show_default=True, metavar="DIR", help="Folder of records and figures.",
                 type=click.Path(file_okay=False, path_type=Path)),
    click.option("--limit", type=int, metavar="N", help="Only N digits, evenly spaced (default: all 100)."),
    click.option("--n0", type=int, help="Fixed number of copies for class selection."),
    click.option("--n", type=int, help="Fixed number of copies for estimation."),
    click.option("--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES)),
    options.seed,
    options.device,
    options.precision,
)  # fmt: skip
def demo(
    out: Path,
    limit: int | None,
    n0: int | None,
    n: int | None,
    form: str,
    seed: int,
    device: str,
    precision: str | None,
) -> None:
    """Certify the shipped MNIST digits with the shipped models, beside the published figures.

    Needs no data and no training. First 28 fixed masks, exactly, in seconds; then the paper's k = 45 with sequential
    sampling, in about a minute. With --n0 or --n, k = 45 uses a fixed number of samples (default: the paper's 1,000 +
    10,000). Writes records, curves and a figure of the digits. Rerun the same command to resume.

    \b
    Examples:
      sparsecert demo
      sparsecert demo --n0 1000 --n 10000
      sparsecert demo --limit 20 --out runs/small --format markdown
    """
    from sparsecert.cli.demo_tables import Demo
    from sparsecert.reports.tables import table_text

    settings = Demo(out, device, None if precision == "auto" else precision, seed, limit, n0, n)
    drawn: list[Path] = []
    for table, figures in settings.run():
        click.echo(table_text(table, form))
        drawn += figures
    for path in drawn:
        click.echo(f"wrote {path}", err=True)
