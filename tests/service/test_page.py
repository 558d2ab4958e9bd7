"""The page in a real browser: a digit is certified and attacked, by mouse, by finger and by keyboard alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.service.browser import VARIABLE, chromium, opened
from tests.service.running import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright", reason="the page is tested with playwright")
pytestmark = [
    pytest.mark.check,
    pytest.mark.skipif(
        chromium() is None, reason=f"no Chromium: install it, or name one in {VARIABLE}, to test the page in a browser"
    ),
]
LONG = 60_000


@pytest.fixture(scope="module")
def address(trained: Path) -> Iterator[str]:
    with running(trained) as (_, address):
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as browser:
        yield browser


def _page(browser: Browser, address: str, **context: Any) -> tuple[Page, list[str]]:
    """The page, loaded, and the list of everything that goes wrong on it or is fetched from elsewhere."""
    page, wrong = browser.new_context(**context).new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((address, "data:")) else wrong.append(asked.url))
    page.goto(address)
    page.locator("#digits button").first.wait_for()
    return page, wrong


def _shot(page: Page, name: str) -> None:
    """A picture of the page, where SPARSECERT_SHOTS names a folder for them."""
    if folder := os.environ.get("SPARSECERT_SHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def _certified(page: Page) -> int:
    page.locator("#attacked").wait_for(timeout=LONG)
    return int(page.locator("#radius").inner_text())


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("desktop", {"viewport": {"width": 1280, "height": 900}}),
        ("phone", {"viewport": {"width": 360, "height": 740}, "has_touch": True, "color_scheme": "dark"}),
    ],
)
def test_certify_a_digit_and_change_its_pixels(browser: Browser, address: str, name: str, context: Any) -> None:
    page, wrong = _page(browser, address, **context)
    _shot(page, f"{name}-1-chosen")
    page.locator("#digits button").nth(3).click()
    assert page.locator("#digits button").nth(3).get_attribute("aria-pressed") == "true"
    page.locator("#certify").click()
    page.locator("#copies li").first.wait_for(timeout=LONG)
    _shot(page, f"{name}-2-under-way")
    radius = _certified(page)
    says = page.locator("#says").inner_text()
    assert says.startswith("Certified.")
    assert f"up to {radius} pixel" in says or radius == 0
    assert sum(int(text.replace(",", "")) for text in page.locator("#votes td:last-child").all_inner_texts()) > 50
    assert "probability between" in (page.locator("#votes svg").first.get_attribute("aria-label") or "")
    board = page.locator("#board")
    box = board.bounding_box()
    assert box is not None
    for column in (1, 4, 6):
        place = {"x": (column + 0.5) * box["width"] / 8, "y": 3.5 * box["height"] / 8}
        if context.get("has_touch"):
            board.tap(position=place)
        else:
            board.click(position=place)
    assert f"3 pixels perturbed; certified radius {radius}." in page.locator("#changed").inner_text()
    verdict = page.locator("#verdict", has_text=re.compile("answer is|Abstained"))
    verdict.wait_for(timeout=LONG)
    within = "Within the radius" if radius >= 3 else "Beyond the radius"
    assert within in page.locator("#why").inner_text() or "votes cannot decide" in page.locator("#why").inner_text()
    _shot(page, f"{name}-3-attacked")
    page.locator("#undo").click()
    assert "0 pixels perturbed" in page.locator("#changed").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= context["viewport"]["width"]
    assert wrong == []
    page.context.close()


def test_the_keyboard_alone_is_enough(browser: Browser, address: str) -> None:
    page, wrong = _page(browser, address, reduced_motion="reduce", viewport={"width": 800, "height": 900})
    assert page.locator("#certify").evaluate(
        "(button) => { button.focus(); return document.activeElement === button; }"
    )
    page.keyboard.press("Enter")
    radius = _certified(page)
    page.locator("#board").focus()
    for _ in range(3):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "row 2, column 4" in page.locator("#cursor").inner_text()
    assert f"3 pixels perturbed; certified radius {radius}." in page.locator("#changed").inner_text()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")
    assert "2 pixels perturbed" in page.locator("#changed").inner_text()
    assert wrong == []
    page.context.close()


def test_a_digit_of_ones_own_and_one_that_is_stopped(browser: Browser, address: str) -> None:
    page, wrong = _page(browser, address)
    page.locator("#clear").click()
    board = page.locator("#board")
    box = board.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 20, steps=5)
    page.mouse.up()
    drawn = board.evaluate(
        "(board) => board.getContext('2d').getImageData(0, 0, board.width, board.height).data.reduce((a, b) => a + b)"
    )
    assert drawn > 255 * board.evaluate("(board) => board.width * board.height")  # more than the opaque black ground
    page.locator("#certify").click()
    page.locator("#says", has_text=re.compile(r"Certified\.|too close")).wait_for(timeout=LONG)
    assert wrong == []
    page.context.close()


def test_the_page_asks_for_the_token(browser: Browser, trained: Path) -> None:
    with running(trained, SPARSECERT_TOKEN="s3cret") as (_, address):
        page = browser.new_context().new_page()
        page.goto(address)
        page.locator("#token").fill("s3cret")
        page.locator("#token-form button").click()
        page.locator("#digits button").first.wait_for()
        assert page.locator("#token-form").is_hidden()
        page.context.close()
