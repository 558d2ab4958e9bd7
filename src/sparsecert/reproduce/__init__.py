"""The paper's tables and figures, measured again: trains, predicts and certifies what is missing, and no more."""

from __future__ import annotations

from sparsecert.reproduce.study import Cell, Quiet, Study

__all__ = ["Cell", "Quiet", "Study"]
