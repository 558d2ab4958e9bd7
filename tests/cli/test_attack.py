"""`sparsecert attack` and `report` on its records, as a person types them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from sparsecert import datasets
from sparsecert.records import AttackRecord, Writer, read, read_attack
from tests.commands import command, exit_code, sparsecert
from tests.helpers import has_lines, wait_until

SMALL = ["--data", "digits", "--limit", "6", "--samples", "60", "--device", "cpu"]
NOISE = ["--attack", "noise", "--restarts", "1", "--group", "2"]


@pytest.fixture(scope="module")
def run(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its certificates and an attack on it."""
    folder = tmp_path_factory.mktemp("attacked") / "run"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    done = sparsecert("attack", "run", *SMALL, *NOISE, cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert "median adversarial attack magnitude" in done.stdout
    assert "6 of 6 images" in done.stderr
    assert done.stdout.endswith("wrote run/attack-noise.jsonl\n")
    samples = ["--n0", 50, "--n", 300]
    assert exit_code("certify", folder, "--data", "digits", "--limit", 12, *samples, "--device", "cpu") == 0
    return folder


def test_a_stopped_attack_goes_on_where_it_was(run: Path, tmp_path: Path) -> None:
    """By Ctrl-C: one line, and nothing of what was finished is lost."""
    out, settings = tmp_path / "a.jsonl", [*SMALL, *NOISE, "--limit", 20, "--samples", 100]
    process = subprocess.Popen(
        command("attack", run, *settings, "--out", out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    wait_until(lambda: has_lines(out, 3))
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in said
    kept = [line.example for line in read_attack(out).lines]
    words = f"stopped; {len(kept)} of 20 images are in {out}; rerun the same command to resume"
    assert said.splitlines()[-1] == words
    assert 2 <= len(kept) < 20
    assert exit_code("attack", run, *settings, "--out", out) == 0
    whole = [line.example for line in read_attack(out).lines]
    assert (len(whole), len(set(whole))) == (20, 20)
    assert whole[: len(kept)] == kept


def test_options_reach_the_header(run: Path, tmp_path: Path) -> None:
    settings = [*SMALL, "--attack", "saliency", "--budget", 3, "--limit", 2, "--random", "--seed", 4, "--full"]
    assert exit_code("attack", run, *settings, "--alpha", 0.1, "--out", tmp_path / "a.jsonl") == 0
    facts = read_attack(tmp_path / "a.jsonl").header.run
    assert facts["attack"]["name"] == "saliency"
    assert (facts["budget"], facts["seed"], facts["alpha"], facts["n"]) == (3, 4, 0.1, 60)
    assert (facts["masks"], facts["error"], facts["chosen"]["kind"]) == ("fresh", None, "random")


@pytest.mark.parametrize(
    ("name", "options", "settings"),
    [
        ("pointwise", ["--restarts", 1, "--rounds", 0], {"restarts": 1, "rounds": 0}),
        ("pointwise", ["--restarts", 1], {"restarts": 1, "rounds": 20}),
        ("sparse-rs", ["--queries", 7], {"steps": 7, "start": 0.3}),
        ("ensemble", ["--queries", 7, "--steps", 3], {"steps": 3, "queries": 7, "rounds": 20}),
    ],
)
def test_settings_of_the_attack_reach_the_header(
    name: str, options: list[object], settings: dict[str, float], run: Path, tmp_path: Path
) -> None:
    arguments = [*SMALL, "--limit", 2, "--samples", 5, "--attack", name, *options]  # 5 votes abstain: no search
    assert exit_code("attack", run, *arguments, "--out", tmp_path / "a.jsonl") == 0
    assert read_attack(tmp_path / "a.jsonl").header.run["attack"] == {"name": name, **settings}


def test_a_search_for_misclassifications_is_a_run_of_its_own(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The goal is in the header, the name of the file and the report; what is found is never an abstention."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes())
    few = ["--steps", 10, "--queries", 20, "--rounds", 1]
    assert exit_code("attack", tmp_path / "run", *SMALL, *few, "--goal", "misclassify") == 0
    found = read_attack(tmp_path / "run" / "attack-ensemble-misclassify.jsonl")
    middle = median([line.distance for line in found.lines if line.distance])
    assert f"6 of 6 images, median {middle:g} pixels" in capsys.readouterr().err
    assert found.header.run["goal"] == "misclassify"
    assert all(line.answer is not None for line in found.lines if line.distance)
    assert any(line.distance for line in found.lines)
    assert "goal" not in read_attack(run / "attack-noise.jsonl").header.run
    assert exit_code("report", run / "certify.jsonl", found.path) == 0
    said = capsys.readouterr().out
    assert " at least, " in said
    line = next(line for line in found.lines if line.distance)
    with Writer(tmp_path / "a.jsonl", found.header) as writer:
        writer.append([replace(line, answer=None)])
    assert exit_code("report", tmp_path / "a.jsonl") == 2
    assert "an abstention in a run whose goal is to misclassify" in capsys.readouterr().err


def test_plain_models_are_attacked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A network of `train --plain` and the nearest neighbour, reported side by side."""
    from sparsecert.plain import plain_recipe, train_plain

    cnn, neighbour = tmp_path / "cnn", tmp_path / "neighbour.jsonl"
    train, test = datasets.load("digits", "train"), datasets.load("digits", "test")
    train_plain(train, test, replace(plain_recipe("digits", "cnn"), epochs=1), cnn)
    settings = ["--data", "digits", "--limit", 6, "--attack", "pointwise", "--restarts", 2, "--device", "cpu"]
    assert exit_code("attack", cnn, *settings) == 0
    assert exit_code("attack", "nearest-neighbour", *settings, "--out", neighbour) == 0
    for model in (cnn, "nearest-neighbour"):
        for option in (["--samples", 5], ["--alpha", 0.1], ["--error", 0.1], ["--full"], ["--precision", "bf16"]):
            assert exit_code("attack", model, *settings, *option, "--out", tmp_path / "x") == 2
            assert "is a setting of smoothed classifiers" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    capsys.readouterr()
    assert exit_code("report", cnn / "attack-pointwise.jsonl", neighbour) == 0
    text = capsys.readouterr().out
    assert "nearest-neighbour" in text
    run = read_attack(neighbour).header.run
    assert run["model"] == {"sha256": train.fingerprint()}
    assert "n" not in run
    assert all(line.answer is not None for line in read_attack(neighbour).lines)


def test_a_report_of_certificates_and_attack(run: Path, tmp_path: Path) -> None:
    both = run / "certify.jsonl", run / "attack-noise.jsonl"
    done = sparsecert("report", *both, "--plot", tmp_path / "gap")
    assert done.returncode == 0, done.stderr
    assert "6 inputs of both" in done.stdout
    assert "attacks that succeed within the certified radius: 0 of " in done.stdout
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "gap.svg").read_text()


def test_a_report_of_an_attack_alone(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack = run / "attack-noise.jsonl"
    assert exit_code("report", attack, "--format", "json", "--plot", tmp_path / "a.svg") == 0
    found = json.loads(capsys.readouterr().out)
    lines = read_attack(attack).lines
    assert found["clean_accuracy"] == sum(line.distance != 0 for line in lines) / 6
    assert found["mean_queries"] == sum(line.queries for line in lines) / 6
    assert (tmp_path / "a.svg").exists()
    assert exit_code("report", attack, "--rho", 1, "--rho", 60) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.endswith("%)")][-2:]
    assert shown == ["1", "60"]


def test_an_unsound_certificate_is_reported_loudly(run: Path, tmp_path: Path) -> None:
    """Records of an attack that misclassifies a certified image without changing it."""
    attack = read_attack(run / "attack-noise.jsonl")
    certified = {line.example: line for line in read(run / "certify.jsonl").lines}
    target = next(
        certified[line.example]
        for line in attack.lines
        if certified[line.example].radius is not None and certified[line.example].label == line.true
    )
    with Writer(tmp_path / "a.jsonl", attack.header) as writer:
        writer.append([AttackRecord(target.example, target.true, 0, (target.true + 1) % 10, 1, 1, 0.1)])
    done = sparsecert("report", run / "certify.jsonl", tmp_path / "a.jsonl")
    assert done.returncode == 1
    assert "attacks that succeed within the certified radius: 1 of 1" in done.stdout
    assert done.stderr.startswith(f"NOT SOUND: {tmp_path}/a.jsonl changes the answer to 1 of 1 certified inputs")


MISTAKES = {
    "restarts": (["--attack", "saliency", "--restarts", "3"], "--restarts is for --attack noise or --attack pointwise"),
    "restarts 0": (["--attack", "noise", "--restarts", "0"], "restarts must be a whole number between 1"),
    "rounds": (["--attack", "noise", "--rounds", "0"], "--rounds is for --attack ensemble or --attack pointwise; add"),
    "rounds -1": (["--rounds", "-1"], "rounds must be a whole number between 0 and"),
    "steps": (["--attack", "noise", "--steps", "9"], "--steps is for --attack carlini-wagner or --attack ensemble or"),
    "queries": (["--attack", "jsma", "--queries", "9"], "--queries is for --attack ensemble or --attack sparse-auto"),
    "projected": (["--projected"], "--projected is for --attack sparse-pgd; add that, or leave it out"),
    "steps 0": (["--attack", "sparse-rs", "--queries", "0"], "steps must be a whole number between 1 and"),
    "attack": (
        ["--attack", "none"],
        "attack must be one of carlini-wagner, ensemble, jsma, noise, pointwise, saliency, sigma-zero, "
        "sparse-autoattack, sparse-pgd, sparse-rs, word-substitution, got 'none'",
    ),
    "budget": (["--budget", "65"], "budget must be a whole number between 1 and the 64 pixels of an image, got 65"),
    "goal": (["--goal", "abstain"], "'abstain' is not one of 'any', 'misclassify'"),
    "group": (["--group", "0"], "group must be a whole number between 1"),
    "samples": (["--samples", "0"], "n must be a whole number between 1"),
    "alpha": (["--alpha", "1"], "alpha must be between 0 and 1"),
    "error": (["--error", "0.7"], "error must be"),
    "error full": (["--error", "0.1", "--full"], "error is for queries decided early"),
    "limit": (["--limit", "0"], "limit must be at least 1"),
    "other run": (["--attack", "noise", "--out", "{run}/attack-noise.jsonl"], "holds another run: n is 60 there"),
    "certificates": (["--out", "{run}/certify.jsonl"], "holds another run: kind is"),
}


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_is_one_clear_line(name: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, message = MISTAKES[name]
    before = {path: path.read_bytes() for path in run.iterdir()}
    settings = ["--data", "digits", "--device", "cpu", "--out", tmp_path / "a.jsonl"]
    assert exit_code("attack", run, *settings, *(argument.format(run=run) for argument in arguments)) == 2
    captured = capsys.readouterr()
    (said,) = captured.err.splitlines()
    assert said.startswith("Error: ")
    assert message in said
    assert captured.out == ""
    assert not any(tmp_path.iterdir())
    assert {path: path.read_bytes() for path in run.iterdir()} == before


def test_reports_refuse_what_does_not_fit(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attack, certify = run / "attack-noise.jsonl", run / "certify.jsonl"
    other = tmp_path / "other.jsonl"
    other.write_text(attack.read_text().replace('"model": {"sha256": "', '"model": {"sha256": "00'))
    for arguments, message in (
        ([certify, other], "does not belong to"),
        ([certify, attack, "--format", "csv"], "csv has one kind of row"),
        ([certify, "--rho", 3], "--rho is for attack records"),
        ([attack, "--alpha", 0.1], "--alpha is for records of votes"),
        ([attack, "--predictions", certify], "--predictions is for records of votes"),
        ([attack, "--plot", tmp_path / "a.gif"], "must end in one of .png"),
        ([certify, "--predictions", attack], "holds attack records, not votes"),
    ):
        assert exit_code("report", *arguments) == 2
        said = capsys.readouterr()
        assert message in said.err
        assert said.out == ""


def test_a_table_is_refused_by_a_model_of_images(run: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b\n1,2\n")
    done = sparsecert("attack", run, "--data", tmp_path / "table.csv", "--out", tmp_path / "a.jsonl", cwd=tmp_path)
    assert done.returncode == 2
    assert "the model was not trained on a table" in done.stderr
    assert not (tmp_path / "a.jsonl").exists()
