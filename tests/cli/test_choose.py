"""`sparsecert choose`: from the shell, on the digits."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from sparsecert import datasets, modelfile, records
from sparsecert.registry import CERTIFICATES, RULES
from sparsecert.training import held_out
from tests.commands import Done, sparsecert
from tests.pages import understand

WAYS: dict[str, tuple[str, Iterable[str]]] = {
    "k4": ("--bound", CERTIFICATES),
    "k7": ("--bound", CERTIFICATES),
    "lattice-13x1": ("--rule", RULES),
}
FEW = "--radius", 2, "--training-steps", 60, "--limit", 30, "--n", 60, "--device", "cpu"
MASKS = "--keep", 4, "--keep", 7, "--masks", "lattice-13x1"


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    root = tmp_path_factory.mktemp("choose")
    return root, sparsecert("choose", "--data", "digits", *FEW, *MASKS, "--out", "out", cwd=root)


def _shares(done: Done) -> dict[str, tuple[str, float]]:
    """The bound and the certified accuracy of each row."""
    rows = re.findall(r"^ *(\S+) +\d+ of 64 +(\S+) +([\d.]+)% \+-", done.stdout, re.MULTILINE)
    return {name: (bound, float(share)) for name, bound, share in rows}


def test_each_row_is_the_best_that_a_report_finds(chosen: tuple[Path, Done]) -> None:
    root, done = chosen
    assert done.returncode == 0, done.stderr
    shares = _shares(done)
    assert shares.keys() == WAYS.keys()
    for name, (flag, ways) in WAYS.items():
        by_way = {}
        for way in ways:
            report = sparsecert("report", root / "out" / name / "held-out.jsonl", flag, way, "--format", "json")
            found = json.loads(report.stdout)
            by_way[way] = round(100 * dict(enumerate(found["certified_accuracy"])).get(2, 0.0), 1)
        bound, share = shares[name]
        assert share == by_way[bound] == max(by_way.values()), name
    best = max(share for _, share in shares.values())
    assert f"{best}% certified" in re.findall("^best at radius 2: .*", done.stdout, re.MULTILINE)[0]
    assert (root / "out" / "choose.png").stat().st_size > 0
    assert re.search(r"^certify, about .* for all 500 test images", done.stdout, re.MULTILINE)


def test_only_held_out_training_images_are_certified(chosen: tuple[Path, Done]) -> None:
    root, _ = chosen
    fit, held = held_out.split(datasets.load("digits", "train"))
    for name in WAYS:
        data = records.read(root / "out" / name / "held-out.jsonl").header.run["data"]
        assert (data["split"], data["fingerprint"], data["inputs"]) == ("train", held.fingerprint(), 30)
        settings = modelfile.read_header(root / "out" / name)["facts"]["training"]["settings"]
        assert settings["data"]["fingerprint"] == fit.fingerprint()


def test_the_next_commands_can_be_typed(chosen: tuple[Path, Done]) -> None:
    lines = re.findall("^  sparsecert (.*)$", chosen[1].stdout, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["train", "certify"]
    for line in lines:
        understand(shlex.split(line))


def test_a_second_run_takes_what_is_there(chosen: tuple[Path, Done]) -> None:
    root, done = chosen
    before = {file: file.stat().st_mtime_ns for file in root.rglob("*.safetensors")}
    again = sparsecert("choose", "--data", "digits", *FEW, *MASKS, "--out", "out", cwd=root)
    assert again.stdout == done.stdout
    assert {file: file.stat().st_mtime_ns for file in root.rglob("*.safetensors")} == before
    other = sparsecert("choose", "--data", "digits", *FEW, *MASKS, "--training-steps", 90, "--out", "out", cwd=root)
    assert (other.returncode, "use another --out folder" in other.stderr) == (2, True)


def test_given_models_are_compared(chosen: tuple[Path, Done]) -> None:
    root, done = chosen
    given = sparsecert(
        "choose", "out/k4", "out/lattice-13x1", "--data", "digits", *FEW[:2], *FEW[4:], "--out", "given", cwd=root
    )
    assert given.returncode == 0, given.stderr
    assert _shares(given) == {name: share for name, share in _shares(done).items() if name != "k7"}
    assert re.search(r"^  sparsecert certify out/\S+ --data digits --(bound|rule) \S+$", given.stdout, re.MULTILINE)


def test_models_that_saw_the_held_out_images_are_refused(trained: Path) -> None:
    done = sparsecert("choose", trained, "--data", "digits", "--radius", 2)
    assert (done.returncode, "so none is held out" in done.stderr) == (2, True), done.stderr


def test_ones_own_images_without_a_test_set(tmp_path: Path) -> None:
    """There is nothing to look at but training images."""
    digits = datasets.load("digits", "train")
    np.savez(tmp_path / "mine.npz", x_train=digits.images.batch(range(200)), y_train=digits.labels[:200])
    done = sparsecert(
        "choose", "--data", "mine.npz", "--radius", 1, "--training-steps", 5, "--limit", 5, "--n", 20, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert len(_shares(done)) >= 4
    assert re.search(r"^certify, about .* for 1,000 images", done.stdout, re.MULTILINE)
    assert (tmp_path / "runs" / "choose-mine-1" / "choose.png").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--radius", 40], "radius must be below half of the 64 pixels"),
        (["--radius", 4, "--keep", 30], "uniform-keep30 cannot certify radius 4"),
        (["--radius", 4, "--masks", "lattice-8x1"], "lattice-8x1 cannot certify radius 4"),
        (["--radius", 4, "--masks", "comb-3"], "masks must be named as in"),
        (["--radius", 4, "--keep", 4, "out/k4"], "is for training"),
    ],
)
def test_what_makes_no_sense_is_refused_before_any_training(more: list[object], message: str, tmp_path: Path) -> None:
    done = sparsecert("choose", "--data", "digits", *more, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert not [*tmp_path.iterdir()]
