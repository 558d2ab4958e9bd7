"""A model in eval mode for as long as anyone needs it so, and then as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import torch


@dataclass
class InEval:
    """The modes that a model's submodules had before it was put into eval mode, and how many need it so still."""

    modes: list[tuple[torch.nn.Module, bool]]
    users: int = 0


_in_eval: dict[int, InEval] = {}
_changing = Lock()


@contextmanager
def in_eval_mode(model: Any) -> Iterator[None]:
    """Puts every submodule into eval mode and gives each back as it was, whatever happens inside.

    Of several that overlap, in threads, the last to leave gives them back: none goes on with a model in training mode.
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
