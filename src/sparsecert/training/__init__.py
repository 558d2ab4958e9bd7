"""Trains base classifiers on ablated inputs, with the scheme and encoding used at test time.

All randomness in step t (order, augmentation, masks) is a pure function of the seed and t, so the state of a run is its
weights, its momentum and t: on the CPU, a run that was killed and resumed ends with the same weights.
"""

from __future__ import annotations

from sparsecert.training.batches import generator
from sparsecert.training.distributed import ProcessGroup, exit_process, join_process_group
from sparsecert.training.loop import Stop, train, train_many
from sparsecert.training.run import TrainingRun, default_encoding

__all__ = [
    "ProcessGroup",
    "Stop",
    "TrainingRun",
    "default_encoding",
    "exit_process",
    "generator",
    "join_process_group",
    "train",
    "train_many",
]
