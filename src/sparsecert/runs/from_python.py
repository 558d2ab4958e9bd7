"""Certifications from Python as records, which `reports` and `sparsecert report` read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sparsecert import modelfile
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.inputs import Inputs
from sparsecert.procedures.exact import FEATURES, PIXELS, WORDS
from sparsecert.records import CERTIFY, Header, Records
from sparsecert.records.writing import check_uncompressed
from sparsecert.results import Certifications
from sparsecert.runs.header import data_info, environment, image_info
from sparsecert.runs.run_spec import certificate_records

UNSAVED, SPLIT = "unsaved", "from Python"  # where a header has the hash of a model file, and the split of a data set
TABLES = ".csv", ".tsv", ".parquet", ".xlsx"


def as_records(
    found: Certifications,
    labels: Any = None,
    path: str | Path = "",
    model: str | Path | None = None,
    data: str | Inputs = "inputs",
) -> Records:
    """The records of a run over these inputs, with their true labels: classes as `Certifications.names` has them.

    The header has all that decides the votes, but the hash of the model only where a file is named, and the fingerprint
    of the inputs only where `data` are the inputs they were taken from. Without both, nothing that needs the same model
    or data (predictions, an attack) can be compared with them.
    """
    origin = found.origin
    if origin is None:
        raise InputError("these certifications do not say how they were made; use those that certify returned")
    examples = [int(example) for example in origin.examples]
    if found.exact and len(set(examples)) < len(examples):
        examples = list(range(len(found)))  # no mask depends on them
    settings = found.procedure.header_fields(origin.scheme, found.alpha, found.seed or 0)
    unit = FEATURES if len(origin.shape) == 1 else origin.encoding.units(origin.shape).name
    run = {
        "model": {"sha256": UNSAVED if model is None else modelfile.fingerprint(model)},
        "scheme": origin.scheme.config(),
        "encoding": origin.encoding.config(),
        "classes": found.counts.shape[1],
        "precision": origin.precision,
        "device": origin.device.type,
        **settings,
        **({"against": unit} if settings.get("against") == PIXELS and unit in (FEATURES, WORDS) else {}),
        **image_info(origin.scheme, origin.encoding, origin.shape, settings),
        "data": _data_info(data, examples, unit),
    }
    made_by = environment(origin.device, "model" if model is None else model, origin.rows)
    numbers = _numbers(found, labels)
    if not isinstance(data, str) and data.labels is not None and numbers != data.labels[examples].tolist():
        raise InputError(
            f"labels must be those that {data.name} has at the numbers of the inputs; certify with examples=, their "
            "places in the data, or give data= a name"
        )
    lines = certificate_records(found, examples, numbers, origin.seconds / len(found))
    return Records(Path(path), Header(CERTIFY, run, made_by), tuple(lines))


def save(found: Certifications, path: str | Path, labels: Any, model: str | Path | None, data: str | Inputs) -> None:
    """Writes these records to a new file."""
    path = Path(path)
    check_uncompressed(path)
    if path.suffix.lower() in TABLES:
        raise InputError(f"{path} would hold records, not a table; name it .jsonl, or use to_frame() for a table")
    if path.exists():
        raise InputError(f"{path} is there already; name another file, or delete it first")
    made = as_records(found, labels, path, model, data)
    if len({line.example for line in made.lines}) < len(made.lines):
        raise InputError("records number each input once, and these inputs share a number; certify with other examples")
    text = [made.header.to_json(), *(line.to_json() for line in made.lines)]
    write_atomically(path, "".join(f"{line}\n" for line in text).encode())


def _data_info(data: str | Inputs, examples: list[int], unit: str) -> dict[str, Any]:
    """What the header says of the inputs: all of the data set that they were taken from, or the name given."""
    if isinstance(data, str):
        named = {"name": data, "split": SPLIT, "inputs": len(examples), "of": max(examples) + 1}
        return {**named, **({"unit": unit} if unit == WORDS else {})}
    if max(examples) >= len(data):
        raise InputError(
            f"data must hold the inputs, but {data.name} has {len(data)}, and none of number {max(examples)}"
        )
    return {**data_info(data, None), "inputs": len(examples)}


def _numbers(found: Certifications, labels: Any) -> list[int]:
    """The number of each input's true class; those that the inputs came with where no labels are given."""
    labels = found.truth if labels is None else labels
    if labels is None:
        raise InputError("labels must be the true class of each input: these inputs came without any, so give them")
    classes = list(range(found.counts.shape[1])) if found.classes is None else found.classes.tolist()
    known = {name: number for number, name in enumerate(classes)}
    given = np.asarray(labels.cpu() if hasattr(labels, "cpu") else labels).tolist()
    if not isinstance(given, list) or len(given) != len(found):
        count = len(given) if isinstance(given, list) else 1
        raise InputError(f"labels must be the true class of each of the {len(found)} inputs, got {count}")
    strange = [label for label in given if label not in known]
    if strange:
        raise InputError(f"labels must be among the classes {classes[0]} to {classes[-1]}, got {strange[0]!r}")
    return [known[label] for label in given]
