"""The tables and figures of Levine & Feizi (AAAI 2020), reproduced beside the published numbers.

`python -m studies.levine_feizi_2020 TARGET` trains, predicts, certifies and attacks whatever its records lack.
"""

from __future__ import annotations

from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.study import Study

__all__ = ["ModelSpec", "Study"]
