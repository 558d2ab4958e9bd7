"""The paper's tables and figures, measured again: trains, predicts and certifies what is missing, and no more."""

from __future__ import annotations

from studies.levine_feizi_2020.progress import Quiet
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.study import Study

__all__ = ["ModelSpec", "Quiet", "Study"]
