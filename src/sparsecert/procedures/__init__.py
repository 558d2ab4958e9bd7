"""How a certificate is obtained: by a fixed number of samples, sequentially, or by all masks of a fixed set."""

from sparsecert.procedures.exact import Exact
from sparsecert.procedures.fixed import Fixed
from sparsecert.procedures.procedure import ALPHA, Procedure, check_settings, procedure_for
from sparsecert.procedures.sequential import Sequential

__all__ = ["ALPHA", "Exact", "Fixed", "Procedure", "Sequential", "check_settings", "procedure_for"]
