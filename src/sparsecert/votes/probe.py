"""Checks before the first vote: does the model take ablated copies, and score each independently of its batch?"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from sparsecert.encodings import Encoding
from sparsecert.errors import InputError
from sparsecert.schemes import Scheme
from sparsecert.votes.eval_mode import in_eval_mode
from sparsecert.votes.memory import chunk_rows, counting_outputs
from sparsecert.votes.precision import autocast

Model = Callable[[torch.Tensor], torch.Tensor]

PROBE_ROWS = 8
UNSEEN = 64  # activations, in units of the input's size, assumed where modules cannot be hooked
TOO_LITTLE_MEMORY = "the device has too little memory for one ablated copy; use the CPU or a smaller model"
ROWS_INFLUENCE_EACH_OTHER = (
    "the model's scores for an input change with the rest of the batch, so no certificate can hold; use running "
    "statistics in batch norm, and pass the module itself so that it is put into eval mode"
)
ANSWERS_AT_RANDOM = (
    "the model answers at random: what is certified is the random classifier, and only if its chance is independent "
    "from copy to copy"
)

ONE_LOGIT = (
    "; one logit z for two classes is the scores (0, z): hand over a function that returns them, such as "
    "lambda copies: torch.nn.functional.pad(net(copies).reshape(-1, 1), (1, 0))"
)


def probe(
    model: Model,
    scheme: Scheme,
    encoding: Encoding,
    first: torch.Tensor,
    precision: str = "fp32",
    classes: int | None = None,
) -> tuple[int, int]:
    """Returns the number of classes and the rows that fit on the device at once; `first` is a batch of one input.

    Refuses a model whose rows influence each other: two small batches, run with the same seed, share their first copies
    and differ in the others. If the shared copies' scores differ, the model has no p_i(x) to bound (batch statistics,
    say). If they differ only under another seed, the model is random: p_i(x) then averages over its randomness as well
    as the masks', the theorems hold if that is independent from copy to copy, and a warning says so. This catches the
    usual mistakes but not every influence, so the guarantee names it as an assumption.
    """
    encoding.check_scheme(scheme)
    device = first.device
    draws = torch.arange(3 * PROBE_ROWS, device=device)
    black, white = torch.zeros_like(first), torch.ones_like(first)
    inputs = torch.cat((*[first] * 2 * PROBE_ROWS, *[black] * (PROBE_ROWS - 1), white))
    copies = encoding(inputs, scheme.masks_at(0, torch.zeros_like(draws), draws))
    one, other = copies[: 2 * PROBE_ROWS], torch.cat((copies[:PROBE_ROWS], copies[2 * PROBE_ROWS :]))

    def scores_of(copies: torch.Tensor, seed: int) -> torch.Tensor:
        if device.type == "cpu":  # torch.manual_seed would also queue the seed for every GPU, call by call
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)
        return _checked_scores(model, copies, precision, classes, lambda: _takes_plain(model, encoding, first))

    with in_eval_mode(model), torch.no_grad(), torch.random.fork_rng([device] if device.type == "cuda" else []):
        with counting_outputs(model) as seen:
            scores = scores_of(one, seed=0)
            activations = seen() or UNSEEN * one.nbytes
        if not _alike(scores[:PROBE_ROWS], scores_of(other, seed=0)[:PROBE_ROWS]):
            raise InputError(ROWS_INFLUENCE_EACH_OTHER)
        if not _alike(scores, scores_of(one, seed=1)):
            warnings.warn(ANSWERS_AT_RANDOM, stacklevel=2)
    encoded = (first.nbytes + scheme.units + copies[:1].nbytes) * 3  # with the temporaries of each
    return scores.shape[1], chunk_rows(activations // len(one) + encoded, device)


def _alike(scores: torch.Tensor, others: torch.Tensor) -> bool:
    """Equal up to rounding: batches of the same shape run the same instructions."""
    rounding = 1e-5 if scores.dtype in (torch.float32, torch.float64) else 1e-2
    scale = float(scores.double().nan_to_num(0, 0, 0).abs().median())
    return torch.allclose(scores.double(), others.double(), rtol=rounding, atol=rounding * scale, equal_nan=True)


def _checked_scores(
    model: Model, copies: torch.Tensor, precision: str, classes: int | None, otherwise: Callable[[], str]
) -> torch.Tensor:
    """The scores; refuses a model that does not take such copies or returns scores of the wrong shape or type.

    `otherwise` says what the user may have meant if it does not take them.
    """
    device = copies.device
    try:
        with autocast(device, precision):
            scores = model(copies)
    except torch.cuda.OutOfMemoryError as error:
        raise InputError(TOO_LITTLE_MEMORY) from error
    except Exception as error:
        shape, reason = tuple(copies.shape[1:]), (str(error).splitlines() or [type(error).__name__])[0]
        if precision != "fp32" and _takes(model, copies):
            where = f"{precision} on this device ({device.type})"
            raise InputError(f"the model cannot be computed in {where}: {reason}; use precision fp32") from error
        raise InputError(f"the model does not take ablated copies of shape {shape}: {reason}{otherwise()}") from error
    shape = tuple(scores.shape) if isinstance(scores, torch.Tensor) else ()
    if len(shape) != 2 or shape[0] != len(copies) or shape[1] < 2:
        found = shape or type(scores).__name__
        hint = "; flatten the copies first if it takes features" if len(shape) > 2 else hint_for(scores)
        hint = ONE_LOGIT if shape in ((len(copies),), (len(copies), 1)) else hint
        raise InputError(f"model must return scores of shape ({len(copies)}, classes), classes >= 2, got {found}{hint}")
    if scores.dtype == torch.bool or scores.is_complex():
        raise InputError(f"model must return scores that are real numbers, got {scores.dtype}")
    if classes is not None and shape[1] != classes:
        raise InputError(f"model returns scores for {shape[1]} classes, expected classes={classes}")
    return scores


def _takes_plain(model: Model, encoding: Encoding, first: torch.Tensor) -> str:
    """The remedy for a model that takes inputs as they are, where the encoding shows it more channels."""
    channels = first.shape[1] if first.ndim > 2 else 1
    seen = encoding.channels(channels)
    if seen == channels or not _takes(model, first.expand(2, *first.shape[1:])):
        return ""
    shown = f"; it takes {channels} channels, and {encoding} shows it {seen}"
    return (
        f"{shown}: widen its first layer (sparsecert.adapt) or use MeanFill(mean) (--encoding mean-fill), and train it "
        "on ablated copies; or put a restorer before it (sparsecert.restoring)"
    )


def _takes(model: Model, copies: torch.Tensor) -> bool:
    try:
        model(copies)
    except Exception:
        return False
    return True


def hint_for(returned: Any) -> str:
    """How to pass a model whose output contains the scores."""
    places: list[str] = []
    if hasattr(returned, "logits"):
        places = [".logits"]
    elif isinstance(returned, tuple | list | dict):
        parts = dict(enumerate(returned)) if isinstance(returned, tuple | list) else returned
        places = [f"[{key!r}]" for key, part in parts.items() if isinstance(part, torch.Tensor)]
    if places:
        return f"; hand over a function that returns them, such as lambda copies: net(copies){places[0]}"
    return "; make them a tensor with torch.as_tensor" if isinstance(returned, np.ndarray) else ""
