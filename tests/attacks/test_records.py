"""Attack runs: recorded, resumed to the same results; the adversarial images are restored bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert import datasets
from sparsecert.attacks import ATTACKS, Attack, Judge, Network, Pointwise, SmoothedDefender, SparseRS, UniformNoise
from sparsecert.attacks import attack_named as named
from sparsecert.attacks.attack import config_of
from sparsecert.attacks.judge import NOT_FOUND, changed_pixels
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.records import ATTACK, AttackRecord, AttackRecords, Header, Writer, kind_of, read, read_attack
from sparsecert.reports import summarise_attack
from sparsecert.runs import (
    AllMasksTarget,
    PlainTarget,
    RandomSample,
    SmoothedTarget,
    adversarial_images,
    attack_dataset,
    load_batch,
)
from sparsecert.runs.attacks import group_seed, group_size
from sparsecert.schemes import Lattice
from sparsecert.smoothed import Smoothed
from tests.helpers import untimed

from .linear import Linear

CPU = torch.device("cpu")


def _data(count: int = 12, channels: int = 3, size: int = 6) -> Dataset:
    """Noise in two classes, labelled as `_linear` answers it."""
    images = np.random.default_rng(0).integers(0, 256, (count, channels, size, size), dtype=np.uint8)
    labels = _linear(torch.from_numpy(images).float() / 255).argmax(dim=1).numpy()
    none, one = (0.0,) * channels, (1.0,) * channels
    return Dataset("made", "test", ArrayImages(images), labels, ("a", "b"), none, one)


def _linear(images: torch.Tensor) -> torch.Tensor:
    weights = torch.randn(images.shape[1:], generator=torch.Generator().manual_seed(1))
    return Linear(weights, -float(weights.sum() / 2))(images)


def _plain(model: Callable[[torch.Tensor], torch.Tensor] = _linear) -> PlainTarget:
    return PlainTarget(Network(model), "linear", "ab" * 32, CPU)


def _attack(out: Path, attack: Attack | None = None, **changes: Any) -> AttackRecords:
    settings = {"group": 4, "seed": 3, **changes}
    target, data = settings.pop("target", _plain()), settings.pop("data", _data())
    attack_dataset(target, attack or UniformNoise(restarts=3), data, out, **settings)
    return read_attack(out)


class Mine(Attack):
    """An attack of a user's own."""

    def run(self, judge: Judge, which: torch.Tensor, generator: torch.Generator) -> None:
        """None."""


def test_attacks_by_name() -> None:
    black_box, by_gradients = {"pointwise", "sparse-rs", "noise"}, {"saliency", "jsma", "carlini-wagner", "sigma-zero"}
    assert {*ATTACKS} == black_box | by_gradients | {"sparse-pgd", "sparse-autoattack", "ensemble", "word-substitution"}
    assert named("pointwise", restarts=3) == Pointwise(restarts=3)
    assert named("sparse-rs", restarts=None, steps=7) == SparseRS(steps=7)
    assert config_of(named("noise")) == {"name": "noise", "restarts": 10}
    for name, wanted in ATTACKS.items():
        assert type(named(name)) is wanted
        assert set(config_of(named(name))) == {"name", *(field.name for field in fields(wanted))}  # type: ignore[arg-type]
    with pytest.raises(InputError, match="attack must be one of carlini-wagner"):
        named("pointless")
    with pytest.raises(InputError, match="restarts is no setting of the jsma attack, which has most; leave it out"):
        named("jsma", restarts=3)
    with pytest.raises(InputError, match="Mine must be a dataclass, so that its settings can be recorded"):
        config_of(Mine())
    with pytest.raises(InputError, match="restarts must be a whole number between 1"):
        named("noise", restarts=0)


