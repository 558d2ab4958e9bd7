"""One self-contained page about runs: numbers, curves and pictures, readable on a phone, in the dark and on paper."""

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
from sparsecert.reports.attack_tables import attack_facts
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import facts, labels, sentence, shared
from sparsecert.reports.gap import Gap
from sparsecert.reports.page import sections
from sparsecert.reports.page.examples import Gallery, gallery
from sparsecert.reports.page.images import class_names, data_of
from sparsecert.reports.page.outcomes import Outcome, Run, outcomes
from sparsecert.reports.summary import Summary

__all__ = ["Run", "page", "write_page"]

SUFFIXES = ".html", ".htm"
EXAMPLES, FEWER_EXAMPLES = 4, 2  # of each kind, for a lone run and for each of several
MOST_PICTURED = 8  # runs


def write_page(
    path: str | Path,
    runs: Sequence[Run],
    attacks: Sequence[tuple[AttackRecords, AttackSummary]] = (),
    gaps: Sequence[Gap] = (),
    *,
    rhos: Sequence[int] = (),
    data_dir: str | Path | None = None,
) -> Path:
    """Writes the page to a file, whole or not at all; returns where.

    The file has to end in .html: so records that are named by mistake are not written over.
    """
    if Path(path).suffix.lower() not in SUFFIXES:
        raise InputError(f"{path} must end in .html; nothing was overwritten; name another file for the page")
    text = page(runs, attacks, gaps, rhos=rhos, data_dir=data_dir)
    write_atomically(Path(path), text.encode("utf-8", "replace"))
    return Path(path)


def page(
    runs: Sequence[Run],
    attacks: Sequence[tuple[AttackRecords, AttackSummary]] = (),
    gaps: Sequence[Gap] = (),
    *,
    rhos: Sequence[int] = (),
    data_dir: str | Path | None = None,
) -> str:
    """The page: nothing in it is fetched from anywhere, and the same records give the same text.

    Pictures of inputs are shown where their data set is found in `data_dir` (as `datasets.load` looks for it) and has
    the fingerprint of the run; otherwise the page says why not. A kind of result that no run has is left out.
    """
    if not runs and not attacks:
        raise InputError("a page needs at least one run, got none; name a records file")
    summaries, under_attack = [run.summary for run in runs], [summary for _, summary in attacks]
    found = [list(outcomes(run)) for run in runs]
    data = _data(runs, data_dir)
    names = [class_names(run.records.header, _known(one)) for run, one in zip(runs, data, strict=True)]
    headers = [(findings.header, summary) for findings, summary in attacks]
    common = shared([_said(summary) for summary in summaries or under_attack])
    return _rendered(
        title=f"sparsecert: {common.get('data', 'several data sets')}",
        about=sentence(common),
        headline=sections.headline(summaries, under_attack),
        certified=sections.certified_curves(summaries),
        attacked=sections.attacked(under_attack, gaps, rhos),
        histograms=sections.histograms(runs, found),
        by_class=sections.class_tables(runs, found, names),
        galleries=_galleries(runs, found, data, names),
        runs=len(runs),
        origins=sections.origins(runs, headers),
    )


def _said(summary: Summary | AttackSummary) -> dict[str, str]:
    """What stands above everything else, of the runs that share it."""
    known = facts(summary) if isinstance(summary, Summary) else attack_facts(summary)
    return {**known, "model": f"model {summary.model_file} {summary.model_sha256[:8]}"}


def _data(runs: Sequence[Run], data_dir: str | Path | None) -> list[Dataset | InputError]:
    """The data set of each run, loaded once for all that share it, or why there is none to show."""
    found: dict[tuple[object, ...], Dataset | InputError] = {}
    keys = []
    for run in runs:
        known = run.records.header.run["data"]
        keys.append(tuple(known.get(name) for name in ("name", "split", "fingerprint", "skipped")))
        if keys[-1] not in found:
            try:
                found[keys[-1]] = data_of(run.records.header, data_dir)
            except InputError as error:
                found[keys[-1]] = error
    return [found[key] for key in keys]


def _known(found: Dataset | InputError) -> Dataset | None:
    return None if isinstance(found, InputError) else found


def _galleries(
    runs: Sequence[Run],
    found: Sequence[Sequence[Outcome]],
    data: Sequence[Dataset | InputError],
    names: Sequence[Sequence[str]],
) -> list[Gallery]:
    count = EXAMPLES if len(runs) == 1 else FEWER_EXAMPLES
    titles = labels([run.summary for run in runs]) if runs else []
    each = list(zip(runs, found, data, names, titles, strict=True))[:MOST_PICTURED]
    return [gallery(title, run.records.header, one, every, known, count) for run, every, one, known, title in each]


def _rendered(**shown: Any) -> str:
    """Fills in the template: all text is escaped, and a name that the template uses but is not given is an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__name__), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = environment.get_template("style.css").render()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    page = environment.get_template("page.html")
    return page.render(shown, version=sparsecert.__version__, style_sha256=digest) + "\n"
