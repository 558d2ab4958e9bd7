"""What the README and the docstrings show runs as shown, and CONTRIBUTING.md names what is there."""

from __future__ import annotations

import doctest
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparsecert import models
from sparsecert.cli import cli
from tests.pages import blocks_of, understand

ROOT = Path(__file__).parent.parent
README, CONTRIBUTING = ((ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md"))
BLOCKS = [*blocks_of(README)]


def _matches(shown: str, printed: str) -> bool:
    """`...` stands for anything; a blank line is shown as none."""
    lines = "".join(line for line in printed.splitlines(keepends=True) if line.strip())
    return doctest.OutputChecker().check_output(shown, lines, doctest.ELLIPSIS)


def test_it_is_one_page() -> None:
    assert len(README.splitlines()) <= 120
    assert re.findall(r"^    make (\w+)", README, re.MULTILINE) == ["run", "test"]


def test_the_python_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, own = (block.text for block in BLOCKS if block.language in ("python", "text"))
    names = {"net": models.build("mnist-cnn", 2, 10)}
    exec(code, names)
    assert capsys.readouterr().out == output
    exec(own, names)
    assert names["g"].certify(names["images"], n0=10, n=20).counts.sum() == 100


def test_the_command_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = (block for block in BLOCKS if block.language == "console")
    (command,) = block.commands
    result = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--device", "cpu"])
    assert result.exit_code == 0, result.output
    shown = block.text.split("\n", 1)[1]
    assert _matches(shown, result.stdout), result.stdout


def test_an_output_that_is_not_the_one_shown_is_noticed() -> None:
    assert _matches("a 1\n...\nc 3\n", "a 1\n\nb 2\nc 3\n")
    assert not _matches("a 1\n...\nc 4\n", "a 1\n\nb 2\nc 3\n")


@pytest.mark.parametrize("text", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_the_files_folders_and_links_it_names_exist(text: str) -> None:
    named = re.findall(r"`((?:[\w.-]+/)+[\w.-]*|\w+\.(?:py|txt|md))`", text)
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert len({*named, *linked}) > 10
    for name in {*named, *linked} - {".venv/bin/sparsecert", "runs/exact.jsonl"}:
        assert (ROOT / name).exists() or (ROOT / "src" / "sparsecert" / name).exists(), name


def test_every_command_it_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make\s(\w+)", README + CONTRIBUTING):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for words in re.findall(r"`sparsecert (certify [^`]+)`", README + CONTRIBUTING):
        understand(shlex.split(words))
    for module in re.findall(r"`python -m ([\w.]+)", README + CONTRIBUTING):
        folder = ROOT / module.replace(".", "/")
        assert folder.is_dir() or folder.with_suffix(".py").is_file(), module


def test_the_tour_leaves_no_folder_out() -> None:
    package = ROOT / "src" / "sparsecert"
    for init in package.glob("*/__init__.py"):
        assert f"`{init.parent.name}/`" in CONTRIBUTING, init.parent.name


@pytest.mark.parametrize("module", ["schemes.uniform", "schemes.random_values", "reports.medians"])
def test_docstring_examples_run(module: str) -> None:
    results = doctest.testmod(import_module(f"sparsecert.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
