"""Draws docs/figures/pairwise.svg: one digit of the demo's records, by pairwise comparison and by first choices.

python -m results.pairwise_figure
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from results.printed import RESULTS
from sparsecert import datasets, records
from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.plurality import first_choices
from sparsecert.procedures.exact import elect
from sparsecert.records import rankings
from sparsecert.reports.curves import COLOURS
from sparsecert.reports.drawing import write_figure
from sparsecert.reports.pictures import image, show
from sparsecert.schemes import FixedMasks, from_config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDS = RESULTS / "mnist-sample" / "lattice-28x1" / "certify.jsonl.xz"
FIGURE = RESULTS.parent / "docs" / "figures" / "pairwise.svg"


def figure() -> Figure:
    """The digit whose radius the pairwise rule enlarges most, of those that the run-off answers alike."""
    from matplotlib.figure import Figure

    found = records.read(RECORDS)
    lines = list(found.lines)
    scheme = from_config(found.header.run["scheme"])
    assert isinstance(scheme, FixedMasks)
    ranks = np.stack([rankings.from_text(line.rankings or "", 10) for line in lines])
    adversary = PerturbedUnits(scheme.table)
    labels, radii = elect(ranks, "pairwise", adversary)
    by_run_off, less = elect(ranks, "run-off", adversary)
    _, least = elect(ranks, "plurality", adversary)
    place = int(np.where(labels == by_run_off, radii - less, -1).argmax())
    label, one = int(labels[place]), ranks[place]
    above, below = (one[:, [label]] < one).sum(axis=0), (one[:, [label]] > one).sum(axis=0)
    rivals = [rival for rival in range(10) if rival != label]
    drawn = Figure(figsize=(9, 3.4), layout="constrained")
    digit, pairs, firsts = drawn.subplots(1, 3, width_ratios=(1, 2.4, 2.4))
    data = datasets.load("mnist-sample")
    show(digit, image(data, lines[place].example), f"a {data.classes[lines[place].true]}")
    pairs.barh(rivals, above[rivals], color=COLOURS[0], label=f"rank {label} above the rival")
    pairs.barh(rivals, -below[rivals], color=COLOURS[1], label=f"rank the rival above {label}")
    for rival in rivals:
        pairs.text(above[rival] + 0.5, rival, f"lead {above[rival] - below[rival]}", va="center", fontsize=8)
    pairs.set_xlim(-len(one) // 2, len(one) + 8)
    pairs.set_title(f"pairwise: radius {radii[place]}", fontsize=10)
    pairs.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=8, frameon=False)
    votes = first_choices(one[None]).votes[0]
    firsts.barh(range(10), votes, color=[COLOURS[0] if c == label else "0.7" for c in range(10)])
    firsts.set_title(f"first choices: radius {least[place]} (run-off: {less[place]})", fontsize=10)
    for axes in (pairs, firsts):
        axes.set_yticks(range(10) if axes is firsts else rivals)
        axes.invert_yaxis()
        axes.set_xlabel(f"of {len(one)} masks")
        axes.spines[["top", "right"]].set_visible(False)
    pairs.set_xticks((-10, 0, 10, 20), ("10", "0", "10", "20"))
    pairs.set_ylabel("rival")
    firsts.set_ylabel("class")
    return drawn


if __name__ == "__main__":
    for path in write_figure(figure, FIGURE):
        print(f"wrote {path}")
