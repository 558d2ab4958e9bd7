"""Model files: safetensors whose header says everything needed to use the model. No pickle is ever loaded."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save

from sparsecert.errors import InputError
from sparsecert.files import write_atomically

KEY = "sparsecert"
FORMAT = 2
READABLE = 1, 2  # of 1, every file says precision fp32, as it was the only default
MODEL_NAME = "model.safetensors"
PLAIN = "plain"  # the kind of a network that answers for itself; the file of a smoothed classifier names no kind
TABLE = "table"  # the kind of one that was trained on a table
SHIPPED = Path(__file__).parent / "shipped"
NOT_WHOLE = "{} is not a whole model file ({}); copy it again or train the model anew"

Tensors = dict[str, torch.Tensor]


def write(path: str | Path, tensors: Tensors, header: dict[str, Any]) -> None:
    """Writes tensors and header as one file, whole or not at all."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.is_quantized:
            raise InputError(f"{name} of the model is not a plain tensor; only plain tensors can be saved")
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    try:
        metadata = {KEY: json.dumps({"format": FORMAT, **header})}
    except (TypeError, ValueError) as error:
        raise InputError(f"facts must be plain JSON values: {error}") from error
    write_atomically(Path(path), save(plain, metadata=metadata))


def halved(tensors: Tensors) -> Tensors:
    """The 32-bit tensors rounded to 16 bits, the others as they are; refuses numbers that 16 bits cannot hold."""
    rounded = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    for name, tensor in rounded.items():
        if tensor.dtype == torch.float16 and not torch.equal(torch.isfinite(tensor), torch.isfinite(tensors[name])):
            raise InputError(f"{name} of the model holds numbers too large for half precision; save it without half")
    return rounded


def read(path: str | Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors (on the CPU) and the header; a missing, truncated or foreign file is refused by name."""
    return parse(contents(path), str(located(path)))


def contents(path: str | Path) -> bytes:
    """What the file holds."""
    path = located(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(NOT_WHOLE.format(path, error)) from error


def parse(data: bytes, name: str) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and header from what a file holds, also where the file is not seen; `name` is for refusals."""
    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise InputError(NOT_WHOLE.format(name, error)) from error
    return tensors, _header(metadata, name)


def read_header(path: str | Path) -> dict[str, Any]:
    """The header alone."""
    path = located(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise InputError(NOT_WHOLE.format(path, error)) from error
    return _header(metadata, path)


def _header(metadata: dict[str, str], name: str | Path) -> dict[str, Any]:
    """What sparsecert wrote among a file's metadata."""
    if KEY not in metadata:
        raise InputError(f"{name} was not written by sparsecert: its header has no scheme and encoding")
    try:
        header: dict[str, Any] = dict(json.loads(metadata[KEY]))
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} has a damaged header; copy it again or train the model anew") from error
    if header.get("format") not in READABLE:
        known = " and ".join(map(str, READABLE))
        raise InputError(f"{name} has format {header.get('format')}, this version reads {known}; update sparsecert")
    return header


def precision_of(header: dict[str, Any]) -> str:
    """The precision that the classifier was saved with; `auto` for fp32 in a file of format 1, which chose nothing."""
    saved: str = header["precision"]
    return "auto" if header["format"] == 1 and saved == "fp32" else saved


def located(path: str | Path) -> Path:
    """The model file itself, given it, the folder of the run that trained it, or the name of a shipped model."""
    path = Path(path)
    file = path / MODEL_NAME if path.is_dir() else path
    if not path.exists() and str(path) in shipped():
        return shipped()[str(path)]
    if not file.is_file():
        names = ", ".join(shipped())
        raise InputError(
            f"{file} does not exist; train a model first, for example: sparsecert train --data digits, "
            f"or name one that ships with the package: {names}"
        )
    return file


def shipped() -> dict[str, Path]:
    """The models that ship with the package, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.safetensors"))}


def refuse_plain(path: str | Path, header: dict[str, Any]) -> None:
    """Says what to do with the file of a plain network where a smoothed classifier is needed."""
    if header.get("kind") == PLAIN:
        raise InputError(
            f"{path} holds a plain network, which has no scheme and nothing to certify; train a base classifier on "
            f"ablated inputs instead: sparsecert train without --plain"
        )


def fingerprint(path: str | Path) -> str:
    """sha256 of the file: what records name the model by."""
    digest = hashlib.sha256()
    with located(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
