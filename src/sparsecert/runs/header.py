"""The header of a run's records: what decides its votes, and where they were computed."""

from __future__ import annotations

import copy
import platform
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sparsecert
from sparsecert import modelfile, records
from sparsecert.certificates import METHODS, theorem_name
from sparsecert.errors import InputError
from sparsecert.inputs import Inputs
from sparsecert.procedures.exact import PIXELS
from sparsecert.records import Writer
from sparsecert.runs.inputs import Indices, Limit, Shard, choice, indices_of
from sparsecert.schemes import Scheme
from sparsecert.smoothed import AUTO, Smoothed
from sparsecert.votes.precision import PRECISIONS


def facts(
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    limit: Limit,
    shard: Shard | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """What decides the votes, but for the rounding of another torch or number of threads (see the environment)."""
    check_classes(smoothed, data)
    part = {} if shard is None else {"shard": {**asdict(shard), "inputs": len(indices_of(data, limit, shard))}}
    return {
        **model_facts(smoothed, model, data),
        **settings,
        **theorem_facts(smoothed.scheme, settings),
        **({"against": data.unit} if settings.get("against") == PIXELS else {}),
        **image_facts(smoothed, data, settings),
        "data": data_facts(data, limit),
        **choice(limit, len(data)),
        **part,
    }


def as_begun(smoothed: Smoothed, out: str | Path) -> Smoothed:
    """The classifier in the precision of the run that the file holds, where it holds one and `auto` leaves it open."""
    if smoothed.requested_precision != AUTO or not Path(out).is_file():
        return smoothed
    begun = records.read_header(out)
    precision = None if begun is None else begun[0].run.get("precision")
    if precision not in PRECISIONS:
        return smoothed
    resumed = copy.copy(smoothed)
    resumed.precision = precision
    return resumed


def theorem_facts(scheme: Scheme, settings: dict[str, Any]) -> dict[str, Any]:
    """Which theorem turns the bound's intervals into radii, where there is a bound: that depends on the scheme."""
    if settings.get("bound") not in METHODS:
        return {}
    return {"certificate": theorem_name(settings["bound"], scheme.config(), settings.get("sampling"))}


def image_facts(smoothed: Smoothed, data: Inputs, settings: dict[str, Any]) -> dict[str, Any]:
    """The height and width of the image that the units form (None: none), where masks were made for another one.

    What is certified of altered pixels holds all the same; but no report may take the masks' patches for the image's.
    """
    scheme = smoothed.scheme
    if "against" not in settings or scheme.sides is None:
        return {}
    sides = smoothed.encoding.sides(data.shape)
    return {} if sides == scheme.sides else {"sides": sides and list(sides)}


def check_classes(smoothed: Smoothed, data: Inputs) -> None:
    """Refuses a model of other classes than the data set's."""
    if smoothed.classes is not None and smoothed.classes != len(data.classes):
        raise InputError(f"the model has {smoothed.classes} classes, {data.name} has {len(data.classes)}")
    names = smoothed.facts.get("class_names")
    if names is not None and names != list(data.classes):
        raise InputError(
            f"the model was trained on other classes than {data.name} has, or on the same in another order"
        )


def model_facts(smoothed: Smoothed, model: str | Path, data: Inputs) -> dict[str, Any]:
    """Which classifier it is, and how it is computed."""
    return {
        "model": {"sha256": modelfile.fingerprint(model)},
        "scheme": smoothed.scheme.config(),
        "encoding": smoothed.encoding.config(),
        "classes": len(data.classes),
        "precision": smoothed.precision,
        "device": smoothed.device.type,
    }


def data_facts(data: Inputs, limit: Limit) -> dict[str, Any]:
    """Which inputs a run has."""
    return {
        "name": data.name,
        "split": data.split,
        "fingerprint": data.fingerprint(),
        "inputs": len(indices_of(data, limit)),
        "of": len(data),
        **data.facts(),
    }


def environment(device: torch.device, model: str | Path, rows: int | None) -> dict[str, Any]:
    """Where and with what the run is computed; `rows` where ablated copies are."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "model": Path(model).name,
        "sparsecert": sparsecert.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "device_name": name,
        "threads": torch.get_num_threads(),
        **({} if rows is None else {"rows": rows}),
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def check_inputs(writer: Writer, indices: Indices) -> None:
    """Refuses a file that holds inputs which are not of this run."""
    if not writer.done <= set(indices.tolist()):
        raise InputError(f"{writer.path} holds inputs that are not of this run; name another file")


def rows_of(writer: Writer, asked: int | None) -> int:
    """The rows that the run was begun with; another number is refused, since rounding may depend on it."""
    begun = writer.header.environment.get("rows")
    if type(begun) is not int or begun < 1:
        raise InputError(f"{writer.path} has a damaged header; name another file")
    if asked not in (None, begun):
        raise InputError(f"{writer.path} was begun with rows {begun}, not {asked}; leave rows out or name another file")
    return begun
