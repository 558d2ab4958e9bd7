"""The header of a run's records: everything that determines its votes, and the environment."""

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
from sparsecert.counts import Int64
from sparsecert.datasets.provenance import check_data
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.inputs import Inputs
from sparsecert.procedures.exact import PIXELS
from sparsecert.records import Writer
from sparsecert.runs.groups import Limit, Shard, indices_of, selection_info
from sparsecert.schemes import Scheme
from sparsecert.smoothed import AUTO, Smoothed
from sparsecert.votes.precision import PRECISIONS


def run_info(
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    limit: Limit,
    shard: Shard | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Everything that determines the votes, except rounding, which may depend on the environment.

    `independent`, of exact certificates: they hold if the same units are perturbed in the training inputs too.
    """
    check_classes(smoothed, data)
    part = {} if shard is None else {"shard": {**asdict(shard), "inputs": len(indices_of(data, limit, shard))}}
    return {
        **model_info(smoothed, model, data),
        **settings,
        **({"against": data.units.name} if settings.get("against") == PIXELS else {}),
        **image_info(smoothed.scheme, smoothed.encoding, data.shape, settings),
        **({"independent": True} if "against" in settings and smoothed.metadata.get("independent") else {}),
        **({} if data.labels is not None else {"labelled": False}),
        "data": data_info(data, limit),
        **selection_info(limit, len(data)),
        **part,
    }


def with_recorded_precision(smoothed: Smoothed, out: str | Path) -> Smoothed:
    """The classifier in the precision recorded in `out`, if that file exists and the precision asked for is `auto`."""
    if smoothed.requested_precision != AUTO or not Path(out).is_file():
        return smoothed
    found = records.read_header(out)
    precision = None if found is None else found[0].run.get("precision")
    if precision not in PRECISIONS:
        return smoothed
    resumed = copy.copy(smoothed)
    resumed.precision = precision
    return resumed


def image_info(scheme: Scheme, encoding: Encoding, shape: tuple[int, ...], settings: dict[str, Any]) -> dict[str, Any]:
    """Where the masks are for another image size: the sides of the image that the units form, None if they form none.

    Certificates for perturbed pixels hold all the same, but the masks' patches are not the image's.
    """
    if "against" not in settings or scheme.sides is None:
        return {}
    sides = encoding.units(shape).sides
    return {} if sides == scheme.sides else {"sides": sides and list(sides)}


def check_classes(smoothed: Smoothed, data: Inputs) -> None:
    """Refuses a model whose classes, or shape of inputs, are not the data set's."""
    if smoothed.classes is not None and smoothed.classes != len(data.classes):
        raise InputError(f"the model has {smoothed.classes} classes, {data.name} has {len(data.classes)}")
    check_data(smoothed.metadata, data)


def model_info(smoothed: Smoothed, model: str | Path, data: Inputs) -> dict[str, Any]:
    """The classifier, its precision and device."""
    return {
        "model": {"sha256": modelfile.fingerprint(model)},
        "scheme": smoothed.scheme.config(),
        "encoding": smoothed.encoding.config(),
        "classes": len(data.classes),
        "precision": smoothed.precision,
        "device": smoothed.device.type,
    }


def data_info(data: Inputs, limit: Limit) -> dict[str, Any]:
    """The data set and the number of inputs selected."""
    return {
        "name": data.name,
        "split": data.split,
        "fingerprint": data.fingerprint(),
        "inputs": len(indices_of(data, limit)),
        "of": len(data),
        **data.header_fields(),
    }


def environment(device: torch.device, model: str | Path, rows: int | None) -> dict[str, Any]:
    """Versions and hardware of the run; `rows`: ablated copies per forward pass."""
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


def check_inputs(writer: Writer, indices: Int64) -> None:
    """Refuses a file with inputs that do not belong to this run."""
    if not writer.done <= set(indices.tolist()):
        raise InputError(f"{writer.path} holds inputs that are not of this run; name another file")


def recorded_rows(writer: Writer, asked: int | None) -> int:
    """The rows of the run's header; another number is refused, since rounding may depend on it."""
    rows = writer.header.environment.get("rows")
    if type(rows) is not int or rows < 1:
        raise InputError(f"{writer.path} has a damaged header; name another file")
    if asked not in (None, rows):
        raise InputError(
            f"{writer.path} was started with rows {rows}, not {asked}; leave rows out or name another file"
        )
    return rows
