"""Model files: safetensors whose header holds all that is needed to use the model. No pickle is ever loaded."""

from __future__ import annotations

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save
from torch import nn

from sparsecert import encodings, models, schemes
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError, describe
from sparsecert.files import write_atomically
from sparsecert.schemes import Scheme

KEY = "sparsecert"
FORMAT = 2
READABLE = 1, 2  # every file of format 1 has precision fp32, then the only default
MODEL_NAME = "model.safetensors"
PLAIN = "plain"  # the kind of an undefended network; the file of a smoothed classifier names no kind
TABLE = "table"  # the kind of a model trained on a table
SHIPPED = Path(__file__).parent / "shipped"
NOT_WHOLE = "{} is not a whole model file ({}); copy it again or train the model anew"

Tensors = dict[str, torch.Tensor]


def write(path: str | Path, tensors: Tensors, header: dict[str, Any]) -> None:
    """Writes tensors and header to one file, atomically."""
    for name, tensor in tensors.items():
        if not isinstance(tensor, torch.Tensor) or tensor.is_quantized:
            raise InputError(f"{name} of the model is not a plain tensor; only plain tensors can be saved")
    plain = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    try:
        metadata = {KEY: json.dumps({"format": FORMAT, **header})}
    except (TypeError, ValueError) as error:
        raise InputError(f"metadata must be plain JSON values: {error}") from error
    write_atomically(Path(path), save(plain, metadata=metadata))


def add_metadata(path: str | Path, **metadata: Any) -> None:
    """Adds to the metadata of a model file; refuses to replace what is there."""
    tensors, header = read(path)
    for name, value in metadata.items():
        if header["facts"].setdefault(name, value) != value:
            raise InputError(f"{path} says {name} {header['facts'][name]}, not {value}; use another --out folder")
    if metadata:
        write(find_model(path), tensors, header)


def to_half(tensors: Tensors) -> Tensors:
    """Rounds fp32 tensors to fp16 and leaves the others; refuses values beyond fp16's range."""
    rounded = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    for name, tensor in rounded.items():
        if tensor.dtype == torch.float16 and not torch.equal(torch.isfinite(tensor), torch.isfinite(tensors[name])):
            raise InputError(f"{name} of the model holds numbers too large for half precision; save it without half")
    return rounded


def read(path: str | Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors (on the CPU) and the header; a missing, truncated or foreign file is refused by name."""
    return parse(read_bytes(path), str(find_model(path)))


def read_bytes(path: str | Path) -> bytes:
    path = find_model(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(NOT_WHOLE.format(path, error)) from error


def parse(data: bytes, name: str) -> tuple[Tensors, dict[str, Any]]:
    """Tensors and header from a file's bytes; `name` is for error messages."""
    try:
        tensors = load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError) as error:
        raise InputError(NOT_WHOLE.format(name, error)) from error
    return tensors, _header(metadata, name)


def read_header(path: str | Path) -> dict[str, Any]:
    """The header alone."""
    path = find_model(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise InputError(NOT_WHOLE.format(path, error)) from error
    return _header(metadata, path)


def _header(metadata: dict[str, str], name: str | Path) -> dict[str, Any]:
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


def saved_precision(header: dict[str, Any]) -> str:
    """The precision the classifier was saved with; `auto` for fp32 in a file of format 1, where it was not a choice."""
    saved: str = header["precision"]
    return "auto" if header["format"] == 1 and saved == "fp32" else saved


def rebuild(
    path: str | Path, tensors: Tensors, header: dict[str, Any], model: Any
) -> tuple[nn.Module, Scheme, Encoding]:
    """The module of a file's header, or `model` in its place, with the file's weights; its scheme and its encoding.

    `model` is a module, or the name of one (`models.build_named`). A module of the user's that the header names is
    imported only if `model` names it: a file alone makes us import nothing.
    """
    if model is not None and not isinstance(model, nn.Module | str):
        raise InputError(f"model must be a torch.nn.Module that takes the weights of {path}, got {describe(model)}")
    if header.get("half"):
        tensors = {name: t.float() if t.dtype == torch.float16 else t for name, t in tensors.items()}
    try:
        scheme, encoding = schemes.from_config(header["scheme"]), encodings.from_config(header["encoding"])
        architecture, _, _ = header["architecture"], header["classes"], dict(header["facts"])
        saved_precision(header)
        own = architecture["name"] if architecture is not None and models.is_own(architecture["name"]) else None
        if model is None and architecture is not None and own is None:
            model = models.rebuild(architecture, scheme)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} is not the file of a classifier, or its header is damaged ({error})") from error
    if model is None and own is not None:
        raise InputError(
            f"{path} holds the weights of {own}, a network of yours, which is imported only if you name it: "
            f"add --model {own}; in Python, load(path, model={own!r})"
        )
    if model is None:
        raise InputError(
            f"{path} holds the weights of a module of yours: load(path, model=YourModule()), or --model module:factory"
        )
    if isinstance(model, str):
        model = _named(path, model, header, scheme, encoding)
    try:
        model.to(next((t.dtype for t in tensors.values() if t.is_floating_point()), None))
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise InputError(f"{path} does not fit the model: {' '.join(str(error).split())}") from error
    return model, scheme, encoding


def _named(path: str | Path, name: str, header: dict[str, Any], scheme: Scheme, encoding: Encoding) -> nn.Module:
    """The network of that name, for the channels and classes of the file."""
    architecture, shape, classes = header["architecture"], header["facts"].get("shape"), header["classes"]
    if architecture is not None:
        if architecture["name"] != name:
            warnings.warn(f"{path} holds the weights of {architecture['name']}; they go into {name}", stacklevel=6)
        elif not models.is_own(name):
            return models.rebuild(architecture, scheme)
        restored = architecture.get("restored", False)
        return models.build_named(
            name, architecture["channels"], architecture["classes"], scheme=scheme, restored=restored
        )
    if shape is None or classes is None:
        raise InputError(
            f"{path} does not say for which shape and how many classes to call {name}; save it with classes= and "
            f"metadata={{'shape': [channels, height, width]}}, or in Python use load(path, model=YourModule())"
        )
    return models.build_named(name, encoding.channels(shape[0] if len(shape) > 1 else 1), classes, scheme=scheme)


def find_model(path: str | Path) -> Path:
    """The model file, given its path, the folder of its training run, or the name of a shipped model."""
    path = Path(path)
    file = path / MODEL_NAME if path.is_dir() else path
    if not path.exists() and str(path) in shipped_models():
        return shipped_models()[str(path)]
    if not file.is_file():
        names = ", ".join(shipped_models())
        raise InputError(
            f"{file} does not exist; train a model first, for example: sparsecert train --data digits, "
            f"or name one that ships with the package: {names}"
        )
    return file


def shipped_models() -> dict[str, Path]:
    """The models that ship with the package, by name."""
    return {file.stem: file for file in sorted(SHIPPED.glob("*.safetensors"))}


def refuse_plain(path: str | Path, header: dict[str, Any]) -> None:
    """Refuses an undefended network where a smoothed classifier is needed."""
    if header.get("kind") == PLAIN:
        raise InputError(
            f"{path} holds a plain network, which has no scheme and nothing to certify; train a base classifier on "
            f"ablated inputs instead: sparsecert train without --plain"
        )


def fingerprint(path: str | Path) -> str:
    """SHA-256 of the file, by which records name the model."""
    digest = hashlib.sha256()
    with find_model(path).open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
