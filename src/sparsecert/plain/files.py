"""Files of plain networks: safetensors like those of smoothed classifiers, of another kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from sparsecert import modelfile
from sparsecert.errors import InputError
from sparsecert.plain.networks import build


def save(path: str | Path, model: nn.Module, architecture: dict[str, Any], facts: dict[str, Any]) -> None:
    """Writes a network that `plain.networks.build(**architecture)` makes, with its metadata."""
    header = {"kind": modelfile.PLAIN, "architecture": architecture, "facts": facts}
    modelfile.write(path, model.state_dict(), header)


def load(path: str | Path) -> tuple[nn.Module, dict[str, Any]]:
    """The network in eval mode, on the CPU, and its metadata; from its file or run folder."""
    tensors, header = modelfile.read(path)
    if header.get("kind") != modelfile.PLAIN:
        raise InputError(f"{path} is not the file of a plain network; train one: sparsecert train --plain cnn")
    try:
        model, facts = build(**header["architecture"]), dict(header["facts"])
        model.load_state_dict(tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{path} has a damaged header, or does not fit its network: {error}") from error
    return model.eval(), facts


def is_plain(path: str | Path) -> bool:
    """Whether this is the file or run folder of a plain network, not of a smoothed classifier."""
    return modelfile.read_header(path).get("kind") == modelfile.PLAIN
