"""The page in a real browser: digits, pictures and rows, by mouse, by finger and by keyboard alone."""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

from sparsecert import Smoothed, datasets
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
def mnist() -> Iterator[str]:
    with running("mnist-lattice-28") as (_, address):
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
    page.locator("#main").wait_for()
    return page, wrong


def _draw(page: Page, points: list[tuple[float, float]], side: int = 28) -> None:
    """A stroke by mouse, through points in pixels of the image."""
    page.locator("#clear").click()
    page.locator("#board").scroll_into_view_if_needed()
    box = page.locator("#board").bounding_box()
    assert box is not None
    for number, (x, y) in enumerate(points):
        page.mouse.move(
            box["x"] + (x + 0.5) * box["width"] / side, box["y"] + (y + 0.5) * box["height"] / side, steps=6
        )
        if not number:
            page.mouse.down()
    page.mouse.up()


def _prepared(page: Page, pixels: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], str]:
    """What the page makes of a grey picture, and what it says about it."""
    height, width = pixels.shape
    script = """async ({values, width, height}) => {
        const {asMnist} = await import("./picture.js");
        const made = asMnist({values: Uint8ClampedArray.from(values), width, height});
        return [Array.from(made.values), made.note];
    }"""
    values, note = page.evaluate(script, {"values": pixels.flatten().tolist(), "width": width, "height": height})
    return np.array(values, dtype=np.uint8).reshape(28, 28), note


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


def test_a_digit_anywhere_in_any_size_is_brought_back_to_where_mnist_has_it(browser: Browser, mnist: str) -> None:
    page, wrong = _page(browser, mnist)
    sample = datasets.load("mnist-sample", "test").images.batch(range(12))[:, 0]
    for number, digit in enumerate(sample):
        times = 3 + number % 4
        large = Image.fromarray(digit).resize((28 * times, 28 * times), Image.Resampling.BICUBIC)
        canvas = np.zeros((40 * times, 50 * times), dtype=np.uint8)
        canvas[7 * times : 35 * times, 20 * times : 48 * times] = np.asarray(large)
        made, note = _prepared(page, canvas)
        assert note
        y, x = np.mgrid[:28, :28] + 0.5
        ink = made.astype(float)
        assert abs((x * ink).sum() / ink.sum() - 14.5) < 0.3
        assert abs((y * ink).sum() / ink.sum() - 14.5) < 0.3
        rows, columns = (np.flatnonzero((made > 25).any(axis=axis)) for axis in (1, 0))
        assert abs(max(np.ptp(rows), np.ptp(columns)) + 1 - 20) <= 1
        assert np.corrcoef(made.flatten(), digit.flatten())[0, 1] > 0.85
    assert wrong == []
    page.context.close()


def test_a_digit_that_is_as_mnist_has_it_stays_as_it_is(browser: Browser, mnist: str) -> None:
    page, _ = _page(browser, mnist)
    for digit in datasets.load("mnist-sample", "test").images.batch(range(20))[:, 0]:
        made, note = _prepared(page, digit)
        assert np.array_equal(made, digit)
        assert note == ""
    page.context.close()


def test_a_drawing_is_centred_and_the_page_says_so(browser: Browser, mnist: str) -> None:
    page, wrong = _page(browser, mnist)
    _draw(page, [(3, 3), (12, 3), (7, 17)])
    page.locator("#certify").click()
    _certified(page)
    assert "The answer is 7" in page.locator("#says").inner_text()
    assert page.locator("#before").is_visible()
    assert page.locator("#done").inner_text()
    _shot(page, "drawn")
    page.locator("#again").click()
    page.locator("#centre").uncheck()
    _draw(page, [(3, 3), (12, 3), (7, 17)])
    page.locator("#certify").click()
    page.locator("#says", has_text=re.compile(r"Certified\.|too close")).wait_for(timeout=LONG)
    assert page.locator("#before").is_hidden()
    assert wrong == []
    page.context.close()


SEVEN = [(3.0, 3.5), (12.0, 3.0), (7.0, 17.0)]


