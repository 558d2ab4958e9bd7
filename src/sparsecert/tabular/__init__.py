"""Any scikit-learn classifier with certified robustness: no perturbation of up to r features changes its answer.

    from sparsecert.tabular import AblatedClassifier
    g = AblatedClassifier(HistGradientBoostingClassifier(), keep=5).fit(X, y)
    c = g.certify(X_test)
    c.names, c.radii, c.abstained

`PartitionedClassifier` fits an estimator for each of several groups of columns; its certificates cover perturbed
training values too. Needs scikit-learn: pip install 'sparsecert[tables]'.
"""

from __future__ import annotations

from sparsecert.errors import InputError

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise InputError("scikit-learn is not installed; pip install 'sparsecert[tables]'") from error

from sparsecert.tabular.attack import GreedyResult, greedy_attack
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.explanation import Explanation, UnitVotes
from sparsecert.tabular.partitioned import PartitionedClassifier
from sparsecert.tabular.pipelines import certify
from sparsecert.tabular.regression import CertifiedValues, PartitionedRegressor
from sparsecert.tabular.units import PROTECTED, one_hot_groups

__all__ = [
    "PROTECTED",
    "AblatedClassifier",
    "CertifiedValues",
    "Explanation",
    "GreedyResult",
    "PartitionedClassifier",
    "PartitionedRegressor",
    "UnitVotes",
    "certify",
    "greedy_attack",
    "one_hot_groups",
]
