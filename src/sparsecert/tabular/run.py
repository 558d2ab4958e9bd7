"""From a table in a file to a model file, and from that to records: what the command line does."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import sparsecert
from sparsecert import modelfile
from sparsecert.certificates import METHODS
from sparsecert.certificates.enumerated import EnumeratedUnits
from sparsecert.certificates.plurality import plurality
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.procedures.exact import PIXELS
from sparsecert.records import Header, Record, Writer, first_choices, rankings
from sparsecert.schemes import ESTIMATION, SELECTION, AllSubsets, Scheme, from_config
from sparsecert.tabular.classifier import AblatedClassifier
from sparsecert.tabular.null import NanNull
from sparsecert.tabular.tables import Columns, check_column, held_out, read_frame, split_target
from sparsecert.tabular.trees import FIELDS, Trees
from sparsecert.tabular.voting import ROWS, Ablated, in_parallel, tally

Float = npt.NDArray[np.float64]
Bool = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]

GROUP = 4 * ROWS  # rows whose records are written together


@dataclass(frozen=True, eq=False)
class TableModel:
    """What a model file of a table holds: boosted trees behind masks, and how a table becomes their rows."""

    ablated: Ablated
    scheme: Scheme
    columns: Columns
    classes: tuple[str, ...]
    target: str
    held_out: float
    seed: int
    table: str  # sha256 of the file that it was trained on


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
    """Fits `HistGradientBoostingClassifier` on ablated rows of a table but for a held-out share, and writes the model.

    Text columns are numbered (see `Columns`), each one unit; the columns of each of `together` are one unit, and
    `dropped` ones are not looked at, such as one that numbers the rows.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    features, labels = split_target(read_frame(path), target)
    features = features.drop(columns=[_known(name, list(features.columns)) for name in dropped])
    if not len(features.columns):
        raise InputError("every column but the one to predict is dropped; leave some to train on")
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
        "columns": list(columns.names),
        "categories": {name: list(values) for name, values in columns.categories.items()},
        "classes": [str(label) for label in classifier.classes_],
        "target": target,
        "held_out": share,
        "copies": copies,
        "seed": seed,
        "table": _sha256(path),
    }
    file = Path(out) / modelfile.MODEL_NAME
    modelfile.write(file, tensors, header)
    return file


