"""The optimizer of a run, and its state as named tensors for checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn
from torch.optim import SGD, AdamW, Optimizer

from sparsecert.training.recipe import Recipe

STATES = {"momentum": "momentum_buffer", "mean": "exp_avg", "square": "exp_avg_sq", "steps": "step"}  # in files, torch


def optimizer_of(recipe: Recipe, model: nn.Module, device: torch.device) -> Optimizer:
    """SGD with momentum or AdamW, as the recipe says; its learning rate is set before each step."""
    cuda = device.type == "cuda"
    rate = torch.zeros((), device=device) if cuda else 0.0  # a tensor, so that a captured step reads it
    if recipe.optimizer == "adamw":
        return AdamW(
            model.parameters(), lr=rate, weight_decay=recipe.weight_decay, fused=cuda, capturable=cuda, foreach=False
        )
    return SGD(
        model.parameters(), lr=rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay,
        nesterov=recipe.nesterov, fused=cuda,
    )  # fmt: skip


def state_tensors(optimizer: Optimizer, model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """The optimizer's state, by names such as momentum.3, the number being the parameter's."""
    for number, parameter in enumerate(model.parameters()):
        for name, key in STATES.items():
            if (tensor := optimizer.state[parameter].get(key)) is not None:
                yield f"{name}.{number}", tensor


def complete_state(optimizer: Optimizer, model: nn.Module) -> list[torch.Tensor]:
    """All tensors of the state that the optimizer has after a step, zero where it has none yet."""
    adam, found = isinstance(optimizer, AdamW), []
    for parameter in model.parameters():
        state, counts_on = optimizer.state[parameter], parameter.device if _counts_on_device(optimizer) else "cpu"
        for key in ("exp_avg", "exp_avg_sq") if adam else ("momentum_buffer",):
            found.append(state.setdefault(key, torch.zeros_like(parameter)))
        if adam:
            found.append(state.setdefault("step", torch.zeros((), dtype=torch.float32, device=counts_on)))
    return found


def load_state_tensors(optimizer: Optimizer, model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Restores what `state_tensors` gave."""
    for number, parameter in enumerate(model.parameters()):
        for name, key in STATES.items():
            if (tensor := tensors.get(f"{name}.{number}")) is not None:
                like = parameter if tensor.shape == parameter.shape else tensor
                on = parameter.device if tensor.shape == parameter.shape or _counts_on_device(optimizer) else "cpu"
                optimizer.state[parameter][key] = torch.empty_like(like, device=on).copy_(tensor)


def _counts_on_device(optimizer: Optimizer) -> bool:
    return bool(optimizer.defaults.get("capturable") or optimizer.defaults.get("fused"))
