"""The numbers of the pages are those of the committed records; how the pages put them into words is free."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from results import pages

pytestmark = pytest.mark.check


@pytest.mark.parametrize("name", pages.BLOCKS)
def test_a_block_is_current(name: str) -> None:
    (block,) = (block for block in pages.all_blocks() if block.name == name)
    assert block.text == pages.BLOCKS[name](), f"stale in {block.page.name}: run `make results`"


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.stem)
def test_no_table_of_numbers_is_written_by_hand(page: Path) -> None:
    """A column that is set to the right is one of numbers."""
    outside = re.sub(r"(?s)<!-- results: .*?<!-- end of results -->", "", page.read_text())
    assert not re.findall(r"^\|.*---:.*\|$", outside, flags=re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pages with two blocks, one of them stale."""
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", (tmp_path / "README.md", tmp_path / "docs" / "a.md"))
    monkeypatch.setattr(pages, "BLOCKS", {"one": lambda: "| 1 |", "two": lambda: "| 2 |"})
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text(_page("one", "| 0 |") + _page("two", "| 2 |"))
    (tmp_path / "README.md").write_text("nothing\n")
    return tmp_path


def _page(name: str, text: str) -> str:
    return f"Before.\n\n<!-- results: {name} -->\n\n{text}\n\n<!-- end of results -->\n\nAfter.\n"


def test_what_is_stale_is_named_and_then_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "docs" / "a.md").read_text()
    assert pages.main(["--check"]) == 1
    assert capsys.readouterr().out == "docs/a.md: one is stale\n"
    assert (folder / "docs" / "a.md").read_text() == before
    assert pages.main([]) == 0
    assert (folder / "docs" / "a.md").read_text() == _page("one", "| 1 |") + _page("two", "| 2 |")
    assert pages.main(["--check"]) == 0


def test_only_the_blocks_that_are_named_are_written(folder: Path) -> None:
    assert pages.main(["two", "--check"]) == 0
    assert pages.main(["one", "--check"]) == 1
    with pytest.raises(SystemExit):
        pages.main(["three"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_page("three", ""), "unknown block 'three'"),
        ("<!-- results: one -->\n", "'one' is not closed"),
        ("<!-- results: one -->\n<!-- results: two -->\n<!-- end of results -->\n", "'one' is not closed"),
        ("<!-- end of results -->\n", "closes no block"),
        (_page("one", ""), "block 'one' must be in one page, it is in 2"),
    ],
)
def test_a_wrong_marker_is_refused(folder: Path, text: str, reason: str) -> None:
    (folder / "README.md").write_text(text)
    with pytest.raises(SystemExit, match=reason):
        pages.main(["--check"])


def test_a_block_that_no_page_shows_is_refused(folder: Path) -> None:
    (folder / "docs" / "a.md").write_text(_page("one", ""))
    with pytest.raises(SystemExit, match="block 'two' must be in one page, it is in 0"):
        pages.main(["--check"])
