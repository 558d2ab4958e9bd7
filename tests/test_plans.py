"""What a table would take, against the arithmetic done by hand."""

from __future__ import annotations

import pytest

from sparsecert.cli import main
from sparsecert.errors import InputError
from sparsecert.training.plans import PLANS, Rates, find_plan, format_duration, format_plan


def test_imagenet_is_36_epochs_of_its_images_and_11_000_copies_of_400() -> None:
    steps = [seconds for _, seconds in PLANS["imagenet"].steps(Rates(training=1_000, certifying=10_000))]
    trained, predicted, certified = 36 * 1_281.167, 400.0, 440.0
    assert steps == pytest.approx([trained, predicted, certified, 55_000.0, 3 * (trained + predicted + certified)])


def test_eight_gpus_take_an_eighth() -> None:
    lines = format_plan(PLANS["imagenet"], Rates(1_000, 10_000)).splitlines()
    assert lines[3].split() == ["1", "GPU", "8", "GPUs"]
    (certifying,) = (line for line in lines if line.startswith("certifying 400"))
    assert certifying.split()[-4:] == ["7.3", "min", "55.0", "s"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (119, "119.0 s"), (120, "2.0 min"), (7_200, "2.0 h"), (172_800, "2.0 d"), (8_640_000, "100.0 d")],
)
def test_durations_are_written_in_a_suitable_unit(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(InputError, match="plan must be one of imagenet"):
        find_plan("mars")
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="the rate of certifying must be a number above 0"):
            Rates(1.0, wrong)
    with pytest.raises(InputError, match="numbers of GPUs"):
        format_plan(PLANS["imagenet"], Rates(1, 1), [0])


def test_the_command_prints_the_plan_and_asks_for_both_rates(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["info", "--plan", "imagenet", "--training-rate", "1000"]
    with pytest.raises(SystemExit, match="0"):
        main([*arguments, "--certifying-rate", "10000"])
    assert capsys.readouterr().out.rstrip() == format_plan(PLANS["imagenet"], Rates(1_000, 10_000))
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "go together" in capsys.readouterr().err
