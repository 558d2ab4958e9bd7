"""A data set through a smoothed classifier into records: what `sparsecert predict` and `certify` do."""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from sparsecert.results import Certifications, Predictions
from sparsecert.smoothed import Smoothed, check_settings
from sparsecert.votes import Progress, Voting

MOST_INPUTS_AT_ONCE, PASSES_AT_ONCE = 64, 8  # in one group: enough to keep a GPU busy, little to lose in a kill

Told = Callable[[int, int], None]  # (inputs done, copies done) since the last call
Finish = Callable[[], list[Record]]


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

    def begin(x: torch.Tensor, examples: list[int], voting: Voting, progress: Progress) -> Finish:
        certified = smoothed.begin_certify(
            x, n0, n, alpha, seed, bound=bound, examples=examples, progress=progress, voting=voting
        )
        return lambda: records(certified(), examples)

    def records(c: Certifications, examples: list[int]) -> list[Record]:
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
                seconds=0.0,
            )
            for row, example in enumerate(examples)
        ]

    _record_all("certify", settings, begin, smoothed, model, data, out, limit, told)


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

    def begin(x: torch.Tensor, examples: list[int], voting: Voting, progress: Progress) -> Finish:
        predicted = smoothed.begin_predict(x, n, alpha, seed, examples=examples, progress=progress, voting=voting)
        return lambda: records(predicted(), examples)

    def records(p: Predictions, examples: list[int]) -> list[Record]:
        return [
            Record(example, int(data.labels[example]), p.votes[row], p.answers[row], seconds=0.0)
            for row, example in enumerate(examples)
        ]

    _record_all("predict", settings, begin, smoothed, model, data, out, limit, told)


def _record_all(
    kind: str,
    settings: dict[str, Any],
    begin: Callable[[torch.Tensor, list[int], Voting, Progress], Finish],
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: int | None,
    told: Told | None,
) -> None:
    """The groups that are not wholly recorded, each computed whole.

    The rows per forward pass and the inputs per group are those of the header, so a resumed run puts the same copies
    into the same batches as an uninterrupted one and ends with the same counts, floating point included. On a GPU one
    group is always under way while the host certifies and records the one before.
    """
    told = told or (lambda inputs, copies: None)
    facts, indices = _facts(smoothed, model, data, limit, settings), data.spaced(limit)
    voting = smoothed.voting(pixels(data, [0]), len(data.classes))
    with Writer(out, Header(kind, facts, _environment(smoothed, model, voting.rows))) as writer:
        if not writer.done <= set(indices.tolist()):
            raise InputError(f"{writer.path} holds inputs that are not of this run; name another file")
        voting.rows = _rows_of(writer, smoothed.rows)

        def begun() -> Iterator[tuple[list[int], Finish]]:
            at_once = PASSES_AT_ONCE * voting.rows // settings["n"]
            for group in _groups(indices, max(1, min(MOST_INPUTS_AT_ONCE, at_once))):
                fresh = [example for example in group if example not in writer.done]
                told(len(group) - len(fresh), 0)
                if fresh:
                    yield fresh, begin(pixels(data, group), group, voting, lambda copies: told(0, copies))

        before = time.perf_counter()
        for fresh, finish in _with_ahead(begun(), 1 if smoothed.device.type == "cuda" else 0):
            done = finish()
            seconds = (time.perf_counter() - before) / len(done)
            before = time.perf_counter()
            writer.append(replace(record, seconds=seconds) for record in done if record.example in fresh)
            told(len(fresh), 0)


def _with_ahead(begun: Iterator[tuple[list[int], Finish]], ahead: int) -> Iterator[tuple[list[int], Finish]]:
    """The groups in their order, each handed on only when `ahead` later ones have been begun."""
    waiting: deque[tuple[list[int], Finish]] = deque()
    for group in begun:
        waiting.append(group)
        if len(waiting) > ahead:
            yield waiting.popleft()
    yield from waiting


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


def _environment(smoothed: Smoothed, model: str | Path, rows: int) -> dict[str, Any]:
    """Where and with what the run is computed."""
    device = smoothed.device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "model": Path(model).name,
        "sparsecert": sparsecert.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device_name": name,
        "threads": torch.get_num_threads(),
        "rows": rows,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _rows_of(writer: Writer, asked: int | None) -> int:
    """The rows that the run was begun with; another number is refused, since rounding may depend on it."""
    begun = writer.header.environment.get("rows")
    if type(begun) is not int or begun < 1:
        raise InputError(f"{writer.path} has a damaged header; name another file")
    if asked not in (None, begun):
        raise InputError(f"{writer.path} was begun with rows {begun}, not {asked}; leave rows out or name another file")
    return begun
