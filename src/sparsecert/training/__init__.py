"""Training base classifiers on ablated inputs, with the scheme and encoding of test time.

Everything random in step t (order, augmentation, masks) is a pure function of the seed and t, so a run's state is its
weights, its momentum and t: a run that is killed and started again ends, on the CPU, in the same weights.
"""

from __future__ import annotations

from sparsecert.training.batches import generator
from sparsecert.training.distributed import Team, joined, leave
from sparsecert.training.multi_run import Progress, Stop, train, train_together
from sparsecert.training.run import Run, default_encoding

__all__ = [
    "Progress",
    "Run",
    "Stop",
    "Team",
    "default_encoding",
    "generator",
    "joined",
    "leave",
    "train",
    "train_together",
]
