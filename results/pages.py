"""Writes the tables of README.md and docs/: each marker block is made from records, from what a
benchmark printed, or from the registries.

    <!-- results: table-1 -->
    ...
    <!-- end of results -->

`python -m results.pages` writes every block anew, or those that are named; with `--check` it writes nothing, lists the
blocks that are stale, and exits with 1 if there are any. The prose around the blocks is free.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from results import printed, recorded
from results.markdown import markdown
from sparsecert.registry import REGISTRIES

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))
START, END = "<!-- results: {} -->", "<!-- end of results -->"
MARKER = re.compile(rf"^(?:{START.format('(.+)')}|{END})$", re.MULTILINE)
KINDS = {"bound": "certificate", "rule": "election rule"}  # where the page says more than the command line


def registered() -> str:
    """Everything that is chosen by name."""
    headers = "kind", "folder", "registry", "entry points", "built in"
    return markdown(
        headers,
        (
            (
                KINDS.get(registry.kind, registry.kind),
                f"`src/sparsecert/{registry.folder}`",
                f"`{registry.variable}`",
                f"`{registry.group}`",
                ", ".join(f"`{name}`" for name in registry),
            )
            for registry in REGISTRIES
        ),
    )


BLOCKS: dict[str, Callable[[], str]] = {**recorded.BLOCKS, **printed.BLOCKS, "registered": registered}


@dataclass(frozen=True)
class Block:
    """The text between two markers of a page."""

    page: Path
    name: str
    text: str

    def write(self, text: str) -> None:
        """Replaces the text."""
        start = START.format(self.name)
        before, _, rest = self.page.read_text().partition(start)
        _, _, after = rest.partition(END)
        self.page.write_text(f"{before}{start}\n\n{text}\n\n{END}{after}")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page; an unknown name, or a marker without its counterpart, is an error."""
    blocks = []
    text = page.read_text()
    markers = list(MARKER.finditer(text))
    for start, end in zip_longest(markers[::2], markers[1::2]):
        if start[1] is None:
            raise SystemExit(f"{page}: {END} closes no block")
        if start[1] not in BLOCKS:
            raise SystemExit(f"{page}: unknown block {start[1]!r}, must be one of {', '.join(sorted(BLOCKS))}")
        if end is None or end[1] is not None:
            raise SystemExit(f"{page}: block {start[1]!r} is not closed by {END}")
        blocks.append(Block(page, start[1], text[start.end() : end.start()].strip()))
    return blocks


def all_blocks() -> list[Block]:
    """The blocks of all pages; one that no page shows, or that is shown twice, is an error."""
    blocks = [block for page in PAGES for block in blocks_of(page)]
    names = [block.name for block in blocks]
    for name in BLOCKS:
        if names.count(name) != 1:
            raise SystemExit(f"block {name!r} must be in one page, it is in {names.count(name)}")
    return blocks


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write the numbers of README.md and docs/ from results/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a block is stale")
    parser.add_argument("names", nargs="*", metavar="BLOCK", help="blocks to write or check (default: all)")
    asked = parser.parse_args(arguments)
    if unknown := {*asked.names} - {*BLOCKS}:
        parser.error(f"unknown block {', '.join(sorted(unknown))}; there are {', '.join(sorted(BLOCKS))}")
    blocks = [block for block in all_blocks() if block.name in (asked.names or BLOCKS)]
    made = {block: BLOCKS[block.name]() for block in blocks}
    stale = [block for block in blocks if block.text != made[block]]
    for block in stale:
        print(f"{block.page.relative_to(ROOT)}: {block.name} {'is stale' if asked.check else 'written'}")
        if not asked.check:
            block.write(made[block])
    return 1 if asked.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
