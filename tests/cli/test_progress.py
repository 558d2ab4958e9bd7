"""Progress where there is no terminal, and what a stopped command says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import click
import pytest
import torch

from sparsecert import modelfile
from sparsecert.attacks import NOT_FOUND, Attack, Ensemble, Network, Pointwise
from sparsecert.cli import log_lines, run_command
from sparsecert.cli.interrupted import GRACE, Terminated, records_kept, saying_kept
from sparsecert.cli.log_lines import duration
from sparsecert.cli.progress import attack_bar, download_bar, files_bar, inputs_bar, training_bar
from sparsecert.datasets import ArrayImages, Dataset, load
from sparsecert.records import AttackRecord, read
from sparsecert.runs import PlainTarget, attack_dataset
from sparsecert.training import train
from sparsecert.training.recipes import recipe_for
from sparsecert.training.run import CHECKPOINT_NAME
from tests.attacks.linear import made
from tests.commands import command
from tests.helpers import has_lines, wait_until


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(log_lines, "clock", fake)
    monkeypatch.setattr(log_lines, "LOOK", 3_600.0)  # no line but by what a test does
    return fake


def test_a_long_run_says_at_once_how_long_and_then_every_half_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with inputs_bar("certifying on cpu", 100, 1_000) as on_progress:
        on_progress(20, 0)  # recorded by an earlier run
        for _ in range(800):  # 1 s for every 100 copies: 10 s for an input
            clock.now += 1
            on_progress(0, 100)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "certifying on cpu: 20 of 100 inputs"
    assert lines[1] == "certifying on cpu: 20 of 100 inputs, 6 inputs a minute, about 13 min left"
    assert len(lines) == 2 + (800 - 5) // 30
    assert lines[-1].endswith("a minute, about 15 s left")


def test_a_short_run_says_one_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with inputs_bar("certifying on cpu", 4, 100) as on_progress:
        on_progress(0, 0)
        for _ in range(4):
            clock.now += 7
            on_progress(0, 100)
    assert capsys.readouterr().err.splitlines() == ["certifying on cpu: 0 of 4 inputs"]


def test_an_attack_says_its_evaluations_until_it_knows_a_rate(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with attack_bar("attacking on cpu", 12, "pixels") as callbacks:
        on_progress, on_search = callbacks["on_progress"], callbacks["on_search"]
        on_progress(0, 0)
        for second in range(60):  # of the first group, which does not say how far it is
            clock.now += 1
            if second == 40:
                on_search(0.0, [9, 0, NOT_FOUND, 4])  # one image is misclassified as it is, and two are fooled
            on_progress(0, 500)
        on_progress(4, 0)
        clock.now += 30
        on_progress(0, 500)
    assert capsys.readouterr().err.splitlines() == [
        "attacking on cpu: 0 of 12 images, 0 evaluations",
        "attacking on cpu: 0 of 12 images, 15,000 evaluations, 30 s so far",
        "attacking on cpu: 0 of 12 images, 30,000 evaluations, 2 fooled so far by a median of 6.5 pixels, 1 min so far",
        "attacking on cpu: 4 of 12 images, 30,500 evaluations, 2 fooled so far by a median of 6.5 pixels, "
        "4 images a minute, about 2 min left",
    ]


def test_an_attack_tells_the_time_left_within_its_first_group(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with attack_bar("attacking on cpu", 8, "pixels") as callbacks:
        callbacks["on_progress"](0, 0)
        for second in range(1, 91):  # of 200 s for a group of four
            clock.now += 1
            callbacks["on_search"](second / 200, [9, NOT_FOUND, NOT_FOUND, 4])
            callbacks["on_progress"](0, 500)
        callbacks["on_records"](_attack_records(9, 4, 7, 8))
        callbacks["on_progress"](4, 0)
        clock.now += 10
        callbacks["on_search"](0.01, [NOT_FOUND] * 4)  # too little to count
        callbacks["on_progress"](0, 0)
    fooled = "2 fooled so far by a median of 6.5 pixels"
    assert capsys.readouterr().err.splitlines() == [
        "attacking on cpu: 0 of 8 images, 0 evaluations",
        f"attacking on cpu: 0 of 8 images, 2,500 evaluations, {fooled}, 1.2 images a minute, about 7 min left",
        f"attacking on cpu: 0 of 8 images, 17,500 evaluations, {fooled}, 1.2 images a minute, about 6 min left",
        f"attacking on cpu: 0 of 8 images, 32,500 evaluations, {fooled}, 1.2 images a minute, about 6 min left",
        "attacking on cpu: 4 of 8 images, median 7.5 pixels, 2.7 images a minute, about 1 min left",
    ]


def _attack_records(*distances: int) -> list[AttackRecord]:
    return [AttackRecord(0, 0, distance, 1, 1, 1, 1.0) for distance in distances]


@pytest.mark.parametrize("attack", [Ensemble(steps=20, queries=40, rounds=2), Pointwise(restarts=1)], ids=str)
def test_a_run_of_one_group_tells_the_time_left(
    attack: Attack, clock: Clock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each query takes a second; the estimates are rough at first and end near nothing."""
    model, images, labels = made(images=6)
    pixels = (images * 255).round().to(torch.uint8)
    data = Dataset("made", "test", ArrayImages(pixels.numpy()), labels.numpy(), ("a", "b"), (0.0,), (1.0,))

    def slow(images: torch.Tensor) -> torch.Tensor:
        clock.now += 1
        return model(images)

    target, began = PlainTarget(Network(slow), "linear", "ab" * 32, torch.device("cpu")), clock.now
    with attack_bar("attacking on cpu", 6, "pixels") as callbacks:
        attack_dataset(target, attack, data, tmp_path / "a.jsonl", group=6, **callbacks)
    whole = clock.now - began
    said = [line for line in capsys.readouterr().err.splitlines() if line.endswith("left")]
    assert len(said) > 1
    assert all("0 of 6 images" in line for line in said)
    found = [re.fullmatch(r".* about (\d+) (s|min) left", line) for line in said]
    left = [int(match[1]) * {"s": 1, "min": 60}[match[2]] for match in found if match is not None]
    assert len(left) == len(said)
    assert max(left) < 5 * whole
    assert left[-1] < whole / 5


