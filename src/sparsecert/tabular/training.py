"""Model files of tables: written by `sparsecert train TABLE`, loaded by `Smoothed.load`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparsecert import modelfile, schemes
from sparsecert.encodings import NotANumber
from sparsecert.errors import InputError
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.estimators import TreeModel
from sparsecert.tabular.tables import Columns, check_column, held_out, read_frame, split_target
from sparsecert.tabular.trees import FIELDS, Trees


def train_table(
    path: str | Path,
    target: str,
    keep: int,
    out: str | Path,
    *,
    protected: Sequence[str] = (),
    together: Sequence[Sequence[str]] = (),
    dropped: Sequence[str] = (),
    share: float = 0.25,
    copies: int = 8,
    seed: int = 0,
) -> Path:
    """Fits `HistGradientBoostingClassifier` on ablated rows, without a held-out share, and writes the model file.

    Text columns are encoded as numbers (see `Columns`). Each list of `together` is one unit, any other column a unit of
    its own; `dropped` columns, such as row ids, are ignored.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    features, labels = split_target(read_frame(path), target)
    features = features.drop(columns=[_known(name, list(features.columns)) for name in dropped])
    if not len(features.columns):
        raise InputError("every feature is dropped; leave some to train on")
    outside = held_out(len(labels), share, seed)
    columns = Columns.of(features[~outside])
    kept = [columns.names.index(_known(name, columns.names)) for name in protected]
    classifier = AblatedClassifier(
        HistGradientBoostingClassifier(), keep=keep, groups=_groups(columns.names, together), protected=kept,
        copies=copies, random_state=seed,
    )  # fmt: skip
    classifier.fit(columns.encode(features[~outside]), labels[~outside])
    trees = Trees.of(classifier.estimator_)
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in trees.nodes.items()}
    tensors |= {"roots": torch.from_numpy(trees.roots.copy()), "baseline": torch.from_numpy(trees.baseline.copy())}
    header = {
        "kind": modelfile.TABLE,
        "scheme": classifier.scheme_.config(),
        "units": classifier.units_.tolist(),
        **columns.config(),
        "classes": [str(label) for label in classifier.classes_],
        "target": target,
        "held_out": share,
        "copies": copies,
        "seed": seed,
        "table": hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest(),
    }
    file = Path(out) / modelfile.MODEL_NAME
    modelfile.write(file, tensors, header)
    return file


def rebuild(
    path: str | Path,
    tensors: modelfile.Tensors,
    header: dict[str, Any],
    model: torch.nn.Module | None,
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
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        trees = Trees({name: arrays[name] for name in FIELDS}, arrays["roots"], arrays["baseline"])
        classes, units = [str(name) for name in header["classes"]], np.array(header["units"], dtype=np.int64)
        if arrays["feature_idx"].max(initial=0) >= len(units) or len(trees.classes_) != len(classes):
            raise ValueError("its trees do not fit its columns")
        metadata = {
            "class_names": classes,
            "shape": [len(units)],
            "data": f"a table, its column {header['target']}",
            "table": {
                **Columns.from_config(header).config(),
                **{name: header[name] for name in ("target", "held_out", "seed")},
                "sha256": header["table"],
            },
        }
        scheme = schemes.from_config(header["scheme"])
        return Smoothed(
            TreeModel(trees), scheme, NotANumber(units),
            classes=len(classes), precision="fp64", rows=rows, metadata=metadata,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} has a damaged header ({error}); retrain the model") from error


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
