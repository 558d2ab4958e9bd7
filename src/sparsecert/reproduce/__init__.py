"""The paper's tables and figures, measured again: trains, predicts and certifies what is missing, and no more."""

from __future__ import annotations

from sparsecert.reproduce.bars import Quiet
from sparsecert.reproduce.cell import Cell
from sparsecert.reproduce.study import Study

__all__ = ["Cell", "Quiet", "Study"]
