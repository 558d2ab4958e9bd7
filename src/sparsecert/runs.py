"""A data set through a smoothed classifier into records: what `sparsecert predict` and `certify` do."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsecert
from sparsecert import modelfile
from sparsecert.certificates import method_named
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.records import Header, Record, Writer
from sparsecert.smoothed import Smoothed, check_settings
from sparsecert.votes import Ablation, probe

MOST_INPUTS_AT_ONCE = 64

Told = Callable[[int, int], None]  # (inputs done, copies done) since the last call


def certify_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    *,
    n0: int = 1_000,
    n: int = 10_000,
    alpha: float = 0.05,
    seed: int = 0,
    bound: str = "two-sided",
    limit: int | None = None,
    told: Told | None = None,
) -> None:
    """Certifies `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run.

    `model` is the file that `smoothed` was loaded from: the records name the model by its hash.
    """
    method = method_named(bound)
    check_settings(smoothed.scheme, seed, alpha, n0=n0, n=n)
    n0, n, alpha, seed = int(n0), int(n), float(alpha), int(seed)  # numpy's numbers are no JSON
    settings = {"n0": n0, "n": n, "alpha": alpha, "seed": seed, "bound": bound, "certificate": method.theorem_name}

    def records(x: torch.Tensor, examples: list[int], progress: Callable[[int], None]) -> list[Record]:
        began = time.perf_counter()
        c = smoothed.certify(x, n0, n, alpha, seed, bound=bound, examples=examples, progress=progress)
        seconds = (time.perf_counter() - began) / len(examples)
        return [
            Record(
                example=example,
                true=int(data.labels[example]),
                selection=c.selection[row],
                votes=c.estimation[row],
                label=c[row].interval.label,
                p_lower=float(c[row].interval.p_lower),
                p_upper=float(c[row].interval.p_upper),
                radius=c[row].radius,
                seconds=seconds,
            )
            for row, example in enumerate(examples)
        ]

    _record_all("certify", settings, records, smoothed, model, data, out, limit, told)


def predict_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    *,
    n: int = 10_000,
    alpha: float = 0.05,
    seed: int = 0,
    limit: int | None = None,
    told: Told | None = None,
) -> None:
    """Predicts `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run."""
    check_settings(smoothed.scheme, seed, alpha, n=n)
    n, alpha, seed = int(n), float(alpha), int(seed)  # numpy's numbers are no JSON
    settings = {"n": n, "alpha": alpha, "seed": seed}

    def records(x: torch.Tensor, examples: list[int], progress: Callable[[int], None]) -> list[Record]:
        began = time.perf_counter()
        p = smoothed.predict(x, n, alpha, seed, examples=examples, progress=progress)
        seconds = (time.perf_counter() - began) / len(examples)
        return [
            Record(example, int(data.labels[example]), p.votes[row], p.answers[row], seconds)
            for row, example in enumerate(examples)
        ]

    _record_all("predict", settings, records, smoothed, model, data, out, limit, told)


def _record_all(
    kind: str,
    settings: dict[str, Any],
    records: Callable[[torch.Tensor, list[int], Callable[[int], None]], list[Record]],
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: int | None,
    told: Told | None,
) -> None:
    """The groups that are not wholly recorded, each computed whole.

    The rows per forward pass and the inputs per group are those of the header, so a resumed run puts the same copies
    into the same batches as an uninterrupted one and ends with the same counts, floating point included.
    """
    told = told or (lambda inputs, copies: None)
    header = Header(kind, _facts(smoothed, model, data, limit, settings), _environment(smoothed, model, data))
    asked, indices = smoothed.rows, data.spaced(limit)
    with Writer(out, header) as writer:
        if not writer.done <= set(indices.tolist()):
            raise InputError(f"{writer.path} holds inputs that are not of this run; name another file")
        try:
            smoothed.rows = _rows_of(writer, asked)
            for group in _groups(indices, max(1, min(MOST_INPUTS_AT_ONCE, smoothed.rows // settings["n"]))):
                fresh = [example for example in group if example not in writer.done]
                told(len(group) - len(fresh), 0)
                if fresh:
                    done = records(pixels(data, group), group, lambda copies: told(0, copies))
                    writer.append(record for record in done if record.example in fresh)
                    told(len(fresh), 0)
        finally:
            smoothed.rows = asked


def pixels(data: Dataset, indices: list[int]) -> torch.Tensor:
    """Float[b, c, h, w] in [0, 1]."""
    return torch.from_numpy(data.images.batch(indices)).float() / 255


def _groups(indices: np.ndarray[Any, Any], size: int) -> Iterator[list[int]]:
    for start in range(0, len(indices), size):
        yield indices[start : start + size].tolist()


def _facts(
    smoothed: Smoothed, model: str | Path, data: Dataset, limit: int | None, settings: dict[str, Any]
) -> dict[str, Any]:
    """What decides the votes, but for the rounding of another torch or number of threads (see the environment)."""
    if smoothed.classes is not None and smoothed.classes != len(data.classes):
        raise InputError(f"the model has {smoothed.classes} classes, {data.name} has {len(data.classes)}")
    names = smoothed.facts.get("class_names")
    if names is not None and names != list(data.classes):
        raise InputError(
            f"the model was trained on other classes than {data.name} has, or on the same in another order"
        )
    return {
        "model": {"sha256": modelfile.fingerprint(model)},
        "scheme": smoothed.scheme.config(),
        "encoding": smoothed.encoding.config(),
        "classes": len(data.classes),
        "precision": smoothed.precision,
        "device": smoothed.device.type,
        **settings,
        "data": {
            "name": data.name,
            "split": data.split,
            "fingerprint": data.fingerprint(),
            "inputs": len(data.spaced(limit)),
            "of": len(data),
        },
    }


def _environment(smoothed: Smoothed, model: str | Path, data: Dataset) -> dict[str, Any]:
    """Where and with what the run is computed."""
    device, fitting = smoothed.device, _fitting_rows(smoothed, data)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "model": Path(model).name,
        "sparsecert": sparsecert.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device_name": name,
        "threads": torch.get_num_threads(),
        "rows": smoothed.rows or fitting,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _fitting_rows(smoothed: Smoothed, data: Dataset) -> int:
    """The rows per forward pass that the free memory suggests; a model that does not fit the data is refused here."""
    ablation = Ablation(smoothed.model, smoothed.scheme, smoothed.encoding, smoothed.device, smoothed.precision)
    first = smoothed.check(pixels(data, [0])).to(smoothed.device)
    return probe(ablation, first, len(data.classes))[1]


def _rows_of(writer: Writer, asked: int | None) -> int:
    """The rows that the run was begun with; another number is refused, since rounding may depend on it."""
    begun = writer.header.environment.get("rows")
    if type(begun) is not int or begun < 1:
        raise InputError(f"{writer.path} has a damaged header; name another file")
    if asked not in (None, begun):
        raise InputError(f"{writer.path} was begun with rows {begun}, not {asked}; leave rows out or name another file")
    return begun
