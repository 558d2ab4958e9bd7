"""Results in the forms that public leaderboards take.

`sok`: an entry of `_data/board.yml` of the leaderboard of certified robustness by Li, Xie & Li, "SoK: Certified
Robustness for Deep Neural Networks" (IEEE S&P 2023). `robustbench`: a file of `model_info` of RobustBench, Croce et al.
(NeurIPS 2021 Datasets and Benchmarks), which knows no L0 threat model yet: the footnote says what eps is.

Records do not know the paper. What is not given stays an empty field, and is named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sparsecert.errors import InputError
from sparsecert.procedures.exact import PATCHES
from sparsecert.reports.attack_tables import attack_settings
from sparsecert.reports.attacks import AttackSummary
from sparsecert.reports.comparison import run_settings, settings_line
from sparsecert.reports.run_info import RunInfo
from sparsecert.reports.summary import Summary

SHOWN = {"mnist": "MNIST", "cifar10": "CIFAR-10", "imagenet": "ImageNet", "imagenette": "Imagenette"}
UNKNOWN = "the records do not say: {}; give {}, or fill the empty fields in"


@dataclass(frozen=True)
class Paper:
    """What a leaderboard asks for and records do not hold."""

    title: str = ""
    authors: str = ""
    venue: str = ""
    link: str = ""
    architecture: str = ""

    def missing(self, names: Sequence[str]) -> str | None:
        """A line that names those of the fields that are empty; None if none is."""
        empty = [name for name in names if not asdict(self)[name]]
        return UNKNOWN.format(", ".join(empty), ", ".join(f"--{name}" for name in empty)) if empty else None


def sok(summaries: Sequence[Summary], rhos: Sequence[int], paper: Paper) -> tuple[str, list[str]]:
    """Entries of the board in YAML, one for each certify run and rho, and remarks on what is missing.

    The score is the certified accuracy at rho; without rhos, at the median certified robustness. `prob` is false for
    exact certificates alone.
    """
    entries = []
    for summary in summaries:
        if not summary.certifies or summary.against == PATCHES:
            kept = "patches" if summary.certifies else "predictions"
            raise InputError(f"sok takes certificates against perturbed pixels, and {summary.path} is of {kept}")
        for rho in rhos or [_median(summary)]:
            setting = rf"{SHOWN.get(summary.data, summary.data)},&nbsp; \(\ell_0\),&nbsp; \(\epsilon={rho}\)"
            entries += [
                f"- setting: {_yaml(setting)}",
                "  records:",
                f"  - score: {summary.certified_accuracy_at(rho):.2%}",
                f"    title: {_yaml(paper.title)}",
                f"    link: {_yaml(paper.link)}",
                f"    venue: {_yaml(paper.venue)}",
                f"    prob: {'false' if summary.exact else 'true'}",
                f"    comment: {_yaml(settings_line(run_settings(summary)))}",
            ]
    if not entries:
        raise InputError("sok takes records of certify, and these are of attacks; name records of certify")
    remark = paper.missing(("title", "link", "venue"))
    return "\n".join([*entries, ""]), [remark] if remark else []


def robustbench(
    summaries: Sequence[Summary], attacks: Sequence[AttackSummary], rhos: Sequence[int], paper: Paper
) -> tuple[str, list[str]]:
    """The JSON of one model, and remarks on what is missing.

    Of a certify run, `reported` is the certified accuracy at rho; of an attack run, `autoattack_acc` is the accuracy
    under that attack. Without a rho it is the median certified robustness. Both runs are of the same model.
    """
    if len(summaries) > 1 or len(attacks) > 1 or len(rhos) > 1:
        raise InputError("robustbench takes one certify run, one attack run, or both, and one --rho; name fewer")
    if not summaries and not rhos:
        raise InputError("robustbench needs --rho, the number of perturbed pixels, for an attack run")
    rho = rhos[0] if rhos else _median(summaries[0])
    run: RunInfo = (*summaries, *attacks)[0]
    fields: dict[str, Any] = {
        "link": paper.link,
        "name": paper.title,
        "authors": paper.authors,
        "additional_data": None,
        "number_forward_passes": _passes(run),
        "dataset": run.data,
        "venue": paper.venue,
        "architecture": paper.architecture,
        "eps": str(rho),
        "clean_acc": _percent(summaries[0].accuracy if summaries else attacks[0].clean_accuracy),
        "reported": _percent(summaries[0].certified_accuracy_at(rho)) if summaries else "",
        "autoattack_acc": _percent(attacks[0].accuracy_at(rho)) if attacks else "",
        "footnote": _footnote(summaries, attacks),
        "unreliable": False,
    }
    remarks = [paper.missing(("title", "authors", "venue", "link", "architecture"))]
    remarks.append("the records do not say whether additional data was used in training; fill additional_data in")
    remarks += [] if attacks else ["autoattack_acc is empty: name records of `sparsecert attack` too"]
    remarks += [] if summaries else ["reported is empty: name records of `sparsecert certify` too"]
    return json.dumps(fields, indent=2, ensure_ascii=False) + "\n", [remark for remark in remarks if remark]


def _footnote(summaries: Sequence[Summary], attacks: Sequence[AttackSummary]) -> str:
    """What the numbers are of."""
    parts = ["L0: eps is the number of perturbed pixels, each to any value"]
    parts += [f"reported is certified accuracy ({settings_line(run_settings(one))})" for one in summaries]
    parts += [f"autoattack_acc is under another attack ({settings_line(attack_settings(one))})" for one in attacks]
    return "; ".join(parts)


def _passes(run: RunInfo) -> int:
    """Forward passes for one answer: the votes of a smoothed classifier, 1 of a plain one."""
    return run.n or (run.masks if isinstance(run.masks, int) else 1)


def _median(summary: Summary) -> int:
    if summary.median is None:
        raise InputError(f"fewer than half of the inputs of {summary.path} are certified: choose a radius with --rho")
    return summary.median


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2f}"


def _yaml(text: str) -> str:
    """A string in double quotes, whose escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False)
