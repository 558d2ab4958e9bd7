"""Weights that training starts from: those of a plain network, or of a model file."""

from __future__ import annotations

import hashlib
import io
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import nn

from sparsecert import modelfile
from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.modelfile import Tensors
from sparsecert.models.adapt import adapt

SHOWN = 3  # of the names that do not fit, in a refusal


def initialise(
    model: nn.Module, plain: nn.Module, encoding: Encoding, path: str | Path, *, new_head: bool = True
) -> str:
    """Copies the weights of a file into `model`; returns the file's SHA-256.

    They fit `model`, which takes the encoding's channels, or `plain`, the same network of whole inputs: then the first
    layer is widened by `adapt`, and whole inputs score as they did. With `new_head` a last layer of other classes
    starts afresh; all other names and shapes must fit.
    """
    if not Path(path).exists() and str(path) not in modelfile.shipped_models():
        raise InputError(f"{path}, whose weights training should start from, does not exist; check the path")
    file = modelfile.find_model(path)
    data = modelfile.read_bytes(file)
    weights = _read(data, file)
    if new_head:
        weights = _with_own_head(model, weights, path)
    wrong = _mismatches(model, weights)
    if wrong and not (of_plain := _mismatches(plain, weights)):
        plain.load_state_dict(weights, strict=False)
        weights = adapt(plain, encoding).state_dict()
        wrong = _mismatches(model, weights)
    elif wrong:
        wrong = min(wrong, of_plain, key=len)
    if wrong:
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise InputError(f"{path} does not fit the model: {'; '.join(wrong[:SHOWN])}{more}; choose its --model")
    model.load_state_dict(weights, strict=False)
    return hashlib.sha256(data).hexdigest()


def _read(data: bytes, path: str | Path) -> Tensors:
    """The tensors of a safetensors file, or of a state dict of PyTorch that holds nothing else."""
    if Path(path).suffix not in (".pt", ".pth"):
        try:
            return load(data)
        except (SafetensorError, ValueError) as error:
            raise InputError(modelfile.NOT_WHOLE.format(path, error)) from error
    try:
        found = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:
        raise InputError(f"{path} must hold a state dict, tensors by name; save net.state_dict(), not net") from error
    found = found.get("state_dict", found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in found.values()):
        raise InputError(f"{path} must hold a state dict, tensors by name; save net.state_dict()")
    return dict(found)


def _with_own_head(model: nn.Module, weights: Tensors, path: str | Path) -> Tensors:
    """The weights, but the model's own for its last layer if that has other classes."""
    last = [name for name, module in model.named_modules() if module._parameters][-1]
    own = {name: tensor for name, tensor in model.state_dict().items() if name.rpartition(".")[0] == last}
    found = {name: weights[name] for name in own if name in weights}
    if found.keys() != own.keys() or all(found[name].shape == own[name].shape for name in own):
        return weights
    if any(found[name].shape[1:] != own[name].shape[1:] for name in own):
        return weights
    there, here = (len(next(iter(tensors.values()))) for tensors in (found, own))
    warnings.warn(f"the last layer of {path} has {there} classes, not {here}; it starts afresh", stacklevel=5)
    return {**weights, **own}


def _mismatches(model: nn.Module, weights: Tensors) -> list[str]:
    """What keeps the weights from the model: names that one of them lacks, and other shapes."""
    own = model.state_dict()
    missing = [name for name in own if name not in weights and not name.endswith("num_batches_tracked")]
    shapes = [
        f"{name} is {tuple(weights[name].shape)}, not {tuple(tensor.shape)}"
        for name, tensor in own.items()
        if name in weights and weights[name].shape != tensor.shape
    ]
    unknown = [name for name in weights if name not in own]
    return [*shapes, *(f"{name} is missing" for name in missing), *(f"{name} is not in the model" for name in unknown)]
