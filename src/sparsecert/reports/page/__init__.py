"""A self-contained HTML page about runs: numbers, curves and images, for screens, phones, dark mode and print."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sparsecert
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.records import AttackRecords
from sparsecert.reports.attack_tables import attack_settings
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import run_names, run_settings, settings_line, shared_items
from sparsecert.reports.gap import Gap
from sparsecert.reports.page import breakdown, sections
from sparsecert.reports.page.examples import Gallery, make_gallery
from sparsecert.reports.page.images import class_names, load_data
from sparsecert.reports.page.input_results import InputResult, ReportedRun, input_results
from sparsecert.reports.summary import Summary

__all__ = ["ReportedRun", "render_page", "write_page"]

SUFFIXES = ".html", ".htm"
EXAMPLES, FEWER_EXAMPLES = 4, 2  # of each kind, for a single run and for each of several
MAX_PICTURED = 8  # runs


def write_page(path: str | Path, text: str) -> Path:
    """Writes what `render_page` returned to a file, atomically; returns its path.

    The name must end in .html, so that records named by mistake are not overwritten.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} must end in .html; nothing was overwritten; name another file for the page")
    write_atomically(Path(path), text.encode("utf-8", "replace"))
    return Path(path)


def render_page(
    runs: Sequence[ReportedRun],
    attacks: Sequence[tuple[AttackRecords, AttackSummary]] = (),
    gaps: Sequence[Gap] = (),
    *,
    rhos: Sequence[int] = (),
    data_dir: str | Path | None = None,
    data_name: str | None = None,
) -> str:
    """The page as HTML: it loads nothing from elsewhere, and the same records give the same text.

    It shows images of inputs if their data set is in `data_dir` (as for `datasets.load`) and has the run's fingerprint;
    otherwise it says why not. `data_name` replaces the name in the records, of data that were moved or that a function
    returns. Sections without results are left out.
    """
    if not runs and not attacks:
        raise InputError("a page needs at least one run, got none; name a records file")
    summaries, under_attack = [run.summary for run in runs], [summary for _, summary in attacks]
    found = [list(input_results(run)) for run in runs]
    data = _data(runs, data_dir, data_name)
    names = [
        class_names(run.records.header, None if isinstance(one, InputError) else one)
        for run, one in zip(runs, data, strict=True)
    ]
    headers = [(records.header, summary) for records, summary in attacks]
    common = shared_items([_settings(summary) for summary in summaries or under_attack])
    return _render(
        title=f"sparsecert: {common.get('data', 'several data sets')}",
        about=settings_line(common),
        headline=sections.headline(summaries, under_attack),
        certified=sections.certified_curves(summaries),
        attacked=sections.attack_curves(under_attack, gaps, rhos),
        histograms=breakdown.histograms(runs, found),
        by_class=breakdown.class_tables(runs, found, names),
        galleries=_galleries(runs, found, data, names),
        runs=len(runs),
        provenance=sections.provenance(runs, headers),
    )


def _settings(summary: Summary | AttackSummary) -> dict[str, str]:
    """The settings that head the page, if all runs share them."""
    known = run_settings(summary) if isinstance(summary, Summary) else attack_settings(summary)
    return {**known, "model": f"model {summary.model_id}"}


def _data(
    runs: Sequence[ReportedRun], data_dir: str | Path | None, data_name: str | None
) -> list[Dataset | InputError]:
    """The data set of each run, loaded once for all that share it, or why it cannot be shown."""
    found: dict[tuple[object, ...], Dataset | InputError] = {}
    keys = []
    for run in runs:
        known = run.records.header.run["data"]
        keys.append(tuple(known.get(name) for name in ("name", "split", "fingerprint", "skipped")))
        if keys[-1] not in found:
            try:
                found[keys[-1]] = load_data(run.records.header, data_dir, data_name)
            except InputError as error:
                found[keys[-1]] = error
    return [found[key] for key in keys]


def _galleries(
    runs: Sequence[ReportedRun],
    found: Sequence[Sequence[InputResult]],
    data: Sequence[Dataset | InputError],
    names: Sequence[Sequence[str]],
) -> list[Gallery]:
    count = EXAMPLES if len(runs) == 1 else FEWER_EXAMPLES
    titles = run_names([run.summary for run in runs]) if runs else []
    each = list(zip(runs, found, data, names, titles, strict=True))[:MAX_PICTURED]
    return [make_gallery(title, run.records.header, one, every, known, count) for run, every, one, known, title in each]


def _render(**context: Any) -> str:
    """Renders the template; all text is escaped, and an undefined name is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__name__), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = environment.get_template("style.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    page = environment.get_template("page.html")
    return page.render(context, version=sparsecert.__version__, style_sha256=digest) + "\n"
