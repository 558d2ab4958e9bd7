"""The models of a study: loaded, or trained if missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from sparsecert import modelfile, records
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.records import find_records
from sparsecert.smoothed import Smoothed
from sparsecert.training import TrainingRun, train_many
from sparsecert.training.batches import Batches
from sparsecert.training.run import LOG_NAME, check_same_run
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.study import Study

CERTIFY, PREDICT = "certify", "predict"
BASE_NAME, TRAINING_SET_NAME = "base.json", "training-set.json"
SMALL = "mnist-cnn", "digits-cnn"  # one of them leaves most of a GPU idle

Spec = TypeVar("Spec", bound=ModelSpec)


def batches(study: Study, specs: Sequence[Spec]) -> list[list[Spec]]:
    """The models in the groups that are trained together: small ones on a GPU all at once, others one by one."""
    small = all(study.recipe_of(spec).model in SMALL for spec in specs)
    return [list(specs)] if specs and small and study.device.startswith("cuda") else [[spec] for spec in specs]


def train(study: Study, specs: Sequence[ModelSpec]) -> None:
    """Trains the missing ones of these models, all of one recipe, together."""
    missing = [spec for spec in specs if not is_trained(study, spec)]
    if not missing:
        return
    data, device = study.training, torch.device(study.device)
    _note_training_set(study, data)
    shared = Batches(data, study.recipe_of(missing[0]), study.seed, device)
    runs: list[tuple[TrainingRun, str | Path]] = []
    for spec in missing:
        recipe = study.recipe_of(spec)
        scheme, encoding = spec.scheme(data.images.shape), spec.encoder(data, recipe)
        runs.append((TrainingRun(data, recipe, scheme, encoding, study.seed, device, shared), study.folder(spec)))
    name = missing[0].folder if len(missing) == 1 else f"{len(missing)} models"
    with study.progress.training(f"training {name}") as on_progress:
        train_many(runs, checkpoint_seconds=study.checkpoint_seconds, half=True, on_progress=on_progress)


def load(study: Study, spec: ModelSpec) -> Smoothed:
    """The model, trained if it is missing."""
    refuse_orphans(study, spec)
    train(study, [spec])
    return Smoothed.load(study.folder(spec), device=study.device, precision=study.precision)


def is_trained(study: Study, spec: ModelSpec) -> bool:
    """Whether the model file exists; refuses one whose header or log states other settings."""
    folder = study.folder(spec)
    path, log = folder / modelfile.MODEL_NAME, find_records(folder / LOG_NAME)
    if path.exists():
        found = modelfile.read_header(path).get("facts", {}).get("training", {}).get("settings", {})
        check_same_run(path, found, {"recipe": study.recipe_of(spec).to_dict(), "seed": study.seed})
        return True
    if log is not None and _has_records(folder):
        epochs, wanted = records.read_bytes(log).count(b"\n"), study.recipe_of(spec).epochs
        if epochs != wanted:
            raise InputError(f"{log} is of {epochs} epochs, not {wanted}; name another --out folder")
    return False


def fingerprint(study: Study, spec: ModelSpec) -> str | None:
    """The SHA-256 of the model file, if it exists."""
    return modelfile.fingerprint(study.folder(spec)) if is_trained(study, spec) else None


def refuse_orphans(study: Study, spec: ModelSpec) -> None:
    """Refuses to train a model that already has records: retrained, it would be a different one."""
    if not is_trained(study, spec) and _has_records(study.folder(spec)):
        raise InputError(f"{study.folder(spec)} holds records but not their model; name another --out folder")


def _has_records(folder: Path) -> bool:
    """Whether the folder holds any records, complete or not."""
    return any(path for name in (f"{CERTIFY}*.jsonl*", f"{PREDICT}*.jsonl*", BASE_NAME) for path in folder.glob(name))


def training_set(study: Study) -> dict[str, Any] | None:
    """What the models were trained on, if that is known: images, classes and fingerprint."""
    path = study.data_folder / TRAINING_SET_NAME
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text())
        numbers = {name: int(found[name]) for name in ("images", "classes")}
        return {**numbers, "fingerprint": found["fingerprint"]}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error


def _note_training_set(study: Study, data: Dataset) -> None:
    """Records what the models are trained on, for the tables' notes; refuses a second training set."""
    path = study.data_folder / TRAINING_SET_NAME
    facts = {"images": len(data), "classes": len(data.classes), "fingerprint": data.fingerprint()}
    if not path.is_file():
        write_atomically(path, (json.dumps(facts) + "\n").encode())
    elif training_set(study) != facts:
        raise InputError(f"{path} is of another training set; name another --out folder")