def test_records_are_what_the_attack_returns(tmp_path: Path) -> None:
    """Group by group, with the seed of each; the original and the changes are the adversarial image bit for bit."""
    data, target = _data(), _plain()
    found = _attack(tmp_path / "a.jsonl", limit=10)
    assert kind_of(found.path) == "attack"
    indices = data.spaced_indices(10).tolist()
    assert [line.example for line in found.lines] == indices
    rebuilt, lines = adversarial_images(found, data), list(found.lines)
    assert rebuilt.dtype == torch.float32
    for number, start in enumerate(range(0, 10, 4)):
        part = indices[start : start + 4]
        images, labels = load_batch(data, part), torch.from_numpy(data.labels[part])
        outcome = UniformNoise(restarts=3)(target.defender, images, labels, seed=group_seed(3, number))
        assert torch.equal(rebuilt[start : start + 4].view(torch.int32), outcome.adversarial.view(torch.int32))
        for row, line in enumerate(lines[start : start + 4]):
            assert (NOT_FOUND if line.distance is None else line.distance) == int(outcome.distances[row])
            assert (line.queries, line.evaluations) == (int(outcome.queries[row]), int(outcome.evaluations[row]))
            assert (line.true, line.answer) == (int(labels[row]), int(outcome.answers[row]))
    assert {line.distance is None for line in lines} == {True, False}
    assert changed_pixels(rebuilt, load_batch(data, indices)).sum(dim=1).tolist() == [
        line.distance or 0 for line in lines
    ]
    fooled = target.defender.answers(rebuilt).labels != torch.from_numpy(data.labels[indices])
    assert fooled.tolist() == [line.distance is not None for line in lines]
    run = found.header.run
    assert run["attack"] == {"name": "noise", "restarts": 3}
    assert (run["seed"], run["group"], run["budget"], run["bounds"]) == (3, 4, None, [0, 1])
    assert run["data"]["fingerprint"] == data.fingerprint()
    assert "scheme" not in run


def test_images_of_other_data_are_not_rebuilt(tmp_path: Path) -> None:
    found = _attack(tmp_path / "a.jsonl", limit=2)
    with pytest.raises(InputError, match="is of other data than made test"):
        adversarial_images(found, _data(count=11))


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5, 0.9])
def test_a_run_cut_anywhere_ends_with_the_same_content(tmp_path: Path, share: float) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    _attack(whole)
    data = whole.read_bytes()
    cut.write_bytes(data[: int(len(data) * share)])
    reported: list[tuple[int, int]] = []
    _attack(cut, on_progress=lambda images, evaluations: reported.append((images, evaluations)))
    assert untimed(cut) == untimed(whole)
    assert sum(images for images, _ in reported) == 12
    assert sum(evaluations for _, evaluations in reported) > 0
    before = cut.read_bytes()
    _attack(cut)
    assert cut.read_bytes() == before


