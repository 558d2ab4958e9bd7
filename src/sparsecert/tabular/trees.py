"""Boosted trees as plain arrays: fitted by scikit-learn or LightGBM, safe to load from an untrusted file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sparsecert.counts import Float64, Int64
from sparsecert.errors import InputError

DAMAGED = "the model's trees are damaged; copy the file again or retrain the model"
FIELDS = {
    "feature_idx": np.int64, "num_threshold": np.float64, "missing_go_to_left": np.bool_, "left": np.int64,
    "right": np.int64, "is_leaf": np.bool_, "value": np.float64,
}  # fmt: skip
AT_ONCE = 4_096  # rows; all trees are traversed together


@dataclass(frozen=True, eq=False)
class Trees:
    """Boosted trees, concatenated; a classifier of 0, 1, ..., classes - 1.

    nodes: an array for each of FIELDS, over all nodes of all trees; children are global indices. roots:
    int64[iterations, scores], the first node of each tree; baseline: Float[scores], before the first tree. Two classes
    have one score, more have one each. A row's answer depends on that row alone.
    """

    nodes: dict[str, npt.NDArray[Any]]
    roots: Int64
    baseline: Float64

    def __post_init__(self) -> None:
        places, inner = np.arange(len(self.nodes["left"])), ~self.nodes["is_leaf"]
        for name in ("left", "right"):  # children come after their parents, so that every path ends
            children = self.nodes[name][inner]
            if (children <= places[inner]).any() or (children >= len(places)).any():
                raise InputError(DAMAGED)
        if self.roots.size and not (self.roots.min() >= 0 and self.roots.max() < len(places)):
            raise InputError(DAMAGED)

    @classmethod
    def of(cls, estimator: Any) -> Trees:
        """The trees of a fitted `HistGradientBoostingClassifier` or `LGBMClassifier`; refuses categorical splits and
        other estimators.
        """
        if hasattr(estimator, "booster_"):
            return cls._of_lightgbm(estimator.booster_.dump_model())
        try:
            trees = [[tree.nodes for tree in iteration] for iteration in estimator._predictors]
            every = [tree for iteration in trees for tree in iteration]
            if any(tree["is_categorical"][tree["is_leaf"] == 0].any() for tree in every):
                raise InputError("trees with categorical splits cannot be saved; encode categories as numbers")
            starts = np.cumsum([0, *(len(tree) for tree in every)])
            nodes: dict[str, npt.NDArray[Any]] = {
                name: np.concatenate([tree[name] for tree in every]).astype(kind) for name, kind in FIELDS.items()
            }
            shift = np.repeat(starts[:-1], np.diff(starts))
            nodes["left"], nodes["right"] = nodes["left"] + shift, nodes["right"] + shift
            baseline = np.asarray(estimator._baseline_prediction, dtype=np.float64).reshape(-1)
        except (AttributeError, KeyError, ValueError, IndexError) as error:
            what = f"{type(estimator).__name__} of this scikit-learn cannot be saved as trees"
            raise InputError(f"{what} ({error}); use HistGradientBoostingClassifier") from error
        return cls(nodes, starts[:-1].reshape(len(trees), -1), baseline)

    @classmethod
    def _of_lightgbm(cls, model: dict[str, Any]) -> Trees:
        """From what LightGBM dumps. Its first trees hold the baseline; there is one tree per score and iteration."""
        nodes: list[tuple[Any, ...]] = []  # in the order of FIELDS
        roots = []
        if model.get("average_output"):
            raise InputError("a random forest of LightGBM cannot be saved as boosted trees; use boosting_type gbdt")
        for tree in model["tree_info"]:
            roots.append(len(nodes))
            _add_nodes(tree["tree_structure"], nodes)
        columns = zip(FIELDS.items(), zip(*nodes, strict=True), strict=True)
        arrays: dict[str, npt.NDArray[Any]] = {name: np.array(column, dtype=kind) for (name, kind), column in columns}
        scores = model["num_tree_per_iteration"]
        return cls(arrays, np.array(roots, dtype=np.int64).reshape(-1, scores), np.zeros(scores))

    @cached_property
    def classes_(self) -> Int64:
        return np.arange(max(2, len(self.baseline)))

    def scores(self, rows: Float64) -> Float64:
        """Float[n, classes]: logits; of two classes, the first has 0."""
        parts = [self._scores(rows[start : start + AT_ONCE]) for start in range(0, len(rows), AT_ONCE)]
        raw = np.concatenate([np.empty((0, len(self.baseline))), *parts])
        return raw if raw.shape[1] > 1 else np.concatenate((np.zeros_like(raw), raw), axis=1)

    def predict(self, rows: Float64) -> Int64:
        """int64[n]: the class with the largest score; the first on a tie."""
        labels: Int64 = self.scores(rows).argmax(axis=1).astype(np.int64)
        return labels

    def _scores(self, rows: Float64) -> Float64:
        n, nodes = self.nodes, np.repeat(self.roots.reshape(1, -1), len(rows), axis=0)
        which = np.broadcast_to(np.arange(len(rows))[:, None], nodes.shape)
        going, which = nodes.reshape(-1).copy(), which.reshape(-1)
        ends = going.copy()
        places = np.flatnonzero(~n["is_leaf"][going])
        while len(places):
            at = ends[places]
            values = rows[which[places], n["feature_idx"][at]]
            left = np.where(np.isnan(values), n["missing_go_to_left"][at], values <= n["num_threshold"][at])
            ends[places] = np.where(left, n["left"][at], n["right"][at])
            places = places[~n["is_leaf"][ends[places]]]
        leaves = n["value"][ends].reshape(len(rows), *self.roots.shape)
        scores: Float64 = self.baseline + leaves.sum(axis=1)
        return scores


def _add_nodes(node: dict[str, Any], nodes: list[tuple[Any, ...]]) -> int:
    """Appends a node of LightGBM and all below it; its place.

    A missing value is 0 where a split saw none in training ("None"), and goes its own way otherwise ("NaN").
    """
    place = len(nodes)
    if "leaf_value" in node:
        nodes.append((0, 0.0, False, 0, 0, True, node["leaf_value"]))
        return place
    missing, threshold = node["missing_type"], node["threshold"]
    if node["decision_type"] != "<=" or missing not in ("None", "NaN"):
        raise InputError("trees with categorical splits, or 0 for missing, cannot be saved; encode both as numbers")
    left = node["default_left"] if missing == "NaN" else threshold >= 0
    nodes.append(())
    children = [_add_nodes(node[side], nodes) for side in ("left_child", "right_child")]
    nodes[place] = (node["split_feature"], threshold, left, *children, False, 0.0)
    return place
