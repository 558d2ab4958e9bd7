"""The examples of a page, in the order in which a reader meets them, and how each is run.

Blocks of Python share their names, and blocks of commands their folder. Settings that decide how long an example takes,
and nothing else, are made smaller. What a block needs that is not here is said before it, by a comment
`<!-- needs: ... -->`, which a reader does not see; of such commands it is tested that they are understood.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from sparsecert import modelfile, schemes
from sparsecert.cli import cli
from sparsecert.schemes import FixedMasks

ROOT = Path(__file__).parent.parent
FENCED = re.compile(
    r"(?:^<!-- needs: (?P<needs>[^>]+) -->\n+)?^```(?P<language>\w+)[^\n]*\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
COMMANDS = "console", "bash", "sh"
ELSEWHERE = ". ", "python3 -m venv ", "pip install "  # set-up: tests/test_dist.py installs the package
ENDLESS = {"serve"}  # runs until it is stopped


@dataclass(frozen=True)
class Block:
    """One example: its language, its text, and what it needs that a test does not have."""

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


def run_page(text: str, needs_met: bool = False) -> None:
    """Runs all examples of a page in this folder; those that need something only where it is there."""
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks_of(text):
        run_block(block, names, needs_met)


def run_block(block: Block, names: dict[str, Any], needs_met: bool) -> None:
    """Runs an example; `names` are those that the page's Python has made so far."""
    if block.language == "python":
        smaller = block.text.replace("10_000", "400").replace("1_000", "50")
        exec(compile(smaller, "<page>", "exec", dont_inherit=True), names)
    elif block.language in COMMANDS:
        assert block.commands, f"a command begins with '$ ': {block.text}"
        for line in block.commands:
            run_command(line, only_understood=block.needs is not None and not needs_met)


def run_command(line: str, only_understood: bool = False) -> None:
    if line.startswith(ELSEWHERE):
        return
    words = shlex.split(re.sub(r"^torchrun .*-m sparsecert", "sparsecert", line), comments=True)
    assert words[0] == "sparsecert", f"neither run nor understood: {line}"
    if only_understood or words[1] in ENDLESS or line.startswith("torchrun"):
        understand(words[1:])
        return
    result = CliRunner().invoke(cli, [*words[1:], *_smaller(words[1:])])
    assert result.exit_code == 0, f"{line}\n{result.output}{result.exception!r}"


def understand(words: list[str]) -> None:
    """Parses a command as it would be before it runs: an unknown command, option or value is an error."""
    command: click.Command = cli
    context = cli.make_context("sparsecert", list(words))
    while isinstance(command, click.Group):
        name, found, rest = command.resolve_command(context, [*getattr(context, "_protected_args", ()), *context.args])
        assert found is not None
        command, context = found, found.make_context(name, rest, parent=context)


def _smaller(words: list[str]) -> list[str]:
    """Options that come last and so replace the ones that are shown."""
    verb, model = words[0], words[1]
    if verb == "train" and Path(model).is_file():
        return ["--copies", "2"]
    if verb == "train":
        return ["--epochs", "2", "--device", "cpu"]
    if verb == "attack":
        return ["--n", "100", "--device", "cpu"]
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
