"""The pages of docs/: built without a warning, nothing fetched from elsewhere, every example run."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import numpy as np
import pytest
import torch

import sparsecert
from sparsecert.cli import cli
from sparsecert.cli.registered import Registered
from sparsecert.registry import REGISTRIES
from studies.levine_feizi_2020.command import NAME, command
from tests.datasets.made import write_image, write_small_mnist
from tests.pages import COMMANDS, ROOT, blocks_of, run_page, understand

pytestmark = pytest.mark.check

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"(?:https?:)?//"
    r"|<link[^>]+(?:stylesheet|preconnect|preload|icon)[^>]+href=\"(?:https?:)?//"
)
STUDY = "studies/levine_feizi_2020/results"
RECORDS = "results/mnist-sample", f"{STUDY}/mnist/k45", f"{STUDY}/mnist/attacks"  # what the pages certify again


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """In a folder of its own; what an example registers or seeds is gone afterwards."""
    monkeypatch.chdir(tmp_path)
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_things", {**registry})
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_example_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs a cluster runs with the other tests of clusters."""
    text = page.read_text()
    if "results/" in "".join(block.text for block in blocks_of(text)):
        for folder in RECORDS:
            shutil.copytree(ROOT / folder, tmp_path / folder)
        (out,) = (parameter for parameter in command.params if parameter.name == "out")
        monkeypatch.setattr(out, "default", tmp_path / STUDY)  # nothing is written to the repository
    if "needs: photographs" in text:
        for name in ("imagenet", "imagenette"):
            _write_photographs(tmp_path / "data" / name)
        monkeypatch.setenv("SPARSECERT_DATA", str(tmp_path / "data"))
    write_small_mnist(tmp_path / "data")
    run_page(text, has=("photographs", "MNIST"))
    assert (tmp_path / "curve.png").is_file() or page.stem != "imagenet"


def _write_photographs(folder: Path) -> None:
    """Noise in ImageNet's layout."""
    noise = np.random.default_rng(0)
    for split, count in (("train", 4), ("val", 6)):
        for place in range(count):
            path = folder / split / f"class-{place % 2}" / f"{place}.JPEG"
            write_image(path, noise.integers(0, 256, (48, 40, 3), dtype=np.uint8))


def test_what_the_pages_need_is_there_in_some_test() -> None:
    needs = {block.needs for page in PAGES for block in blocks_of(page.read_text())}
    assert needs == {None, "photographs", "MNIST", "a cluster"}


def test_the_commands_of_the_study_are_understood() -> None:
    reproduce, results = ((DOCS / f"{page}.md").read_text() for page in ("reproduce", "results"))
    targets = re.findall(r"`((?:table-\d|exact) [^`]*--out [^`]+)`", reproduce)
    assert len(targets) == 6
    targets += re.findall(r"`reproduce\s([^`]+)`", results)
    assert len(targets) >= 20
    for line in targets:
        command.make_context(NAME, shlex.split(line))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("row % self.parts == np.arange", "row % self.parts <= np.arange"),
        ("np.arange(self.units) // self.width", "np.arange(self.units) // self.height"),
        ("torch.where(retained, inputs, self.colour)", "inputs * retained + self.colour * ~retained"),
        ("torch.where(retained, inputs, self.colour)", "torch.where(retained, inputs - inputs.mean(), self.colour)"),
    ],
)
def test_the_proofs_of_the_page_notice_a_mistake(right: str, wrong: str) -> None:
    text = (DOCS / "extending.md").read_text()
    assert right in text
    with pytest.raises(AssertionError):
        run_page(text.replace(right, wrong))


