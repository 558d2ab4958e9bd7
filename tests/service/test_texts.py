"""A model of texts as a service: texts of any length, answered as `Smoothed` answers them, and struck on the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from sparsecert.schemes import Partition, Scheme, Share
from sparsecert.service import Limits, Service, serve
from sparsecert.service.texts import TextParser
from sparsecert.smoothed import Smoothed
from sparsecert.training.texts import TextRecipe, train_texts
from tests.service.browser import VARIABLE, chromium, opened
from tests.service.made import asked, post, small
from tests.service.running import running
from tests.texts.made import smoothed, write_tsv

TEXTS = ["great film was fine", "dull", "it was a poor plot the film was awful", "great", "a fine film"]
SETTINGS = {"n0": 40, "n": 150, "seed": 3}


@pytest.fixture(scope="module", params=[Share("0.3"), Partition(None, 100)], ids=str)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Smoothed, Any, Service]]:
    scheme: Scheme = request.param
    g, reader = smoothed(scheme)
    service = serve(g, name="texts", parser=TextParser(reader), limits=Limits(body=20_000, samples=3_000), rows=37)
    yield g, reader, service
    service.close()


def _settings(g: Smoothed) -> dict[str, Any]:
    return {} if isinstance(g.scheme, Partition) else SETTINGS


def test_texts_of_different_lengths_are_answered_at_once_as_each_is_alone(
    served: tuple[Smoothed, Any, Service],
) -> None:
    g, reader, service = served

    async def ask(client: httpx.AsyncClient) -> list[Any]:
        bodies = [{"text": text, **_settings(g)} for text in TEXTS]
        return await asyncio.gather(*(client.post("/v1/certify", json=body) for body in bodies))

    for text, answer in zip(TEXTS, asked(service, ask), strict=True):
        inputs = torch.from_numpy(reader.batch([text]))
        found, own = answer.json(), g.certify(inputs, **_settings(g))
        assert (found["label"], found["radius"]) == (own[0].label, own[0].radius)
        assert found["votes"] == own.counts[0].tolist()
        assert found["against"] == "words"
        asks = {"n": 150, "seed": 3} if _settings(g) else {}
        predicted, alone = post(service, "/v1/predict", {"text": text, **asks}).json(), g.predict(inputs, **asks)
        assert predicted["votes"] == alone.counts[0].tolist()


def test_a_stream_shows_the_words_that_copies_retain(served: tuple[Smoothed, Any, Service]) -> None:
    g, _, service = served
    more = {"sampling": "sequential", "n0": 40, "max_samples": 400} if _settings(g) else {}
    answer = post(service, "/v1/certify", {"text": TEXTS[2], "stream": True, "copies": 4, **more})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[-1]["event"] == "certificate"
    shown = [copy["retained"] for line in lines[:-1] for copy in line["copies"]]
    assert shown
    assert all(max(places) < 9 for places in shown)


def test_what_is_no_text_is_refused(served: tuple[Smoothed, Any, Service]) -> None:
    _, _, service = served
    for body, message in (
        ({"text": ""}, "0 words"),
        ({"text": " \n"}, "0 words"),
        ({"values": [1.0]}, "takes texts"),
        ({"row": {"a": 1}}, "takes texts"),
        ({"image": "aGk="}, "takes texts"),
        ({"text": "a", "values": [1.0]}, "exactly one"),
    ):
        answer = post(service, "/v1/certify", body)
        assert answer.status_code in (400, 422)
        assert message in answer.json()["detail"]
    card = asked(service, lambda client: client.get("/v1/model")).json()
    assert (card["units"], card["text_unit"], card["largest_radius"]) == ("words", "word", None)


def test_an_image_model_takes_no_texts() -> None:
    service = small()
    assert "takes no texts" in post(service, "/v1/certify", {"text": "a"}).json()["detail"]
    service.close()


@pytest.mark.check
@pytest.mark.skipif(chromium() is None, reason=f"no Chromium: install it, or name one in {VARIABLE}")
def test_words_are_struck_on_the_page(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="the page is tested with playwright")
    recipe = TextRecipe(epochs=2, vote_epochs=2, batch=16, rate=0.02)
    train_texts(write_tsv(tmp_path / "t.tsv", 200), "sentence", "label", Partition(None, 100), tmp_path / "m", recipe)
    with running(tmp_path / "m") as (_, address), opened() as browser:
        page, wrong = browser.new_page(), list[str]()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address)
        page.locator("#main").wait_for()
        page.locator("#certify").click()
        page.get_by_text("The text is empty").wait_for()
        page.locator("#typed").fill("great film superb plot fine great")
        page.locator("#certify").click()
        page.locator("#words button").first.wait_for()
        assert page.locator("#words button").all_inner_texts() == ["great", "film", "superb", "plot", "fine", "great"]
        page.locator("#instead").fill("awful")
        page.locator("#words button").nth(0).click()
        page.get_by_text("1 word perturbed").wait_for()
        page.get_by_text("The answer is still good").wait_for()
        for place in (2, 4, 5):
            page.locator("#words button").nth(place).click()
        page.get_by_text("4 words perturbed").wait_for()
        page.get_by_text("Broken: the answer is now bad").wait_for()
        page.locator("#words button").nth(2).click()
        page.get_by_text("3 words perturbed").wait_for()
        page.locator("#again").click()
        page.locator("#typed").wait_for()
        assert not wrong
