"""A thread-safe eval mode that restores the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch


@dataclass
class InEval:
    """The modes of a model's submodules before eval mode, and the number of users that still need eval mode."""

    modes: list[tuple[torch.nn.Module, bool]]
    users: int = 0


_in_eval: dict[int, InEval] = {}
_changing = Lock()


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Puts every submodule into eval mode and restores each on exit.

    Where several threads overlap, the last to leave restores them.
    """
    if not isinstance(model, torch.nn.Module):
        yield
        return
    with _changing:
        modes = [(module, module.training) for module in model.modules() if hasattr(module, "training")]
        here = _in_eval.setdefault(id(model), InEval(modes))
        here.users += 1
    try:
        model.eval()
        yield
    finally:
        with _changing:
            here.users -= 1
            if not here.users:
                del _in_eval[id(model)]
                for module, training in here.modes:
                    module.training = training
