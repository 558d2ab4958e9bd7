"""Progress where there is no terminal, and what a stopped command says."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sparsecert.cli import log_lines, run_command
from sparsecert.cli.interrupted import Terminated
from sparsecert.cli.log_lines import duration
from sparsecert.cli.progress import FoundSoFar, download_bar, files_bar, inputs_bar, training_bar
from sparsecert.records import read
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
    with inputs_bar("attacking on cpu", 8, None, "images", FoundSoFar("pixels")) as on_progress:
        on_progress(0, 0)
        for _ in range(60):  # of the first group
            clock.now += 1
            on_progress(0, 500)
        on_progress(4, 0)
        clock.now += 30
        on_progress(0, 500)
    assert capsys.readouterr().err.splitlines() == [
        "attacking on cpu: 0 of 8 images, 0 evaluations",
        "attacking on cpu: 0 of 8 images, 15,000 evaluations, 30 s so far",
        "attacking on cpu: 0 of 8 images, 30,000 evaluations, 1 min so far",
        "attacking on cpu: 4 of 8 images, 30,500 evaluations, 2.7 images a minute, about 2 min left",
    ]


def test_training_files_and_downloads_say_theirs(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with training_bar() as on_step, files_bar("checking") as on_file, download_bar("mnist") as on_bytes:
        for part in range(3):
            on_step(part * 100, 1_000, epoch=part, loss=0.5, accuracy=0.75)
            on_file(part * 10, 1_000)
            on_bytes(part * 6_000_000, 60_000_000)
            clock.now += 30
    lines = capsys.readouterr().err.splitlines()
    assert lines[-3:] == [
        "training: epoch 2 loss 0.5000 accuracy 75.00%, 3.3 steps a second, about 4 min left",
        "checking: 20 of 1,000 files, 20 files a minute, about 49 min left",
        "mnist: 12.0 MB, 12 MB a minute, about 4 min left",
    ]


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


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_both_signals_say_what_is_kept(
    sent: signal.Signals, code: int, heeded: None, capsys: pytest.CaptureFixture[str]
) -> None:
    @click.command()
    def waiting() -> None:
        signal.raise_signal(sent)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        run_command(waiting, "waiting", [])
    assert ended.value.code == code
    assert "stopped; finished work is kept. Rerun the same command to resume." in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(("sent", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_training_stops_between_two_steps_by_either(
    sent: signal.Signals, raised: type[BaseException], heeded: None
) -> None:
    def train() -> None:
        with training_bar() as on_progress:
            signal.raise_signal(sent)
            on_progress(1, 10, epoch=0, loss=0.5, accuracy=0.5)

    with pytest.raises(KeyboardInterrupt) as stopped:
        train()
    assert stopped.type is raised


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch")
def test_a_run_that_is_terminated_keeps_its_records(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "certify.jsonl"
    starting = command("certify", trained, "--data", "digits", "--n", 100_000, "--device", "cpu", "--out", out)
    process = subprocess.Popen(starting, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_lines(out, 2))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 143
    assert errors.splitlines()[-1] == "stopped; finished work is kept. Rerun the same command to resume."
    assert len(read(out).lines) >= 1