def load_table_model(path: str | Path) -> TableModel:
    """The classifier of a model file that `train_table` wrote."""
    tensors, header = modelfile.read(path)
    if header.get("kind") != modelfile.TABLE:
        raise InputError(f"{path} was not trained on a table; certify it on images, or train on the table first")
    try:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        trees = Trees({name: arrays[name] for name in FIELDS}, arrays["roots"], arrays["baseline"])
        classes, units = tuple(header["classes"]), np.array(header["units"], dtype=np.int64)
        if arrays["feature_idx"].max(initial=0) >= len(units) or len(trees.classes_) != len(classes):
            raise ValueError("its trees are of another table")
        categories = {name: tuple(values) for name, values in header["categories"].items()}
        return TableModel(
            Ablated(trees, NanNull(), units, len(classes)),
            from_config(header["scheme"]),
            Columns(tuple(header["columns"]), categories),
            classes,
            header["target"],
            header["held_out"],
            header["seed"],
            header["table"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} has a damaged header ({error}); train the model anew") from error


def certify_table(
    model: str | Path,
    path: str | Path,
    out: str | Path,
    *,
    n0: int = 1_000,
    n: int = 10_000,
    alpha: float = 0.05,
    bound: str = "two-sided",
    seed: int = 0,
    limit: int | None = None,
    jobs: int = 1,
    on_progress: Callable[[int, int], None] = lambda rows, copies: None,
) -> None:
    """Certifies the rows of a table and records their votes: of the table it was trained on, those held out.

    Where the scheme's masks are all listed, the certificate is exact, by plurality; else two-sided (or one-sided).
    A run that was stopped is continued.
    """
    loaded = load_table_model(model)
    features, labels = split_target(read_frame(path, text=loaded.columns.categories), loaded.target)
    same = _sha256(path) == loaded.table
    chosen = np.flatnonzero(held_out(len(labels), loaded.held_out, loaded.seed)) if same else np.arange(len(labels))
    if limit is not None:
        if not 1 <= limit <= len(chosen):
            raise InputError(f"limit must be between 1 and {len(chosen)} rows, got {limit}")
        chosen = chosen[np.arange(limit) * len(chosen) // limit]
    numbers = _numbers(labels[chosen], loaded.classes)
    rows = loaded.columns.encode(features.iloc[chosen])
    if isinstance(loaded.scheme, AllSubsets):
        exact: dict[str, Any] = {"rule": "plurality", "against": PIXELS, "seconds": 0.0}
        settings = {"masks": len(loaded.scheme.table), **exact}
        task: Any = partial(_exact_records, loaded, EnumeratedUnits(loaded.scheme.table))
        copies = len(loaded.scheme.table)
    else:
        theorem = METHODS[bound].theorem_for(loaded.scheme)[1]
        settings = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "bound": bound, "certificate": theorem}
        masks = [_drawn(loaded.scheme, seed, *purpose) for purpose in ((SELECTION, n0), (ESTIMATION, n))]
        task, copies = partial(_sampled_records, loaded, masks, alpha, bound), n0 + n
    data = {
        "name": Path(path).name, "split": "held-out" if same else "all", "fingerprint": _sha256(path),
        "inputs": len(chosen), "of": len(labels), "class_names": list(loaded.classes),
    }  # fmt: skip
    run = {
        "model": {"sha256": modelfile.fingerprint(model)}, "scheme": loaded.scheme.config(),
        "encoding": {"kind": "nan", "units": loaded.ablated.units.tolist()}, "classes": len(loaded.classes),
        "precision": "fp64", "device": "cpu", **settings, "data": data,
    }  # fmt: skip
    with Writer(out, Header("certify", run, _environment(model))) as writer:
        left = np.flatnonzero(~np.isin(chosen, list(writer.done)))
        for start in range(0, len(left), GROUP):
            group = left[start : start + GROUP]
            writer.append(_timed(task, rows[group], chosen[group], numbers[group], jobs))
            on_progress(len(writer.done), len(writer.done) * copies)


def _timed(task: Any, rows: Float, examples: Int64, labels: Int64, jobs: int) -> Iterator[Record]:
    """The records of a group, with the seconds that each row took."""
    began = time.perf_counter()
    found = [record for part in in_parallel(task, rows, jobs) for record in part]
    seconds = (time.perf_counter() - began) / len(rows)
    for record, example, label in zip(found, examples.tolist(), labels.tolist(), strict=True):
        yield replace(record, example=example, true=label, seconds=seconds)


def _exact_records(model: TableModel, adversary: EnumeratedUnits, rows: Float) -> list[Record]:
    """What all masks say of each row, and what that proves; the number and the label of a row are not known here."""
    found = []
    for row in rows:
        seen = model.ablated.see(np.repeat(row[None], len(adversary.masks), axis=0), adversary.masks)
        order = np.argsort(-model.ablated.estimator.scores(seen), axis=1, kind="stable")
        ranks = np.argsort(order, axis=1).astype(np.int16)
        certificate = plurality(order[:, 0].astype(np.int64), ranks.shape[1], adversary)
        votes, written = first_choices(ranks), rankings.to_text(ranks)
        found.append(Record(0, 0, votes, certificate.label, 0.0, radius=certificate.radius, rankings=written))
    return found


def _sampled_records(model: TableModel, masks: list[Bool], alpha: float, bound: str, rows: Float) -> list[Record]:
    """The same by two sets of masks drawn at random."""
    counts = [tally(model.ablated.votes(rows, drawn), model.ablated.classes).tolist() for drawn in masks]
    found = []
    for first, second in zip(*counts, strict=True):
        selection, estimation = Tally(tuple(first)), Tally(tuple(second))
        certificate = METHODS[bound].certify(selection, estimation, model.scheme, alpha)
        interval: Any = certificate.interval
        lower, upper = float(interval.p_lower), float(interval.p_upper)
        found.append(Record(0, 0, estimation, interval.label, 0.0, selection, lower, upper, certificate.radius))
    return found


def _drawn(scheme: Scheme, seed: int, purpose: int, count: int) -> Bool:
    if count < 1:
        raise InputError(f"n0 and n must be at least 1, got {count}")
    masks: Bool = scheme.masks(seed, [0], range(purpose, purpose + count))[0].numpy()
    return masks


def _groups(names: Sequence[str], together: Sequence[Sequence[str]]) -> list[str]:
    """A name of its unit for each column."""
    unit = {name: name for name in names}
    for group in together:
        for name in group:
            if unit[_known(name, names)] != name:
                raise InputError(f"the column {name} is in two groups; put each into one")
            unit[name] = " and ".join(group)
    return [unit[name] for name in names]


def _known(name: str, names: Sequence[str]) -> str:
    check_column(name, names)
    return name


def _numbers(labels: npt.NDArray[Any], classes: Sequence[str]) -> Int64:
    known = {label: number for number, label in enumerate(classes)}
    strange = sorted(set(labels.tolist()) - set(known))
    if strange:
        raise InputError(f"the table has classes that the model does not know: {', '.join(strange):.200}")
    return np.array([known[label] for label in labels.tolist()], dtype=np.int64)


def _sha256(path: str | Path) -> str:
    return hashlib.sha256(Path(path).expanduser().read_bytes()).hexdigest()


def _environment(model: str | Path) -> dict[str, Any]:
    return {
        "model": Path(model).name, "sparsecert": sparsecert.__version__, "numpy": np.__version__,
        "python": platform.python_version(), "device_name": platform.processor() or platform.machine(),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }  # fmt: skip
