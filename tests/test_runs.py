"""Whole runs over a data set: resumed to the same content, whatever happened in between."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert import datasets, models
from sparsecert.encodings import NullChannels
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.records import read
from sparsecert.runs import RandomSample, certify_dataset, load_batch, predict_dataset
from sparsecert.runs.groups import prefetch
from sparsecert.runs.run_spec import Group
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from tests.commands import command, sparsecert
from tests.helpers import has_lines, untimed, wait_until, write_photographs

SMALL = {"n0": 20, "n": 100, "limit": 12}


def _certify(trained: Path, out: Path, **changes: Any) -> None:
    certify_dataset(Smoothed.load(trained), trained, datasets.load("digits"), out, **{**SMALL, **changes})


def test_records_are_what_smoothed_returns(trained: Path, tmp_path: Path) -> None:
    data, g = datasets.load("digits"), Smoothed.load(trained)
    _certify(trained, tmp_path / "c.jsonl", seed=3)
    predict_dataset(g, trained, data, tmp_path / "p.jsonl", n=100, seed=3, limit=12)
    indices = data.spaced_indices(12).tolist()
    c = Smoothed.load(trained).certify(load_batch(data, indices), n0=20, n=100, seed=3, examples=indices)
    p = Smoothed.load(trained).predict(load_batch(data, indices), n=100, seed=3, examples=indices)
    found = read(tmp_path / "c.jsonl")
    assert [line.example for line in found.lines] == indices
    assert [line.true for line in found.lines] == data.labels[indices].tolist()
    assert [line.radius for line in found.lines] == [certificate.radius for certificate in c]
    assert [line.p_lower for line in found.lines] == c.p_lower.tolist()
    assert [list(line.votes.votes) for line in found.lines] == c.counts.tolist()
    assert [list(line.selection.votes) for line in found.lines if line.selection] == c.selection.votes.tolist()
    assert [line.label for line in read(tmp_path / "p.jsonl").lines] == list(p.answers)
    assert found.header.run["data"]["fingerprint"] == data.fingerprint()
    assert found.header.run["data"]["inputs"] == 12


def test_a_random_subset_is_drawn_once_and_for_all(trained: Path, tmp_path: Path) -> None:
    """Its inputs and votes are those of a run over all of them; the run it belongs to is refused any other choice."""
    data, out = datasets.load("digits"), tmp_path / "c.jsonl"
    _certify(trained, out, limit=RandomSample(12, seed=3))
    found = read(out)
    assert (
        [line.example for line in found.lines]
        == data.random_indices(12, 3).tolist()
        != data.spaced_indices(12).tolist()
    )
    assert found.header.run["chosen"] == {"kind": "random", "seed": 3}
    assert (found.header.run["data"]["inputs"], found.header.run["data"]["of"]) == (12, 500)
    whole = Smoothed.load(trained).certify(load_batch(data, range(500)), n0=20, n=100)
    assert [list(line.votes.votes) for line in found.lines] == [
        whole.counts[line.example].tolist() for line in found.lines
    ]
    before = out.read_bytes()
    for limit, message in (
        (12, "chosen is .* there, null here"),
        (RandomSample(12, seed=4), r"chosen\.seed is 3 there, 4 here"),
    ):
        with pytest.raises(InputError, match=message):
            _certify(trained, out, limit=limit)
    assert out.read_bytes() == before
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(before[: int(len(before) * 0.6)])
    _certify(trained, cut, limit=RandomSample(12, seed=3))
    assert untimed(cut) == untimed(out)


def test_a_random_subset_of_everything_is_everything(trained: Path, tmp_path: Path) -> None:
    predict_dataset(
        Smoothed.load(trained), trained, datasets.load("digits"), tmp_path / "p.jsonl", n=5, limit=RandomSample(900, 1)
    )
    found = read(tmp_path / "p.jsonl")
    assert "chosen" not in found.header.run
    assert len(found.lines) == 500


@pytest.mark.parametrize("rows", [7, 64, 250])
def test_a_run_cut_anywhere_ends_with_the_same_content(trained: Path, tmp_path: Path, rows: int) -> None:
    """Also inside a group of inputs that share their batches, and with another free memory the second time."""
    whole = tmp_path / "whole.jsonl"

    smoothed = Smoothed.load(trained)
    smoothed.rows = rows
    certify_dataset(smoothed, trained, datasets.load("digits"), whole, **SMALL)
    data = whole.read_bytes()
    for share in (0.3, 0.55, 0.8):
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(data[: int(len(data) * share)])
        _certify(trained, cut)
        assert untimed(cut) == untimed(whole)


def test_a_resumed_run_puts_the_same_copies_into_the_same_batches(trained: Path, tmp_path: Path) -> None:
    """A group of inputs that is half recorded is computed whole: rounding may depend on what shares a batch."""

    def certify(out: Path) -> list[torch.Tensor]:
        smoothed, seen = Smoothed.load(trained), []
        smoothed.rows = 32  # two inputs of 100 copies to a group of eight passes
        assert isinstance(smoothed.model, torch.nn.Module)
        smoothed.model.register_forward_pre_hook(lambda _module, inputs: seen.append(inputs[0].clone()))
        certify_dataset(smoothed, trained, datasets.load("digits"), out, **SMALL)
        assert smoothed.rows == 32
        return [copies for copies in seen if len(copies) > 20]

    whole = certify(tmp_path / "c.jsonl")
    lines = (tmp_path / "c.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "c.jsonl").write_bytes(b"".join(lines[:-1]))
    again = certify(tmp_path / "c.jsonl")
    assert 0 < len(again) < len(whole)
    assert all(torch.equal(a, b) for a, b in zip(again, whole[-len(again) :], strict=True))


def test_inputs_of_another_run_are_refused(trained: Path, tmp_path: Path) -> None:
    _certify(trained, tmp_path / "c.jsonl")
    lines = (tmp_path / "c.jsonl").read_text().splitlines(keepends=True)
    stray = lines[-1].replace(f'"example": {json.loads(lines[-1])["example"]}', '"example": 499')
    (tmp_path / "c.jsonl").write_text("".join([*lines[:-1], stray]))
    with pytest.raises(InputError, match="holds inputs that are not of this run"):
        _certify(trained, tmp_path / "c.jsonl")


def test_numpy_numbers_are_recorded_as_numbers(trained: Path, tmp_path: Path) -> None:
    _certify(trained, tmp_path / "c.jsonl", n=np.int64(100), seed=np.int64(2), alpha=np.float64(0.05))
    assert read(tmp_path / "c.jsonl").header.run["seed"] == 2


def test_progress_adds_up_on_a_fresh_and_on_a_resumed_run(trained: Path, tmp_path: Path) -> None:
    for _ in range(2):
        reported: list[tuple[int, int]] = []
        _certify(
            trained,
            tmp_path / "c.jsonl",
            on_progress=lambda inputs, copies, reported=reported: reported.append((inputs, copies)),
        )
        assert sum(inputs for inputs, _ in reported) == 12
        copies = sum(copies for _, copies in reported)
        assert copies in (0, 12 * 120)
    assert copies == 0


def test_a_run_with_other_settings_is_refused(trained: Path, tmp_path: Path) -> None:
    _certify(trained, tmp_path / "c.jsonl")
    for changes in (
        {"seed": 1},
        {"n": 50},
        {"alpha": 0.01},
        {"procedure": Fixed(20, 100, "one-sided"), "n0": None, "n": None},
        {"limit": 5},
    ):
        with pytest.raises(InputError, match="holds another run"):
            _certify(trained, tmp_path / "c.jsonl", **changes)


def test_a_model_with_the_wrong_number_of_classes_is_refused(trained: Path, tmp_path: Path) -> None:
    smoothed = Smoothed.load(trained)
    smoothed.classes = 7
    with pytest.raises(InputError, match="the model has 7 classes, digits has 10"):
        certify_dataset(smoothed, trained, datasets.load("digits"), tmp_path / "c.jsonl", **SMALL)
    assert not (tmp_path / "c.jsonl").exists()


def test_a_model_with_more_outputs_than_classes_is_refused(tmp_path: Path) -> None:
    """Saved without saying its classes, as a user's own model may be: found out before a line is written."""
    smoothed = Smoothed(models.build("digits-cnn", 2, 12), Uniform(64, 10))
    smoothed.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match="model returns scores for 12 classes, expected classes=10"):
        certify_dataset(smoothed, tmp_path / "m.safetensors", datasets.load("digits"), tmp_path / "c.jsonl", **SMALL)
    assert not (tmp_path / "c.jsonl").exists()