def _on_board(page: Page) -> npt.NDArray[np.uint8]:
    """The image on the board; the corner of a pixel's square is its colour."""
    script = """(board) => {
        const context = new OffscreenCanvas(board.width, board.height).getContext("2d");
        context.drawImage(board, 0, 0);
        return [board.width, Array.from(context.getImageData(0, 0, board.width, board.height).data)];
    }"""
    side, values = page.locator("#board").evaluate(script)
    shown = np.array(values, dtype=np.uint8).reshape(side, side, 4)
    return shown[:: side // 28, :: side // 28, 0]


def _pen(points: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """A stroke 2.6 pixels wide with an edge of one pixel, by the exact distance of each pixel to its segments."""
    pixels = np.stack(np.meshgrid(np.arange(28) + 0.5, np.arange(28) + 0.5), axis=-1)
    distances = []
    for start, end in itertools.pairwise(points):
        along = np.clip((pixels - start) @ (end - start) / ((end - start) @ (end - start)), 0, 1)
        distances.append(np.linalg.norm(pixels - start - along[..., None] * (end - start), axis=-1))
    return 255 * np.clip(1.3 + 0.5 - np.min(distances, axis=0), 0, 1)


@pytest.mark.parametrize(("size", "x", "y"), [(1.0, 0.0, 0.0), (0.6, 15.0, 2.0), (1.5, 5.0, 1.0)])
def test_a_drawing_gets_the_pen_of_mnist_whatever_its_size(
    browser: Browser, mnist: str, size: float, x: float, y: float
) -> None:
    drawn = size * np.array(SEVEN) + (x, y)
    page, wrong = _page(browser, mnist)
    _draw(page, [(float(column), float(row)) for column, row in drawn])
    assert np.abs(_on_board(page) - _pen(drawn + 0.5)).max() < 16  # the mouse moves by whole pixels of the screen
    page.locator("#certify").click()
    _certified(page)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    scaled = (20 - 2 * 1.3) / (high - low).max() * (drawn - low)
    ink = _pen(scaled + 1.3)
    rows, columns = np.mgrid[:28, :28] + 0.5
    mass = np.array([(columns * ink).sum(), (rows * ink).sum()]) / ink.sum()
    made = _on_board(page).astype(float)
    assert np.abs(made - _pen(scaled + 1.3 + 14.5 - mass)).max() < 32
    assert np.abs((columns * made).sum() / made.sum() - 14.5) < 0.1
    assert np.abs((rows * made).sum() / made.sum() - 14.5) < 0.1
    assert wrong == []
    page.context.close()


def test_an_eraser_takes_strokes_back(browser: Browser, mnist: str) -> None:
    page, wrong = _page(browser, mnist)
    _draw(page, [(4, 4), (4, 20)])
    kept = _on_board(page)
    page.locator("#board").focus()
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    assert not np.array_equal(_on_board(page), kept)
    page.keyboard.press("Backspace")
    page.locator("#board").blur()
    assert np.array_equal(_on_board(page), kept)
    assert wrong == []
    page.context.close()


@pytest.mark.parametrize(
    "strokes",
    [[], [(9, 9), (9, 9.1)], [(x, y) for y in range(0, 28, 2) for x in ((0, 27) if y % 4 else (27, 0))]],
    ids=["empty", "dot", "full"],
)
def test_what_looks_like_no_digit_is_said_and_not_certified(
    browser: Browser, mnist: str, strokes: list[tuple[float, float]]
) -> None:
    page, wrong = _page(browser, mnist)
    page.locator("#clear").click()
    if strokes:
        _draw(page, strokes)
    page.locator("#certify").click()
    page.locator("#says", has_text="looks like no digit").wait_for()
    assert page.locator("#attacked").is_hidden()
    assert page.locator("#certify").is_visible()
    assert wrong == []
    page.context.close()


def test_every_shipped_digit_looks_like_a_digit(browser: Browser, mnist: str, address: str) -> None:
    script = """async (side) => {
        const {noDigit} = await import("./picture.js"), digits = await (await fetch("v1/digits")).json();
        return digits.map(({values}) => noDigit({values, width: side, height: side}));
    }"""
    for service, side in ((mnist, 28), (address, 8)):
        page, _ = _page(browser, service)
        assert page.evaluate(script, side) == [None] * 100
        page.context.close()


def test_a_picture_of_a_digit_on_paper_can_be_chosen(browser: Browser, mnist: str, tmp_path: Path) -> None:
    page, wrong = _page(browser, mnist)
    digit = datasets.load("mnist-sample", "test").images.batch([0])[0, 0]
    paper = Image.new("RGB", (300, 200), (240, 235, 225))
    ink = Image.fromarray(digit).resize((112, 112), Image.Resampling.BICUBIC)
    paper.paste((30, 30, 60), (20, 60), ink)
    paper.save(tmp_path / "paper.png")
    page.locator("#file").set_input_files(tmp_path / "paper.png")
    page.locator("#done", has_text="paper.png, 300 x 200 pixels. Inverted.").wait_for()
    page.locator("#certify").click()
    _certified(page)
    shown = datasets.load("mnist-sample", "test")
    assert f"The answer is {shown.labels[0]}" in page.locator("#says").inner_text()
    (tmp_path / "text.png").write_text("no picture")
    page.locator("#again").click()
    page.locator("#file").set_input_files(tmp_path / "text.png")
    page.locator("#trouble", has_text="text.png is not a picture").wait_for()
    assert wrong == []
    page.context.close()


def test_a_colour_picture_that_is_dropped_is_certified_as_it_is(browser: Browser) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    picture = Image.fromarray(pixels).resize((32, 32), Image.Resampling.BILINEAR)
    inputs = torch.from_numpy(np.asarray(picture).copy()).permute(2, 0, 1)[None].float() / 255
    alone = Smoothed.load("cifar10-grid-8").certify(inputs)[0]
    drop = """async (values) => {
        const canvas = new OffscreenCanvas(32, 32), context = canvas.getContext("2d");
        context.putImageData(new ImageData(Uint8ClampedArray.from(values), 32, 32), 0, 0);
        const data = new DataTransfer();
        data.items.add(new File([await canvas.convertToBlob()], "dropped.png", {type: "image/png"}));
        document.getElementById("board").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
    }"""
    with running("cifar10-grid-8") as (_, address):
        page, wrong = _page(browser, address)
        assert "digit" not in page.locator("body").inner_text()
        page.evaluate(drop, np.asarray(picture.convert("RGBA")).flatten().tolist())
        page.locator("#done", has_text="dropped.png, 32 x 32 pixels: as it is").wait_for()
        page.locator("#certify").click()
        assert alone.label is not None
        assert _certified(page) == alone.radius
        page.locator("input[value=colour]").check()
        page.locator("#board").click()
        assert "1 pixel perturbed" in page.locator("#changed").inner_text()
        page.locator("#verdict", has_text=re.compile("answer is|Abstained")).wait_for(timeout=LONG)
        assert wrong == []
        page.context.close()


def test_a_row_of_a_table_has_a_form(browser: Browser, tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the tables extra is not installed")
    from tests.service.test_rows import _served

    served = _served(tmp_path, 7)
    served.service.close()
    row = {**served.rows()[1], "f2": None}
    with running(served.model) as (_, address):
        answer = httpx.post(f"{address}/v1/certify", json={"row": row}).json()
        page, wrong = _page(browser, address, viewport={"width": 390, "height": 844})
        assert "digit" not in page.locator("body").inner_text()
        page.locator("#certify").click()
        page.locator("#says", has_text="The row is empty").wait_for()
        for name, value in row.items():
            field = page.get_by_label(re.compile(f"^{name}( |$)"))
            if isinstance(value, str) and value != "?":
                field.select_option(value)
            elif isinstance(value, float):
                field.fill(json.dumps(value))
        page.locator("#certify").click()
        assert _certified(page) == answer["radius"]
        assert f"The answer is {answer['name']}" in page.locator("#says").inner_text()
        page.get_by_label("f1").fill("7")
        page.get_by_label("f2").fill("7")  # with f1 it is one unit
        assert page.locator("#changed").inner_text().startswith("1 feature perturbed")
        page.get_by_label("f3").fill("7")
        assert "A protected value changed" in page.locator("#why").inner_text()
        page.locator("#verdict", has_text=re.compile("answer is|Abstained")).wait_for(timeout=LONG)
        _shot(page, "row")
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert wrong == []
        page.context.close()


def test_on_a_phone_the_verdict_is_in_view_while_one_paints(browser: Browser, mnist: str) -> None:
    page, wrong = _page(browser, mnist, viewport={"width": 390, "height": 664}, has_touch=True)
    board = page.locator("#board")
    drawn, below = board.bounding_box(), page.locator("#answer").bounding_box()
    assert drawn is not None
    assert below is not None
    assert drawn["y"] + drawn["height"] <= below["y"]  # nothing covers the board while one draws
    page.locator("#certify").click()
    _certified(page)
    board.evaluate("(board) => board.scrollIntoView()")
    for x in (20, 60, 100):
        board.tap(position={"x": x, "y": 300})
    page.locator("#verdict", has_text=re.compile("answer is|Abstained")).wait_for(timeout=LONG)
    _shot(page, "phone")
    image, answer = board.bounding_box(), page.locator("#answer").bounding_box()
    assert image is not None
    assert answer is not None
    assert image["y"] >= 0
    assert image["y"] + image["height"] <= answer["y"] + 1
    assert answer["y"] + answer["height"] <= 664 + 1
    for part in ("#changed", "#verdict"):
        box = page.locator(part).bounding_box()
        assert box is not None
        assert answer["y"] <= box["y"] <= 664 - box["height"]
    assert wrong == []
    page.context.close()


@contextmanager
def _proxied(address: str, prefix: str) -> Iterator[str]:
    """The address of a proxy that serves the service below a path of its own."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("content-length", 0))
            inside = self.path.startswith(prefix)
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            answer = httpx.request(
                self.command, address + "/" + self.path.removeprefix(prefix), headers=headers,
                content=self.rfile.read(length) or None, timeout=60,
            ) if inside else httpx.Response(404)  # fmt: skip
            self.send_response(answer.status_code)
            for name in ("content-type", "content-security-policy"):
                self.send_header(name, answer.headers.get(name, ""))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}{prefix}"
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_below_a_path_of_a_proxy_the_page_and_the_description_work(browser: Browser, address: str) -> None:
    with _proxied(address, "/some/path/") as below:
        page, wrong = _page(browser, below)
        page.locator("#digits button").first.wait_for()
        page.locator("#certify").click()
        _certified(page)
        page.get_by_role("link", name="API").click()
        page.locator("section").first.wait_for()
        assert page.url == f"{below}docs"
        operations = [text.split()[:2] for text in page.locator("section h2").all_inner_texts()]
        described = httpx.get(f"{address}/openapi.json").json()["paths"]
        assert operations == [[method.upper(), path] for path, methods in described.items() for method in methods]
        assert page.locator("section", has_text="/v1/certify").get_by_text("tolerance").first.is_visible()
        assert wrong == []
        page.context.close()