def test_a_smoothed_classifier_is_attacked_and_resumed(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searched with common masks, judged by fresh ones; a run cut within a group ends as one that was not."""
    data, target = datasets.load("digits"), SmoothedTarget(Smoothed.load(trained), trained, n=60)
    judged: list[int] = []
    answers = SmoothedDefender.answers

    def watched(self: SmoothedDefender, images: torch.Tensor, *more: Any, **named: Any) -> Any:
        judged.append(len(images))
        return answers(self, images, *more, **named)

    monkeypatch.setattr(SmoothedDefender, "answers", watched)
    settings: dict[str, Any] = {"target": target, "data": data, "limit": RandomSample(5, seed=1), "group": 2}
    found = _attack(tmp_path / "whole.jsonl", UniformNoise(restarts=1), **settings)
    assert judged
    run = found.header.run
    assert (run["n"], run["alpha"], run["masks"], run["error"]) == (60, 0.05, "common", 0.05)
    assert run["scheme"] == {"kind": "uniform", "units": 64, "keep": 16}
    assert run["chosen"] == {"kind": "random", "seed": 1}
    assert target.smoothed.rows is None
    lines = found.path.read_bytes().splitlines(keepends=True)
    (tmp_path / "cut.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:30])
    again = _attack(tmp_path / "cut.jsonl", UniformNoise(restarts=1), **settings)
    assert untimed(again.path) == untimed(found.path)
    full = replace(target, full=True)
    search, last_word = full.defenders(0)
    assert search is last_word  # asked again about what it found, with masks that go on from those of the search
    whole = _attack(tmp_path / "full.jsonl", UniformNoise(restarts=1), **{**settings, "target": full})
    assert (whole.header.run["masks"], whole.header.run["error"]) == ("fresh", None)
    assert all(line.evaluations == 60 * line.queries for line in whole.lines)


def test_a_run_with_other_settings_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "a.jsonl"
    _attack(out)
    before = out.read_bytes()
    for changes, message in (
        ({"seed": 1}, "seed is 3 there, 1 here"),
        ({"group": 2}, "group is 4 there, 2 here"),
        ({"budget": 5}, "budget is null there, 5 here"),
        ({"attack": UniformNoise(restarts=2)}, r"attack\.restarts is 3 there, 2 here"),
        ({"target": PlainTarget(Network(_linear), "linear", "cd" * 32, CPU)}, r"model\.\w+ is"),
        ({"data": _data(11)}, r"data\.\w+ is"),
    ):
        with pytest.raises(InputError, match=f"holds another run: {message}"):
            _attack(out, **changes)
    assert out.read_bytes() == before


@pytest.mark.parametrize(("recorded", "named"), [(None, "a version before 1"), (1, "version 1")])
def test_what_another_version_of_the_attack_began_is_read_but_not_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: int | None, named: str
) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    assert _attack(whole).header.environment["attack_version"] == 1
    header, *lines = whole.read_text().splitlines()
    older = json.loads(header)
    if recorded is None:
        del older["environment"]["attack_version"]
    whole.write_text("\n".join([json.dumps(older), *lines, ""]))
    cut.write_text("\n".join([json.dumps(older), *lines[:5], ""]))
    before = cut.read_bytes()
    monkeypatch.setattr(UniformNoise, "version", 2)
    message = f"cut.jsonl was started with {named} of the noise attack, this is version 2; results of two versions"
    with pytest.raises(InputError, match=f"{message} cannot be mixed; name another file"):
        _attack(cut)
    assert cut.read_bytes() == before
    assert summarise_attack(read_attack(cut)).attacked == 5
    before = whole.read_bytes()
    assert len(_attack(whole).lines) == 12  # nothing is missing, so nothing is mixed
    assert whole.read_bytes() == before


def test_a_file_has_one_writer_and_votes_are_not_findings(tmp_path: Path) -> None:
    found = _attack(tmp_path / "a.jsonl", limit=4)
    with Writer(found.path, found.header), pytest.raises(InputError, match="is being written by another run"):
        _attack(found.path, limit=4)
    with pytest.raises(InputError, match="holds attack records, not votes"):
        read(found.path)
    votes = Header("predict", {"classes": 2, "n": 5, "data": {"of": 1, "inputs": 1}}, {})
    with Writer(tmp_path / "p.jsonl", votes):
        pass
    with pytest.raises(InputError, match="holds predict records; name one of `sparsecert attack`"):
        read_attack(tmp_path / "p.jsonl")


def test_unusable_settings_are_refused_before_a_file_is_written(trained: Path, tmp_path: Path) -> None:
    smoothed = SmoothedTarget(Smoothed.load(trained), trained)
    digits = {"data": datasets.load("digits")}
    for changes, message in (
        ({"budget": 0}, "budget must be a whole number between 1 and the 36 pixels"),
        ({"budget": 37}, "budget must be"),
        ({"group": 0}, "group must be a whole number between 1"),
        ({"seed": -1}, "seed must be"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"target": replace(smoothed, n=0), **digits}, "n must be a whole number"),
        ({"target": replace(smoothed, n=10**11), **digits}, "n must be .* and 1048576 where all queries have the same"),
        ({"target": replace(smoothed, alpha=1.0), **digits}, "alpha must be between"),
        ({"target": replace(smoothed, error=-1.0), **digits}, "error must be"),
        ({"target": smoothed}, "the model has 10 classes, made has 2"),
        ({"target": _plain(lambda images: torch.zeros(len(images), 7))}, "the model has 7 classes, made has 2"),
    ):
        with pytest.raises(InputError, match=message):
            _attack(tmp_path / "a.jsonl", **changes)
    assert not any(tmp_path.iterdir())


def test_an_image_that_the_model_fails_on_is_recorded_and_the_others_go_on(tmp_path: Path) -> None:
    """One image makes the model raise, another gives scores that are not finite; both are found out alone."""
    data = _data()
    bad, odd = load_batch(data, [5, 10])

    def brittle(images: torch.Tensor) -> torch.Tensor:
        if (images == bad).flatten(1).all(dim=1).any():
            raise RuntimeError("no such\nimage")
        scores = _linear(images)
        scores[(images == odd).flatten(1).all(dim=1)] = float("nan")
        return scores

    found = _attack(tmp_path / "a.jsonl", target=_plain(brittle))
    reasons = {line.example: line.failed for line in found.lines if line.failed is not None}
    assert reasons == {5: "RuntimeError: no such image", 10: "the model's scores for the image are not finite"}
    assert sum(line.distance is not None for line in found.lines) == 10
    assert torch.equal(adversarial_images(found, data)[5], bad)
    sound = {line.example: line for line in _attack(tmp_path / "b.jsonl").lines}
    assert {e: replace(line, seconds=0) for e, line in sound.items() if e < 4} == {
        line.example: replace(line, seconds=0) for line in found.lines if line.example < 4
    }
    assert len(untimed(tmp_path / "a.jsonl")) == 13


def test_a_fault_that_all_images_share_is_no_finding(tmp_path: Path) -> None:
    def broken(images: torch.Tensor) -> torch.Tensor:
        if len(images) == 1 and not images.requires_grad and broken.looked < 1:  # type: ignore[attr-defined]
            broken.looked += 1  # type: ignore[attr-defined]
            return _linear(images)
        raise RuntimeError("always")

    broken.looked = 0  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="always"):
        _attack(tmp_path / "a.jsonl", target=_plain(broken))
    assert len(read_attack(tmp_path / "a.jsonl").lines) == 0


def test_in_a_group_of_one_a_fault_of_the_model_is_distinguished_from_one_of_the_image(tmp_path: Path) -> None:
    data = _data()
    bad, asked = load_batch(data, [5]), 0

    def brittle(images: torch.Tensor) -> torch.Tensor:
        if (images == bad).flatten(1).all(dim=1).any():
            raise RuntimeError("no such image")
        return _linear(images)

    found = _attack(tmp_path / "a.jsonl", target=_plain(brittle), group=1)
    assert [line.example for line in found.lines if line.failed] == [5]

    def gone(images: torch.Tensor) -> torch.Tensor:
        nonlocal asked
        asked += 1
        if asked > 60:
            raise RuntimeError("the device is gone")
        return _linear(images)

    with pytest.raises(RuntimeError, match="the device is gone"):
        _attack(tmp_path / "b.jsonl", target=_plain(gone), group=1)
    kept = read_attack(tmp_path / "b.jsonl").lines
    assert 0 < len(kept) < 12
    assert all(line.failed is None for line in kept)


@pytest.mark.parametrize(
    "changes", [{"bounds": [0.0]}, {"bounds": None}, {"budget": 0}, {"data": {"of": 9, "inputs": 4}}]
)
def test_a_header_without_what_attack_records_are_checked_against_is_damaged(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    (tmp_path / "a.jsonl").write_text(Header(ATTACK, {**RUN, **changes}, {}).to_json() + "\n")
    with pytest.raises(InputError, match="has a damaged header"):
        read_attack(tmp_path / "a.jsonl")


@pytest.mark.parametrize(("group", "remedy"), [(4, "4 images at once; use a smaller group"), (1, "or the CPU")])
def test_too_little_memory_is_no_fault_of_an_image(tmp_path: Path, group: int, remedy: str) -> None:
    def large(images: torch.Tensor) -> torch.Tensor:
        if len(images) == 3 * group:
            raise torch.cuda.OutOfMemoryError("no more")
        return _linear(images)

    with pytest.raises(InputError, match=f"the device has too little memory .*{remedy}"):
        _attack(tmp_path / "a.jsonl", target=_plain(large), group=group)
    assert len(read_attack(tmp_path / "a.jsonl").lines) == 0


def test_a_budget_is_kept(tmp_path: Path) -> None:
    lines = list(_attack(tmp_path / "a.jsonl", Pointwise(restarts=2), budget=2).lines)
    assert all(line.distance is None or line.distance <= 2 for line in lines)
    assert {line.answer == line.true for line in lines if line.distance is None} <= {True}
    assert all(line.pixels == () for line in lines if line.distance is None)


def test_groups_are_sized_by_what_a_line_of_attempts_takes(trained: Path) -> None:
    plain, smoothed = _plain(), SmoothedTarget(Smoothed.load(trained), trained)
    assert group_size(plain, 10, (1, 28, 28), 10) == 64
    assert group_size(smoothed, 10, (1, 28, 28), 10) == 4
    few = AllMasksTarget(Smoothed(torch.nn.Flatten(), Lattice(28, 28, 28)), "lattice", "pairwise")
    assert group_size(few, 10, (1, 28, 28), 10) == 16
    for restarts in (1, 10, 1000):
        lines = group_size(plain, restarts, (3, 224, 224), 10) * restarts
        assert lines == restarts or lines * 3 * 224 * 224 * 256 <= 1 << 30
    assert group_size(plain, 10**6, (3, 224, 224), 10) == 1


RUN = {
    "classes": 3,
    "bounds": [0.0, 1.0],
    "budget": 3,
    "data": {"of": 9, "inputs": 4, "shape": [2, 2, 3]},
}
GOOD = AttackRecord(0, 1, 2, None, 7, 9, 0.5, (1, 4), ((0.1, 1.0), (0.0, 0.25)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"distance": 1}, "2 changed pixels at distance 1"),
        ({"distance": None}, "2 changed pixels at distance None"),
        ({"pixels": (4, 1)}, "increasing indices"),
        ({"pixels": (1, 6)}, "within the image"),
        ({"values": ((0.1, 1.0), (0.0, 1.25))}, "2 values each from 0.0 to 1.0"),
        ({"values": ((0.1, 1.0), (0.0,))}, "2 values each"),
        ({"values": ((0.1, 1.0),)}, "2 changed pixels with values for 1"),
        ({"answer": 3}, "said 3"),
        ({"answer": 1}, "gets the true label 1"),
        ({"queries": 0}, "queries 0"),
        ({"evaluations": 1.5}, "evaluations 1.5"),
        ({"seconds": -1}, "seconds -1"),
        ({"true": 3}, "true label 3"),
        ({"example": 9}, "input 9"),
        ({"distance": 4, "pixels": (0, 1, 2, 3), "values": ((0.0, 0.0),) * 4}, "beyond the budget"),
    ],
)
def test_a_line_that_does_not_fit_its_header_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "a.jsonl"
    with Writer(path, Header(ATTACK, RUN, {})) as writer:
        writer.append([GOOD, replace(GOOD, example=1, distance=0, answer=2, pixels=(), values=())])
        writer.append([AttackRecord(2, 0, None, None, 0, 0, 0.1, failed="for a reason")])
    found = read_attack(path)
    assert next(iter(found.lines)) == GOOD
    assert [line.abstained for line in found.lines] == [True, False, False]
    with Writer(path, Header(ATTACK, RUN, {})) as writer:
        writer.append([replace(GOOD, **{"example": 3, **changes})])
    with pytest.raises(InputError, match=rf"line 5 is damaged \(.*{message}"):
        read_attack(path)