def test_other_class_names_are_refused(trained: Path, tmp_path: Path) -> None:
    data = datasets.load("digits")
    shuffled = replace(data, classes=tuple(reversed(data.classes)))
    with pytest.raises(
        InputError,
        match="class 0 of the model is '0', that of digits is '9'; give",
    ):
        certify_dataset(Smoothed.load(trained), trained, shuffled, tmp_path / "c.jsonl", **SMALL)


def test_rows_other_than_those_the_run_was_begun_with_are_refused(trained: Path, tmp_path: Path) -> None:
    smoothed = Smoothed.load(trained)
    smoothed.rows = 32
    for rows in (32, None, 32):
        smoothed.rows = rows
        certify_dataset(smoothed, trained, datasets.load("digits"), tmp_path / "c.jsonl", **SMALL)
    smoothed.rows = 16
    with pytest.raises(InputError, match="was started with rows 32, not 16"):
        certify_dataset(smoothed, trained, datasets.load("digits"), tmp_path / "c.jsonl", **SMALL)


def _arguments(trained: Path, out: Path, n: int) -> list[object]:
    settings = ["--data", "digits", "--limit", 40, "--n0", 200, "--n", n, "--rows", 128, "--out", out]
    return ["certify", trained, *settings, "--device", "cpu"]


