"""Malformed and hostile requests, hundreds of them from the OpenAPI document: refused by a sentence, never a 500."""

from __future__ import annotations

import asyncio
import json
import random
import tracemalloc
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx
import pytest

from sparsecert import InputError
from sparsecert.service import Service
from sparsecert.service.parsing import from_file
from tests.service import hostile
from tests.service.made import SHAPE, asked, image, metric, post, small

EXPECTED = {200, 401, 404, 405, 408, 413, 415, 422, 429}


@pytest.mark.parametrize("exact", [False, True], ids=["random masks", "fixed masks"])
def test_no_request_breaks_the_service(exact: bool) -> None:
    body = {"values": image()[0].tolist(), **({} if exact else {"n": 500, "seed": 7})}
    seen = answered_with(small(exact), body, each=120)
    assert {*seen} <= EXPECTED
    assert seen[422] > 120
    assert seen[200] > 10  # the edges of what is allowed are among them


def answered_with(
    service: Service, body: dict[str, Any], given: hostile.Given | None = None, each: int = 120
) -> Counter[int]:
    """Sends hostile requests, looks at every answer and counts the status codes; `body` is of a good request.

    Closes the service.
    """
    before = post(service, "/v1/predict", body).json()
    document = asked(service, lambda client: client.get("/openapi.json")).json()

    async def all_of_them(client: httpx.AsyncClient) -> list[tuple[hostile.Hostile, httpx.Response]]:
        answered, waiting = [], list(hostile.requests(document, seed=1, each=each, given=given))
        for start in range(0, len(waiting), 8):  # some together, so that one who is refused meets one who is not
            some = waiting[start : start + 8]
            answers = await asyncio.gather(*(_sent(client, one) for one in some))
            answered += list(zip(some, answers, strict=True))
        return answered

    answered = asked(service, all_of_them)
    assert len(answered) > 4 * each
    for request, answer in answered:
        assert answer.status_code in EXPECTED, (request, answer.text)
        if answer.status_code >= 400 and request.method != "HEAD":
            assert isinstance(answer.json()["detail"], str), request
            assert 3 < len(answer.json()["detail"]) < 400
        elif request.method == "POST" and answer.headers["content-type"].startswith("application/x-ndjson"):
            assert json.loads(answer.text.splitlines()[-1])["event"] == "certificate"
    assert metric(service.handlers.metrics, "sparsecert_requests_in_flight") == 0
    assert post(service, "/v1/predict", body).json() == before  # and it still answers as it did
    service.close()
    return Counter(answer.status_code for _, answer in answered)


async def _sent(client: httpx.AsyncClient, one: hostile.Hostile) -> httpx.Response:
    headers = {name: value.encode("latin-1") for name, value in one.headers.items()}
    return await client.request(one.method, one.path, content=one.content, params=one.params or None, headers=headers)


@pytest.mark.parametrize("kind", [hostile.bomb, hostile.text_bomb, hostile.longer_than_it_says])
def test_a_bomb_is_not_set_off(kind: hostile.Kind) -> None:
    """Decoding takes no more memory than the image that the model takes, and a little."""
    for seed in range(6):
        data = kind(random.Random(seed))
        tracemalloc.start()
        with suppress(InputError):
            from_file(data, SHAPE)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 24 << 20


@pytest.mark.parametrize(("side", "sentence"), [(5, "is 5 x 5"), (9_400, "is 9400 x 9400"), (100_000, "far larger")])
def test_a_picture_of_another_size_is_refused_by_its_size(side: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_file(hostile.made_png(side, side), SHAPE)


def test_what_is_repeated_in_a_refusal_is_short(service: Service) -> None:
    refused = post(service, "/v1/predict", {"values": [[["x" * 10_000] * 4] * 4]} | {"n": 5})
    assert refused.status_code in (413, 422)
    refused = post(service, "/v1/predict", {"values": [[["x" * 1_000] * 4]]})
    assert len(refused.text) < 400
