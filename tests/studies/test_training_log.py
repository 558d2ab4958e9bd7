"""What a training log says of how long a model was trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparsecert.errors import InputError
from studies.levine_feizi_2020 import Study
from studies.levine_feizi_2020.training_log import trained_by, training_log


def _logged(out: Path, keep: int, epochs: int) -> None:
    folder = out / "mnist" / f"k{keep}"
    folder.mkdir(parents=True)
    lines = (json.dumps({"epoch": 1 + at, "accuracy": 0.5, "seconds": 2.0}) for at in range(epochs))
    (folder / "training.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_epochs_are_those_of_the_logs_whatever_the_study_asks_for(tmp_path: Path) -> None:
    for keep, epochs in ((10, 7), (20, 7), (30, 3)):
        _logged(tmp_path, keep, epochs)
    study = Study(tmp_path, epochs=50)
    specs = {keep: study.spec(keep) for keep in (10, 20, 30, 40)}
    assert trained_by(study, [specs[10], specs[20]]) == "trained by the recipe paper-mnist (7 epochs)"
    assert trained_by(study, [specs[10], specs[30]]) == "trained by the recipe paper-mnist (3 or 7 epochs)"
    assert trained_by(study, [specs[40]]) == "trained by the recipe paper-mnist (50 epochs)"  # to be trained
    log = training_log(study, specs[30])
    assert log is not None
    assert (log.epochs, log.accuracy, log.seconds) == (3, 0.5, 6.0)


def test_a_damaged_log_is_named(tmp_path: Path) -> None:
    _logged(tmp_path, 10, 2)
    path = tmp_path / "mnist" / "k10" / "training.jsonl"
    path.write_text(path.read_text() + "{")
    with pytest.raises(InputError, match=r"training.jsonl is damaged"):
        trained_by(Study(tmp_path), [Study(tmp_path).spec(10)])