def test_the_pages_have_examples() -> None:
    """So that a change of how they are marked does not leave them all out."""
    found = {page.stem: [block.language for block in blocks_of(page.read_text())] for page in PAGES}
    for page in ("five-minutes", "certificates", "soundness"):
        assert {"python", "console"} <= {*found[page]}, page
    assert found["your-model"].count("python") >= 5
    assert found["api"].count("python") >= 12
    assert found["extending"].count("python") >= 5
    assert found["reproduce"].count("console") >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_no_example_is_hidden_from_the_tests(page: Path) -> None:
    """Commands and Python stand in fences, with a language; only text may be shown without being run."""
    text = page.read_text()
    assert {block.language for block in blocks_of(text)} <= {"python", "text", "json", *COMMANDS}
    assert len(re.findall(r"^```", text, flags=re.MULTILINE)) == 2 * len([*blocks_of(text)])
    assert not re.findall(
        r"^    (?:sparsecert|import|python|torchrun) .*$", re.sub(r"(?s)```.*?```", "", text), re.MULTILINE
    )


def _parameters(of: click.Command) -> Iterator[click.Parameter]:
    """Of a command, or of all the commands of a group."""
    yield from of.params
    for child in of.commands.values() if isinstance(of, click.Group) else ():
        yield from _parameters(child)


def _flags(command: click.Command) -> Iterator[str]:
    """Those of a command, and of all that can be chosen by them."""
    for parameter in _parameters(command):
        yield from parameter.opts
        if isinstance(parameter.type, Registered) and parameter.type.with_options:
            yield from (option.flag for thing in parameter.type.registry.values() for option in thing.options)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_files_and_commands_it_names_exist(page: Path) -> None:
    text = re.sub(r"(?s)```.*?```", "", page.read_text())
    for name in re.findall(r"`((?:src|tests|examples|results|studies|benchmarks)/[\w/.-]*)`", text):
        assert (ROOT / name).exists(), name
    for verb, rest in re.findall(rf"`(?:sparsecert )?({'|'.join(cli.commands)})( [^`]*)?`", text):
        known = {"--help", *_flags(cli.commands[verb])}
        assert {*re.findall(r"--[a-z0-9-]+", rest)} <= known, (verb, rest)
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`make ([a-z]+)`", text):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_api_page_has_every_public_name() -> None:
    text = (DOCS / "api.md").read_text()
    named = re.findall(r"^(?:::: sparsecert\.|### )(\w+)$", text, re.MULTILINE)
    for module in ("runs", "records", "reports", "attacks", "tabular", "registry", "service"):
        assert module in named, module
    for name in sparsecert.__all__:
        assert named.count(name) == 1, name
        assert re.search(rf"\bsc\.{name}\b", text) or name in ("Certifications", "Predictions"), f"no example of {name}"


def test_the_api_page_lists_only_what_is_there() -> None:
    text = (DOCS / "api.md").read_text()
    listed = re.findall(r"^::: sparsecert\.(\w+)\n    options:\n      members: \[(.*)\]$", text, re.MULTILINE)
    assert len(listed) > 10
    for path, members in listed:
        owner = getattr(sparsecert, path) if path in sparsecert.__all__ else import_module(f"sparsecert.{path}")
        for member in filter(None, members.split(", ")):
            assert hasattr(owner, member), f"{path}.{member}"


@pytest.mark.parametrize("words", ["certify mnist-k45 --data mnist --limits 3", "report --format x a", "records join"])
def test_a_command_that_is_not_understood_is_noticed(words: str) -> None:
    with pytest.raises(Exception, match=r"No such|Invalid|not one of"):
        understand(words.split())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_script_runs(example: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As it is, from another folder; nothing is left behind."""
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert not [*tmp_path.iterdir()]


def test_three_scripts_and_each_is_listed() -> None:
    assert len(EXAMPLES) == 3
    listed = re.findall(r"^\| `(\w+\.py)`", (ROOT / "examples" / "README.md").read_text(), flags=re.MULTILINE)
    assert sorted(listed) == [example.name for example in EXAMPLES]


def test_the_site_is_built_and_fetches_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {page.stem for page in PAGES} | {"404"} == {page.stem for page in site.glob("*.html")}
    for page in site.rglob("*.html"):
        assert not FETCHED.search(page.read_text()), page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", sheet.read_text()), sheet


def test_every_page_is_in_the_navigation() -> None:
    named = re.findall(r"^ +- .+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    assert sorted(named) == [page.name for page in PAGES]
