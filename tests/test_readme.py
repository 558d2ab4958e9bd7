"""What the README and the docstrings show runs as shown."""

from __future__ import annotations

import doctest
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
import torch

from sparsecert import models
from tests.pages import understand

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_three_lines_run() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names = {"net": models.build("mnist-cnn", 2, 10), "images": torch.rand(2, 1, 28, 28)}
    exec(code.replace("10_000", "100").replace("1_000", "50"), names)
    assert names["c"].radii.shape == (2,)
    assert names["c"].counts.sum() == 200


def test_every_command_and_option_it_names_exists() -> None:
    lines = re.findall(r"^    (?:torchrun .*-m )?sparsecert +(.+)$", README, flags=re.MULTILINE)
    assert len(lines) >= 4
    for line in lines:
        understand(shlex.split(line, comments=True))


def test_the_files_and_folders_it_names_exist() -> None:
    named = re.findall(r"`((?:src|studies|results)/[\w/.]+|bounds/[\w.]+|constraints.txt)`", README)
    assert len(named) > 5
    for name in named:
        assert (ROOT / name).exists() or (ROOT / "src/sparsecert" / name).exists(), name


@pytest.mark.parametrize("module", ["schemes.uniform", "schemes.random_values", "reports.medians"])
def test_docstring_examples_run(module: str) -> None:
    results = doctest.testmod(import_module(f"sparsecert.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
