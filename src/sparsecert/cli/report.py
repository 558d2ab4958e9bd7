"""`sparsecert report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sparsecert.cli import options
from sparsecert.cli.registered import name_option
from sparsecert.errors import InputError
from sparsecert.registry import CERTIFICATES, RULES

if TYPE_CHECKING:
    from sparsecert.records import Records
    from sparsecert.reports import AttackSummary, Gap, Summary
    from sparsecert.reports.other_claims import Claim

LEADERBOARDS = ["sok", "robustbench"]
STYLE_NAMES = ["screen", "paper"]
FORMAT_NAMES = ["terminal", "markdown", "latex", "csv", "json", *LEADERBOARDS]
PAPER = {
    "title": "of the paper",
    "authors": "of the paper",
    "venue": "such as NeurIPS 2026",
    "link": "to the paper",
    "architecture": "of the network",
}


@click.command()
@click.argument("files", nargs=-1, type=click.Path())
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=FILE",
    help="Call this file's run NAME in tables and plots; repeatable (default: what differs between the runs).",
)  # fmt: skip
@click.option(
    "--format", "form", default="terminal", show_default=True, type=click.Choice(FORMAT_NAMES),
    help="sok, robustbench: as these leaderboards take it.",
)  # fmt: skip
@click.option("--alpha", type=float, help="Recertify the recorded votes at this alpha.")
@name_option("--bound", registry=CERTIFICATES, help="Recertify the recorded votes by this bound.")
@name_option(
    "--rule", "rules", registry=RULES, multiple=True,
    help="Fixed masks: recertify the recorded rankings by this rule; repeatable, one row each.",
)  # fmt: skip
@click.option("--against", type=click.Choice(options.AGAINST), help="Fixed masks: recertify against these attacks.")
@click.option("--top", type=click.IntRange(min=1), metavar="K", help="Instead: does the true class stay in the top K?")
@click.option(
    "--averts", type=click.IntRange(min=0), metavar="CLASS", help="Instead: can this class never become the answer?"
)
@click.option(
    "--flags", type=click.IntRange(min=0), metavar="CLASS", help="Instead: does this class stay above --threshold?"
)
@click.option("--threshold", type=float, help="With --flags: threshold on its probability (default: 0.5).")
@click.option(
    "--predictions",
    type=click.Path(),
    metavar="FILE",
    help="Records of `predict` for classification accuracy, instead of the estimation votes.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Plot certified accuracy, and accuracy under attack: .png, .svg or .pdf; no suffix: PNG and SVG.",
)
@click.option(
    "--style", default="screen", show_default=True, type=click.Choice(STYLE_NAMES),
    help="Of the plot. paper: 3.3 inches wide, without title, settings and medians.",
)  # fmt: skip
@click.option(
    "--html", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write a self-contained page: numbers, curves, radii, classes, and inputs with their ablated copies.",
)  # fmt: skip
@options.optional_data
@options.data_dir
@click.option(
    "--rho", "rhos", type=click.IntRange(min=0), multiple=True, metavar="PIXELS",
    help="Attacks and leaderboards: show results at this many perturbed pixels; repeatable.",
)  # fmt: skip
@options.together(
    *(
        click.option(f"--{name}", metavar="TEXT", help=f"For leaderboards: {name}, {what}.")
        for name, what in PAPER.items()
    )
)
@click.pass_context
def report(
    context: click.Context,
    /,
    files: tuple[str, ...],
    labels: tuple[str, ...],
    form: str,
    alpha: float | None,
    bound: str | None,
    rules: tuple[str, ...],
    against: str | None,
    top: int | None,
    averts: int | None,
    flags: int | None,
    threshold: float | None,
    predictions: str | None,
    plot: str | None,
    style: str,
    html: str | None,
    data_name: str | None,
    data_dir: str | None,
    rhos: tuple[int, ...],
    **paper: str | None,
) -> None:
    """Tables and curves from records; needs no model.

    Each of FILES is a row of the table and a curve of the plot. Records of certify and attack on the same model and
    data are compared: the exit code is 1 if an attack turns a certified answer into another class within its radius.

    A file named by --label need not be among FILES. Plots shade 95% confidence intervals (exact binomial) of runs that
    certified fewer inputs than the data set has.

    \b
    Examples:
      sparsecert report runs/mnist-k45/certify.jsonl --format json
      sparsecert report runs/*/certify.jsonl --bound one-sided --plot curves.png
      sparsecert report --label ours=a.jsonl b.jsonl --plot c.pdf --style paper
      sparsecert report certify.jsonl attack-pointwise.jsonl --plot gap.png
      sparsecert report certify.jsonl --rule pairwise --rule run-off --format csv
      sparsecert report runs/mnist-k45/certify.jsonl --html report.html
      sparsecert report certify.jsonl --top 3 --averts 8 --flags 1 --threshold 0.2
      sparsecert report certify.jsonl --format sok --rho 8 --title "My paper"
    """
    named = dict(map(_name_and_file, labels))
    files = tuple(str(Path(file)) for file in files)
    files += tuple(file for file in named if file not in files)
    if not files:
        raise click.UsageError("Missing argument 'FILES...'.")
    claims = _claims(top, averts, flags, threshold)
    if claims:
        options.refuse_given(NOT_WITH_CLAIMS, "does not go with --top, --averts and --flags; leave it out")
        _answer(files, claims, alpha, form)
        return
    if form not in LEADERBOARDS:
        options.refuse_given(PAPER, f"is for {' and '.join(LEADERBOARDS)}; add --format, or leave it out")
    if html is None:
        options.refuse_given(
            ["data_dir", "data_name"], "is where --html looks for the inputs it shows; add --html, or leave it out"
        )
    from sparsecert import records
    from sparsecert.reports import FORMATS, alarm, attack_report, compute_gaps, summarise, summarise_attack

    if plot is None and form != "latex":
        options.refuse_given(["style"], "is for --plot and --format latex; add one of them, or leave it out")
    kinds = {file: records.kind_of(file) for file in files}
    voted = [records.read(file) for file in files if kinds[file] != records.ATTACK]
    found = [records.read_attack(file) for file in files if kinds[file] == records.ATTACK]
    if rhos and not found and form not in LEADERBOARDS:
        raise InputError("--rho is for attack records; certified accuracy is shown at every radius")
    for option, given in (("--alpha", alpha), ("--bound", bound), ("--predictions", predictions)):
        if given is not None and not voted:
            raise InputError(f"{option} is for records of votes, and these are attack records; leave it out")
    exact = [votes for votes in voted if records.is_exact(votes.header)]
    _refuse_unused(alpha, bound, predictions, rules, against, len(exact), len(voted))
    predicted = records.read(predictions) if predictions else None
    runs: list[tuple[Records, Summary]] = []
    for votes in voted:
        if records.is_exact(votes.header):
            runs += [(votes, summarise(votes, rule=rule, against=against)) for rule in rules or (None,)]
        else:
            runs.append((votes, summarise(votes, alpha=alpha, bound=bound, predictions=predicted)))
    runs = [(votes, replace(one, label=named.get(str(votes.path)))) for votes, one in runs]
    summaries = [summary for _, summary in runs]
    attacks = [replace(summarise_attack(one), label=named.get(str(one.path))) for one in found]
    gaps = compute_gaps([(votes, one) for votes, one in runs if one.certifies], found)
    if form in LEADERBOARDS:
        text = _entry(form, summaries, attacks, rhos, paper)
    else:
        text = attack_report(summaries, attacks, gaps, form, rhos) if attacks else FORMATS[form](summaries)
    drawn = _plot(summaries, attacks, gaps, plot, style) if plot else []
    if html is not None:
        from sparsecert.reports.page import ReportedRun, render_page, write_page

        shown = [ReportedRun(votes, one, None if one.exact else predicted) for votes, one in runs]
        attacked = list(zip(found, attacks, strict=True))
        page = render_page(shown, attacked, gaps, rhos=rhos, data_dir=data_dir, data_name=data_name)
        drawn.append(write_page(html, page))
    click.echo(text)
    for path in drawn:
        click.echo(f"wrote {path}", err=True)
    alarms = list(filter(None, map(alarm, gaps)))
    for line in alarms:
        click.echo(line, err=True)
    context.exit(int(bool(alarms)))


def _name_and_file(text: str) -> tuple[str, str]:
    """Splits NAME=FILE, giving the file first; either may contain an equals sign, so the file is one that exists."""
    splits = [(text[place + 1 :], text[:place]) for place, letter in enumerate(text) if letter == "="]
    for file, name in splits:
        if name.strip() and Path(file).is_file():
            return str(Path(file)), name.strip()
    raise InputError(f"--label must be NAME=FILE, the file of a run, got {text}; no such file was found")


NOT_WITH_CLAIMS = (
    "labels",
    "style",
    "bound",
    "rules",
    "against",
    "predictions",
    "plot",
    "html",
    "data_name",
    "data_dir",
    "rhos",
    *PAPER,
)


def _entry(
    form: str,
    summaries: list[Summary],
    attacks: list[AttackSummary],
    rhos: tuple[int, ...],
    paper: dict[str, str | None],
) -> str:
    """The entry of a leaderboard; what it lacks is said on stderr."""
    from sparsecert.reports.leaderboards import Paper, robustbench, sok

    known = Paper(**{name: text for name, text in paper.items() if text is not None})
    text, lacks = sok(summaries, rhos, known) if form == "sok" else robustbench(summaries, attacks, rhos, known)
    for line in lacks:
        click.echo(line, err=True)
    return text


def _claims(top: int | None, averts: int | None, flags: int | None, threshold: float | None) -> list[Claim]:
    """The claims to answer instead of the usual report."""
    from sparsecert.reports.other_claims import above_threshold, in_top_k, never_target

    if threshold is not None and flags is None:
        raise InputError("--threshold is for --flags; give both, or leave it out")
    asked: list[Claim] = [] if top is None else [in_top_k(top)]
    asked += [] if averts is None else [never_target(averts)]
    return asked + ([] if flags is None else [above_threshold(flags, 0.5 if threshold is None else threshold)])


def _answer(files: tuple[str, ...], claims: list[Claim], alpha: float | None, form: str) -> None:
    from sparsecert import records
    from sparsecert.reports.other_claims import claims_table
    from sparsecert.reports.tables import table_text

    if form in LEADERBOARDS:
        raise InputError(f"--format {form} is for certified accuracy, not for --top, --averts and --flags")
    if any(records.kind_of(file) == records.ATTACK for file in files):
        raise InputError("--top, --averts and --flags are for records of certify, and these are attack records")
    every = form in ("csv", "json")
    click.echo(table_text(claims_table([records.read(file) for file in files], claims, alpha, every=every), form))


def _refuse_unused(
    alpha: float | None,
    bound: str | None,
    predictions: str | None,
    rules: tuple[str, ...],
    against: str | None,
    exact: int,
    voted: int,
) -> None:
    """Refuses an option that applies to none of the files."""
    sampled = {"--alpha": alpha, "--bound": bound, "--predictions": predictions}
    for option, given in sampled.items():
        if given is not None and exact and exact == voted:
            raise InputError(
                f"{option} is for votes of masks drawn at random, and these are of fixed masks; leave it out"
            )
    for option, asked in {"--rule": rules or None, "--against": against}.items():
        if asked is not None and not exact:
            raise InputError(f"{option} is for votes of a fixed set of masks, and these are not; leave it out")


def _plot(summaries: list[Summary], attacks: list[AttackSummary], gaps: list[Gap], plot: str, style: str) -> list[Path]:
    """Plots certificates against attacks if there are both, else whichever there is."""
    from sparsecert.reports import write_attack_curves, write_curves, write_gaps
    from sparsecert.reports.drawing import STYLES

    drawn = STYLES[style]
    if gaps:
        return write_gaps(gaps, attacks, plot, drawn)
    return write_attack_curves(attacks, plot, drawn) if attacks else write_curves(summaries, plot, drawn)
