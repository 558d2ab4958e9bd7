"""The examples of a page, in the order in which a reader meets them, and how each is run.

Blocks of Python share their names, and blocks of commands their folder. Settings that decide how long an example takes,
and nothing else, are made smaller. `sparsecert serve` is started once, on a free port, and runs until the page's end;
what the page asks of the port that it names is asked of that one. What a block needs besides is said before it, by a
comment `<!-- needs: ... -->`, which a reader does not see: a test that has it runs the block, in others its commands
are only understood. Commands of several processes run in one.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from sparsecert import modelfile, schemes
from sparsecert.cli import cli
from sparsecert.schemes import FixedMasks
from studies.levine_feizi_2020.command import NAME, command
from tests.service.running import running

ROOT = Path(__file__).parent.parent
FENCED = re.compile(
    r"(?:^<!-- needs: (?P<needs>[^>]+) -->\n+)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
COMMANDS = "console", "bash", "sh"
ELSEWHERE = ". ", "python3 -m venv ", "pip install "  # set-up: tests/test_dist.py installs the package


@dataclass(frozen=True)
class Block:
    """One example: its language, its text, and what it needs besides."""

    language: str
    text: str
    needs: str | None

    @property
    def commands(self) -> list[str]:
        """The lines after a prompt; the others are what the command prints."""
        return [line[2:] for line in self.text.splitlines() if line.startswith("$ ")]


def blocks_of(text: str) -> Iterator[Block]:
    for found in FENCED.finditer(text):
        yield Block(found["language"], found["text"], found["needs"])


@dataclass
class Reader:
    """Runs examples one after the other: what the page's Python has named, and the services that it has started."""

    has: Collection[str] = ()
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    services: dict[str, str] = field(default_factory=dict)  # the address that the page shows, and the real one
    ending: ExitStack = field(default_factory=ExitStack)

    def run(self, block: Block) -> None:
        """Runs an example; one that needs something only where it is there."""
        if block.language == "python":
            if file := re.match(r"# (\w+\.py)\n", block.text):  # a file of the reader's, which commands may import
                Path(file[1]).write_text(block.text)
                self.ending.callback(sys.modules.pop, Path(file[1]).stem, None)
            smaller = self._there(block.text.replace("10_000", "400").replace("1_000", "50"))
            exec(compile(smaller, "<page>", "exec", dont_inherit=True), self.names)
        elif block.language in COMMANDS:
            assert block.commands, f"a command begins with '$ ': {block.text}"
            for line in block.commands:
                self.run_command(line, only_understood=block.needs not in (None, *self.has))

    def run_command(self, line: str, only_understood: bool) -> None:
        if line.startswith(ELSEWHERE):
            return
        if line == "export PYTHONPATH=.":
            self.ending.enter_context(pytest.MonkeyPatch.context()).syspath_prepend(Path.cwd())
            return
        if line.startswith("curl "):
            self._curl(line)
            return
        if line.startswith(f"{NAME} "):
            self._study(line, only_understood)
            return
        words = shlex.split(re.sub(r"^torchrun .*-m sparsecert", "sparsecert", line), comments=True)
        assert words[0] == "sparsecert", f"neither run nor understood: {line}"
        if only_understood:
            understand(words[1:])
        elif words[1] == "serve":
            understand(words[1:])
            self._serve(words[2:])
        else:
            result = CliRunner().invoke(cli, [*words[1:], *_smaller(words[1:])])
            assert result.exit_code == 0, f"{line}\n{result.output}{result.exception!r}"

    def _study(self, line: str, only_understood: bool) -> None:
        words = shlex.split(line.removeprefix(NAME))
        command.make_context(NAME, list(words))
        if not only_understood:
            smaller = ["--epochs", "1", "--limit", "3", "--n0", "20", "--n", "50"] if "--epochs" in words else []
            result = CliRunner().invoke(command, [*words, *smaller])
            assert result.exit_code == 0, f"{line}\n{result.output}{result.exception!r}"

    def _serve(self, words: list[str]) -> None:
        port = words[words.index("--port") + 1] if "--port" in words else "8000"
        _, address = self.ending.enter_context(running(*words))  # the free port comes last, and so is the one taken
        self.services[f"http://127.0.0.1:{port}"] = address

    def _curl(self, line: str) -> None:
        if shutil.which("curl") is None:
            pytest.skip("the page asks its service by curl, which is not here")
        asked = self._there(line)
        assert asked != line, f"it asks a service that the page has not started: {line}"
        done = subprocess.run(["bash", "-c", f"{asked} --fail-with-body"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert done.stdout

    def _there(self, text: str) -> str:
        """The same of the services that run."""
        for shown, address in self.services.items():
            text = text.replace(shown, address)
        return text


def run_page(text: str, has: Collection[str] = ()) -> None:
    """Runs all examples of a page in this folder, but those that need something that is not there."""
    reader = Reader(has)
    with reader.ending:
        for block in blocks_of(text):
            reader.run(block)


def understand(words: list[str]) -> None:
    """Parses a command as it would be before it runs: an unknown command, option or value is an error."""
    asked: click.Command = cli
    context = cli.make_context("sparsecert", list(words))
    while isinstance(asked, click.Group):
        name, found, rest = asked.resolve_command(context, [*getattr(context, "_protected_args", ()), *context.args])
        assert found is not None
        asked, context = found, found.make_context(name, rest, parent=context)


def _smaller(words: list[str]) -> list[str]:
    """Options that come last and so replace the ones that are shown."""
    verb, model = words[0], words[1]
    if "imagenet" in words and verb not in ("data", "info"):  # a residual network of 50 layers
        few = ["--limit", "2", "--n0", "4", "--n", "16"]
        return ["--device", "cpu", *(["--epochs", "1"] if verb == "train" else few)]
    if verb == "train" and Path(model).is_file():
        return [] if "partition" in words else ["--copies", "2"]
    if verb == "train":
        return ["--epochs", "2", "--device", "cpu"]
    if verb == "attack":
        few = ["--limit", "3", "--n", "100", "--device", "cpu"]
        if "pointwise" in words:
            return [*few, "--rounds", "1", "--restarts", "1"]
        return few if "--attack" in words else [*few, "--steps", "3", "--queries", "5", "--rounds", "1"]
    if verb not in ("certify", "predict"):
        return []
    of_a_table = modelfile.read_header(model).get("kind") == "table"
    few = ["--limit", "6", *([] if of_a_table else ["--device", "cpu"])]
    if "sequential" in words:
        return [*few, "--n0", "20", "--max-samples", "300"]
    scheme = schemes.from_config(modelfile.read_header(model)["scheme"])
    if isinstance(scheme, FixedMasks):
        return few
    return [*few, "--n", "200", *(["--n0", "20"] if verb == "certify" else [])]