def test_the_time_left_falls_while_a_group_is_attacked_and_is_not_guessed_when_it_is_up(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with inputs_bar("attacking on cpu", 8, None, "images") as on_progress:
        on_progress(0, 0)
        clock.now += 120
        on_progress(4, 0)
        for _ in range(5):
            clock.now += 30
            on_progress(0, 500)
    said = [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()[1:]]
    assert said == [
        "about 2 min left",
        "about 2 min left",
        "about 1 min left",
        "about 30 s left",
        "4 min so far",
        "4 min so far",
    ]


def test_training_files_and_downloads_say_theirs(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar() as on_step, files_bar("checking") as on_file, download_bar("mnist") as on_bytes:
        for part in range(3):
            on_step(part * 100, 1_000, epoch=part, epochs=10, loss=0.5, accuracy=0.75)
            on_file(part * 10, 1_000)
            on_bytes(part * 6_000_000, 60_000_000)
            clock.now += 30
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3:] == [
        "training: epoch 2 of 10, 200 of 1,000 steps, loss 0.5000, accuracy 75.00%, "
        "3.3 steps a second, about 4 min left",
        "checking: 20 of 1,000 files, 20 files a minute, about 49 min left",
        "mnist: 12.0 MB, 12 MB a minute, about 4 min left",
    ]


def test_training_without_epochs_says_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar("training the restorer") as on_step:
        on_step(1, 2_000, loss=0.25)
    assert capsys.readouterr().err == "training the restorer: 1 of 2,000 steps, loss 0.2500\n"


def test_lines_come_while_nothing_is_reported(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log_lines.LogLines("{task.completed} of {task.total} steps", noun="steps")
    task = lines.add_task("training", total=None)
    for _ in range(65):
        clock.now += 1
        lines.print_if_due()
    lines.update(task, completed=1, total=4)
    clock.now += 60
    lines.update(task, completed=2)
    for _ in range(31):
        clock.now += 1
        lines.print_if_due()
    lines.stop()
    clock.now += 60
    lines.print_if_due()
    assert capsys.readouterr().err.splitlines() == [
        "training: no steps done yet, 30 s so far",
        "training: no steps done yet, 1 min so far",
        "training: 1 of 4 steps",
        "training: 2 of 4 steps, 1 steps a minute, about 2 min left",
        "training: 2 of 4 steps, 1 steps a minute, about 2 min left",
    ]


def test_work_that_counts_nothing_says_its_time(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    lines = log_lines.LogLines()
    lines.add_task("fitting trees", total=None)
    for _ in range(65):
        clock.now += 1
        lines.print_if_due()
    lines.stop()
    assert capsys.readouterr().err.splitlines() == ["fitting trees: 30 s so far", "fitting trees: 1 min so far"]


def test_the_first_of_several_trainings_tells_the_time_of_all(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar("training k32 (1 of 6)", alike=6) as on_step:
        for done in range(0, 60, 10):  # 1 s for a step
            on_step(done, 300, epoch=1, epochs=3, loss=0.5, accuracy=0.75)
            clock.now += 10
    said = capsys.readouterr().err.splitlines()[1]
    assert said.endswith("about 5 min left, 30 min with the 5 to follow")
    with training_bar("training k32 (1 of 6)", alike=6) as on_step:
        for done in (0, 5):
            on_step(done, 10, epoch=1, epochs=3, loss=0.5, accuracy=0.75)
            clock.now += 5
    said = capsys.readouterr().err.splitlines()[1]
    assert said.endswith("about 5 s left, 55 s with the 5 to follow")  # short by itself


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.4, "59 s"), (720, "12 min"), (12_000, "3 h 20 min"), (190_800, "2 d 5 h")]
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.fixture
def heeded() -> Iterator[None]:
    """Heeds SIGINT, which a shell's background processes ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


KEPT = "; 3 of 4 images are in a.jsonl; 1 of 2 are done; rerun the same command to resume"


@pytest.mark.parametrize(
    ("told", "said"),
    [((), ""), (("",), "; nothing was kept"), (("3 of 4 images are in a.jsonl", "", "1 of 2 are done"), KEPT)],
)
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_both_signals_say_what_is_kept(
    sent: signal.Signals,
    code: int,
    told: tuple[str, ...],
    said: str,
    heeded: None,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @click.command()
    def waiting() -> None:
        with ExitStack() as keeping:
            for text in reversed(told):
                keeping.enter_context(saying_kept(lambda text=text: text))
            signal.raise_signal(sent)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run_command(waiting, "waiting", [])
    assert ended.value.code == code
    assert capsys.readouterr().err.splitlines()[-1] == f"stopped{said}"
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("sent", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_training_stops_between_two_steps_by_either(
    sent: signal.Signals, raised: type[BaseException], heeded: None
) -> None:
    steps: list[int] = []

    def train() -> None:
        with training_bar() as on_progress:
            for step in (1, 2, 3):
                if step == 2:
                    signal.raise_signal(sent)
                steps.append(step)
                on_progress(step, 10, epoch=1, epochs=1, loss=0.5, accuracy=0.5)

    with pytest.raises(KeyboardInterrupt) as stopped:
        train()
    assert stopped.type is raised
    assert steps == [1, 2]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no alarm")
@pytest.mark.parametrize("second", ["SIGINT", "SIGTERM", "SIGALRM"])
def test_a_second_signal_and_the_end_of_the_grace_stop_within_a_step(second: str, heeded: None) -> None:
    before = signal.getsignal(signal.SIGALRM)
    steps: list[int] = []

    def train() -> None:
        with training_bar() as on_progress:
            on_progress(1, 10, epoch=1, epochs=1, loss=0.5, accuracy=0.5)
            signal.raise_signal(signal.SIGTERM)
            steps.append(signal.alarm(0))  # what is left of the grace
            signal.raise_signal(signal.Signals[second])
            steps.append(2)

    with pytest.raises(Terminated):
        train()
    assert steps == [GRACE]
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.alarm(0) == 0


def test_a_signal_acts_at_once_before_the_first_step_has_ended(tmp_path: Path, heeded: None) -> None:
    with pytest.raises(Terminated) as stopped, training_bar(out=tmp_path):
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.args == ("",)  # nothing was kept


def test_a_process_that_follows_another_waits_for_it(heeded: None, capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar(follows=True):
        signal.raise_signal(signal.SIGTERM)
        left = signal.alarm(0) if hasattr(signal, "alarm") else 0
    assert left == 0
    assert not capsys.readouterr().err

    def lose_connection() -> None:
        with training_bar(follows=True):
            signal.raise_signal(signal.SIGTERM)
            raise RuntimeError("connection closed by peer")

    with pytest.raises(Terminated):
        lose_connection()


def test_a_stopped_training_says_which_checkpoint_there_is(few: Dataset, tmp_path: Path, heeded: None) -> None:
    recipe = replace(recipe_for(few), epochs=3)

    def train_and_stop() -> None:
        with training_bar(out=tmp_path) as on_progress:

            def on_step(done: int, steps: int, **metrics: float) -> None:
                if metrics["epoch"] == 2:
                    signal.raise_signal(signal.SIGTERM)
                on_progress(done, steps, **metrics)

            train(few, recipe, tmp_path, on_progress=on_step)

    with pytest.raises(Terminated) as stopped:
        train_and_stop()
    file = tmp_path / CHECKPOINT_NAME
    step, steps = modelfile.read_header(file)["step"], 3 * -(-150 // recipe.batch)
    assert 0 < step < steps
    assert stopped.value.args == (f"{step} of {steps} steps are in {file}",)


def test_records_that_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    assert records_kept(file, 4, "images") == ""
    file.write_text("header\n")
    assert records_kept(file, 4, "images") == ""
    file.write_text("header\n1\n2\n3")  # the last is not whole
    assert records_kept(file, 4, "images") == f"2 of 4 images are in {file}"
    assert records_kept(None, 4, "images") is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch")
def test_a_run_that_is_terminated_keeps_its_records(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "certify.jsonl"
    starting = command("certify", trained, "--data", "digits", "--n", 100_000, "--device", "cpu", "--out", out)
    process = subprocess.Popen(starting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_lines(out, 2))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    kept, of = len(read(out).lines), len(load("digits", "test"))
    assert kept >= 1
    assert errors.splitlines()[-1] == f"stopped; {kept} of {of} inputs are in {out}; rerun the same command to resume"