def test_a_run_killed_by_sigkill_ends_with_the_same_content(trained: Path, tmp_path: Path) -> None:
    killed, straight = tmp_path / "killed.jsonl", tmp_path / "straight.jsonl"
    starting = command(*_arguments(trained, killed, 1_000))
    process = subprocess.Popen(starting, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: has_lines(killed, 5))
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert 5 <= killed.read_bytes().count(b"\n") < 41
    for out in (killed, straight):
        assert sparsecert(*_arguments(trained, out, 1_000)).returncode == 0
    assert untimed(killed) == untimed(straight)


def test_a_full_disk_ends_in_one_line_and_loses_nothing(trained: Path, tmp_path: Path) -> None:
    """The system's own limit on a file's size stands in for the disk's."""
    out = tmp_path / "c.jsonl"
    limit = 4_000

    def small_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    arguments = _arguments(trained, out, 300)
    done = subprocess.run(command(*arguments), preexec_fn=small_disk, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"Error: {out} cannot be written")
    assert "inputs are recorded; make room and run the same command again" in last
    assert "Traceback" not in done.stderr
    kept = len(read(out).lines)
    assert 0 < kept < 40
    assert out.stat().st_size <= limit
    assert sparsecert(*arguments).returncode == 0
    assert len(read(out).lines) == 40


def test_pixels_are_between_0_and_1() -> None:
    batch = load_batch(datasets.load("digits"), [0, 1, 2])
    assert batch.dtype == torch.float32
    assert batch.min() == 0
    assert batch.max() == 1


def test_a_folder_with_bad_files_skipped_is_certified_as_one_that_never_had_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparsecert.datasets import folder
    from sparsecert.datasets.bad_files import drop_bad_files

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_photographs(tmp_path / "photos" / "val", 6, (8, 8))
    bad = tmp_path / "photos" / "val" / "class0" / "1.png"
    bad.write_bytes(b"no image")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6 * 64, 2))
    smoothed = Smoothed(net, Uniform(units=64, keep=16), NullChannels(), classes=2)
    smoothed.save(tmp_path / "model.safetensors")
    settings: dict[str, Any] = {"n0": 20, "n": 100}
    found = {}
    for name in ("skipped", "removed"):
        data = drop_bad_files(folder.load(tmp_path / "photos", "test", size=8))
        certify_dataset(smoothed, tmp_path / "model.safetensors", data, tmp_path / f"{name}.jsonl", **settings)
        found[name] = untimed(tmp_path / f"{name}.jsonl")
        bad.unlink(missing_ok=True)
    assert len(found["skipped"]) == 1 + 6
    assert found["skipped"][0]["run"]["data"].pop("skipped") == 1
    assert found["skipped"] == found["removed"]


def test_groups_are_made_one_ahead_and_in_order() -> None:
    made: list[int] = []

    def groups() -> Iterator[Group]:
        for i in range(4):
            made.append(i)
            yield Group(torch.zeros(1), [i], [0])
        raise InputError("the fifth cannot be made")

    coming = prefetch(groups())
    taken = []
    for _ in range(4):
        taken += next(coming).examples
        assert len(made) <= len(taken) + 1
    with pytest.raises(InputError, match="the fifth cannot be made"):
        next(coming)
    assert taken == made == [0, 1, 2, 3]
