"""Model files of tables: written by `sparsecert train TABLE`, loaded by `Smoothed.load`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import clone

from sparsecert import modelfile, schemes
from sparsecert.encodings import NotANumber
from sparsecert.errors import InputError
from sparsecert.files import file_hash
from sparsecert.procedures.exact import require_fixed_masks
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.estimators import PerPart, TreeModel, columns_of
from sparsecert.tabular.partitioned import PartitionedClassifier
from sparsecert.tabular.tables import Columns, check_column, describe_columns, held_out, read_frame, split_target
from sparsecert.tabular.trees import FIELDS, Trees

MOST_CLASSES, MANY_CLASSES, FEW_ROWS_PER_CLASS = 1_000, 50, 10


def train_table(
    path: str | Path,
    target: str,
    classifier: AblatedClassifier | PartitionedClassifier,
    out: str | Path,
    *,
    protected: Sequence[str] = (),
    together: Sequence[Sequence[str]] = (),
    dropped: Sequence[str] = (),
    share: float = 0.25,
    seed: int = 0,
    on_columns: Callable[[list[tuple[str, str]], list[str]], None] = lambda lines, suspects: None,
) -> Path:
    """Fits the classifier, whose base is `HistGradientBoostingClassifier` or LightGBM's, and writes the model file.

    A share of the rows is held out, by their number and the seed alone. Text columns are encoded as numbers, each by
    itself (see `Columns`). Each list of `together` is one unit, any other column a unit of its own; `dropped` columns,
    such as row ids, are ignored. `on_columns` gets how each column is read, and which look like identifiers, before
    anything is fitted (`describe_columns`).
    """
    features, labels = split_target(read_frame(path), target)
    features = features.drop(columns=[_known(name, list(features.columns)) for name in dropped])
    if not len(features.columns):
        raise InputError("every feature is dropped; leave some to train on")
    outside = held_out(len(labels), share, seed)
    _check_classes(target, labels[~outside])
    columns = Columns.of(features[~outside])
    on_columns(*describe_columns(columns, features[~outside], dropped))
    kept = [columns.names.index(_known(name, columns.names)) for name in protected]
    classifier = clone(classifier).set_params(groups=_groups(columns.names, together), protected=kept)
    try:
        classifier.fit(columns.encode(features[~outside]), labels[~outside])
    except InputError:
        raise
    except ValueError as error:  # such as a class of a single row, where the trees hold rows back themselves
        raise InputError(f"the trees cannot be fitted to {path}: {error}") from error
    if isinstance(classifier, PartitionedClassifier):
        parts = [_tensors(one, f"part.{number}.") for number, one in enumerate(classifier.estimators_)]
        tensors: modelfile.Tensors = {name: tensor for part in parts for name, tensor in part.items()}
        how: dict[str, Any] = {"independent": True}
    else:
        tensors, how = _tensors(classifier.estimator_), {"copies": classifier.copies}
    header = {
        "kind": modelfile.TABLE,
        "scheme": classifier.scheme_.config(),
        "units": classifier.units_.tolist(),
        **columns.config(),
        "classes": [str(label) for label in classifier.classes_],
        "target": target,
        "held_out": share,
        **how,
        "seed": seed,
        "table": file_hash(path),
    }
    file = Path(out) / modelfile.MODEL_NAME
    modelfile.write(file, tensors, header)
    return file


def _tensors(estimator: Any, prefix: str = "") -> modelfile.Tensors:
    """The trees of a fitted estimator, by names that start with `prefix`."""
    trees = Trees.of(estimator)
    arrays = {**trees.nodes, "roots": trees.roots, "baseline": trees.baseline}
    return {f"{prefix}{name}": torch.from_numpy(array.copy()) for name, array in arrays.items()}


def _model(tensors: modelfile.Tensors, columns: int, classes: int, prefix: str = "") -> TreeModel:
    """The trees that `_tensors` gave, for rows of so many columns."""
    nodes = {name: tensors[f"{prefix}{name}"].numpy() for name in FIELDS}
    trees = Trees(nodes, *(tensors[f"{prefix}{name}"].numpy() for name in ("roots", "baseline")))
    if nodes["feature_idx"].max(initial=0) >= columns or len(trees.classes_) != classes:
        raise ValueError("its trees do not fit its columns")
    return TreeModel(trees)


def rebuild(
    path: str | Path,
    tensors: modelfile.Tensors,
    header: dict[str, Any],
    model: torch.nn.Module | str | None,
    device: str | torch.device,
    precision: str | None,
    rows: int | None,
) -> Smoothed:
    """The classifier of a model file that `train_table` wrote; refuses settings that its trees cannot follow."""
    if model is not None:
        raise InputError(f"{path} holds its whole model, the trees of a table; leave out model")
    if str(device) not in ("auto", "cpu"):
        raise InputError(f"the trees of a table run on the CPU, got device {str(device)!r}; leave it out")
    if precision not in (None, "auto", "fp64"):
        raise InputError(f"the trees of a table compute in fp64, got precision {precision!r}; leave it out")
    try:
        classes, units = [str(name) for name in header["classes"]], np.array(header["units"], dtype=np.int64)
        scheme, independent = schemes.from_config(header["scheme"]), bool(header.get("independent", False))
        trees: TreeModel | PerPart
        if independent:
            seen = columns_of(require_fixed_masks(scheme).table, units)
            each = [_model(tensors, n, len(classes), f"part.{i}.") for i, n in enumerate(seen.sum(axis=1).tolist())]
            trees = PerPart(each, seen, len(classes))
        else:
            trees = _model(tensors, len(units), len(classes))
        metadata = {
            "class_names": classes,
            "shape": [len(units)],
            "data": f"a table, its column {header['target']}",
            "table": {
                **Columns.from_config(header).config(),
                **{name: header[name] for name in ("target", "held_out", "seed")},
                "sha256": header["table"],
            },
            **({"independent": True} if independent else {}),
        }
        return Smoothed(
            trees, scheme, NotANumber(units, marked=independent),
            classes=len(classes), precision="fp64", rows=rows, metadata=metadata,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} has a damaged header ({error}); retrain the model") from error


def _check_classes(target: str, labels: npt.NDArray[np.str_]) -> None:
    """Refuses a target of more values than trees can learn from so many rows: a number, a text or an identifier."""
    found, rows = len(np.unique(labels)), len(labels)
    if found > MOST_CLASSES or (found > MANY_CLASSES and found * FEW_ROWS_PER_CLASS > rows):
        raise InputError(
            f"the target {target} has {found:,} different values in {rows:,} rows; name a column of classes, or put "
            "its values into a few bins first"
        )


def _groups(names: Sequence[str], together: Sequence[Sequence[str]]) -> list[str]:
    """The unit of each column, by name."""
    unit = {name: name for name in names}
    for group in together:
        for name in group:
            if unit[_known(name, names)] != name:
                raise InputError(f"the column {name} is in two groups; put it in one")
            unit[name] = " and ".join(group)
    return [unit[name] for name in names]


def _known(name: str, names: Sequence[str]) -> str:
    check_column(name, names)
    return name
