"""Training logs: one line per epoch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sparsecert import records
from sparsecert.errors import InputError
from sparsecert.records import find_records
from sparsecert.training.run import LOG_NAME
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.study import Study


@dataclass(frozen=True)
class TrainingLog:
    """Epochs, the running accuracy of the last one, and the seconds of all (None if a line lacks them).

    The running accuracy is over the epoch's ablated and augmented inputs, each with the weights at its step.
    """

    epochs: int
    accuracy: float
    seconds: float | None


def training_log(study: Study, spec: ModelSpec) -> TrainingLog | None:
    """The model's log, plain or compressed, if there is one."""
    path = find_records(study.folder(spec) / LOG_NAME)
    if path is None:
        return None
    try:
        lines = [json.loads(line) for line in records.read_bytes(path).splitlines()]
        seconds = [line.get("seconds") for line in lines]
        total = None if None in seconds else float(sum(seconds))
        return TrainingLog(len(lines), float(lines[-1]["accuracy"]), total)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error!r}); name another --out folder") from error


def trained_by(study: Study, specs: Sequence[ModelSpec]) -> str:
    """The recipe of these models and their epochs in words, as their logs say.

    A model without a log counts with the epochs the study would train it for.
    """
    recipe = study.recipe_of(specs[0])
    logs = (training_log(study, spec) for spec in specs)
    epochs = sorted({recipe.epochs if log is None else log.epochs for log in logs})
    return f"trained by the recipe {recipe.name} ({' or '.join(map(str, epochs))} epochs)"


def duration(seconds: float | None) -> str:
    """A time in seconds, minutes or hours."""
    if seconds is None:
        return "-"
    minutes = round(seconds / 60)
    if minutes < 1:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
