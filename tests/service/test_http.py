"""What is asked over HTTP, as documented: answers, refusals by their number and sentence, and who may ask."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import sys
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from pydantic_core import from_json

from sparsecert import InputError, NullChannels, Smoothed, Uniform
from sparsecert.encodings import PROTECTED, Grouped
from sparsecert.service import Limits, Service, serve
from sparsecert.service.app import FILES
from sparsecert.service.guarantees import certificate_guarantee
from tests.service.made import SHAPE, asked, image, metric, network, png, post, small, smoothed


def _get(service: Service, path: str, **more: Any) -> httpx.Response:
    return asked(service, lambda client: client.get(path, **more))


def _values(number: int = 0) -> list[Any]:
    values: list[Any] = image(number)[0].tolist()
    return values


def test_health_and_card(service: Service) -> None:
    assert _get(service, "/health").json()["status"] == "ok"
    card = _get(service, "/v1/model").json()
    assert card["shape"] == list(SHAPE)
    assert card["classes"] == ["a", "b", "c"]
    assert card["scheme"] == {"kind": "uniform", "units": 16, "keep": 4}
    assert card["limits"]["samples"] == 3_000
    assert not card["exact"]
    assert card["largest_radius"] == len(service.handlers.smoothed.scheme.deltas) - 2
    assert _get(service, "/v1/digits").json() == []


def test_a_picture_is_answered_as_its_values_are(service: Service) -> None:
    data, settings = png(), {"n": 300, "seed": 1}
    pixels = torch.tensor([13 * place % 256 for place in range(16)]).view(1, 4, 4) / 255
    by_values = post(service, "/v1/predict", {"values": pixels.tolist(), **settings}).json()
    in_base64 = post(service, "/v1/predict", {"image": base64.b64encode(data).decode(), **settings}).json()
    for content in (data, png(mode="RGB"), png(mode="RGBA")):
        raw = asked(service, lambda client, content=content: client.post(
            "/v1/predict/image", params=settings, content=content, headers={"content-type": "image/png"}
        ))  # fmt: skip
        assert raw.json() == in_base64 == by_values
    certified = asked(service, lambda client: client.post(
        "/v1/certify/image", params={"n0": 50, "n": 300, "seed": 2}, content=data
    ))  # fmt: skip
    body = {"values": pixels.tolist(), "n0": 50, "n": 300, "seed": 2}
    assert certified.json() == post(service, "/v1/certify", body).json()


def test_each_request_has_a_seed_of_its_own_unless_it_names_one(service: Service) -> None:
    seeds = {post(service, "/v1/predict", {"values": _values(), "n": 5}).json()["seed"] for _ in range(5)}
    assert len(seeds) == 5
    assert max(seeds) < 1 << 53  # a number that JavaScript holds exactly
    answer = post(service, "/v1/predict", {"values": _values(), "n": 200}).json()
    again = post(service, "/v1/predict", {"values": _values(), "n": 200, "seed": answer["seed"]}).json()
    assert again == answer


def test_a_row_of_a_table_is_taken_as_it_is() -> None:
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(10, 2))
    made = serve(Smoothed(net, Uniform(5, 2), NullChannels()), shape=(5,))
    answer = post(made, "/v1/certify", {"values": [1e6, -3, 0, 2.5, 7], "n0": 20, "n": 100, "seed": 0})
    assert answer.status_code == 200, answer.text
    assert answer.json()["against"] == "features"
    refused = post(made, "/v1/predict", {"image": base64.b64encode(png()).decode()})
    assert refused.status_code == 422
    assert "not images" in refused.json()["detail"]
    made.close()


REFUSED = [
    ({}, "exactly one of values, image, row and text"),
    ({"values": [1], "image": "x"}, "exactly one of values, image, row and text"),
    ({"values": [[[0.0] * 4] * 3]}, "values[0] must have 4 entries, got 3"),
    ({"values": [[[0.0] * 3 + [2]] * 4]}, "between 0 and 1"),
    ({"values": [[[0.0] * 3 + ["1"]] * 4]}, "values[0][0][3] must be a number, got '1'"),
    ({"values": [[[0.0] * 3 + [True]] * 4]}, "must be a number, got True"),
    ({"values": [[[0.0] * 3 + [10**400]] * 4]}, "must be finite"),
    ({"values": [[[[]] * 4] * 4]}, "must be a number, got a list"),
    ({"values": [[[0.0] * 4] * 2 + [[0.0] * 2 + [True, None]] + [["x"] * 4]]}, "values[0][2][2] must be a number"),
    ({"values": [[[0.0] * 4, 0.5, [0.0] * 4, [0.0] * 4]]}, "values[0][1] must be a list of 4"),
    ({"values": "x"}, "values: Input should be a valid list"),
    ({"image": "&"}, "base64"),
    ({"image": ""}, "empty"),
    ({"image": base64.b64encode(b"GIF89a").decode()}, "cannot be decoded"),
    ({"image": base64.b64encode(png(5, 4)).decode()}, "is 5 x 4 pixels, the model takes 4 x 4"),
    ({"image": base64.b64encode(png(mode="I;16")).decode()}, "8 bits"),
    ({"image": base64.b64encode(png(mode="LA")).decode()}, "transparent"),
    ({"values": 0, "n": 3_001}, "n"),
    ({"n": 0}, "n: Input should be greater than or equal to 1"),
    ({"n": 2.5}, "n: Input should be a valid integer"),
    ({"n": "10"}, "n: Input should be a valid integer"),
    ({"alpha": 0}, "alpha"),
    ({"alpha": 1e-9, "n": 3_000, "seed": -1}, "seed"),
    ({"seed": 1 << 64}, "seed"),
    ({"sede": 1}, "sede is not a known field"),
    ({"rule": "plurality"}, "rule is for a fixed set of masks"),
]  # fmt: skip


def test_numbers_in_json_are_read_as_python_reads_them() -> None:
    """Random bits as doubles, written by repr and to 30 digits, which fall between two doubles."""
    bits = np.random.default_rng(0).integers(0, 1 << 64, 20_000, dtype=np.uint64)
    doubles = bits.view(np.float64)
    values = [*doubles[np.isfinite(doubles)].tolist(), 0.1, 5e-324, 1e308, 2**63, -(10**30)]
    texts = [repr(value) for value in values] + [f"{value:.30e}" for value in values[:2_000]]
    text = f"[{', '.join(texts)}]"
    assert from_json(text) == json.loads(text)


@pytest.mark.parametrize(("body", "sentence"), REFUSED, ids=[str(index) for index in range(len(REFUSED))])
def test_what_cannot_be_used_is_refused_by_a_sentence(service: Service, body: dict[str, Any], sentence: str) -> None:
    given = body if {"values", "image"} & set(body) or not body else {"values": _values(), **body}
    refused = post(service, "/v1/predict", given)
    assert refused.status_code == 422
    assert sentence in refused.json()["detail"]
    assert len(refused.json()["detail"]) < 310


@pytest.mark.parametrize(
    ("path", "headers", "content", "status", "sentence"),
    [
        ("/v1/predict", {"content-type": "application/x-www-form-urlencoded"}, b"{}", 422, "Content-Type: application"),
        ("/v1/predict", {"content-type": "application/json"}, b"[]", 422, 'such as {"values": [...], "n": 1000}'),
        ("/v1/predict", {"content-type": "application/json"}, b"", 422, "the body must be JSON"),
        ("/v1/predict", {"content-type": "application/json"}, b'{"n": 1', 422, "the body is not JSON"),
        ("/v1/predict", {"content-type": "application/json"}, '{"n": 1}'.encode("utf-16"), 422, "the body is not JSON"),
        ("/v1/predict", {"content-encoding": "gzip"}, b"", 415, "without Content-Encoding"),
        ("/v1/predict/image", {"content-type": "multipart/form-data; boundary=b"}, b"--b", 422, "not as a form"),
        ("/v1/model", {}, b"", 405, "only takes GET"),
        ("/model", {}, b"", 404, "nothing at this path"),
    ],
)
def test_a_body_or_path_of_another_kind_is_refused_by_a_sentence(
    service: Service, path: str, headers: dict[str, str], content: bytes, status: int, sentence: str
) -> None:
    refused = asked(service, lambda client: client.post(path, headers=headers, content=content))
    assert refused.status_code == status
    assert sentence in refused.json()["detail"]


def test_a_head_is_answered_as_a_get_without_its_body(service: Service) -> None:
    for path, status in (("/", 200), ("/health", 200), ("/v1/model", 200), ("/v1/predict", 405), ("/nothing", 404)):
        head, get = asked(service, lambda client, path=path: client.head(path)), _get(service, path)
        assert (head.status_code, head.content) == (status, b"")
        assert head.headers["content-length"] == get.headers["content-length"] == str(len(get.content))


def test_more_samples_than_the_limit_are_refused_before_any_work(service: Service) -> None:
    before = metric(service.handlers.metrics, "sparsecert_copies_total")
    for path, more in (
        ("/v1/predict", {"n": 3_001}),
        ("/v1/certify", {"n0": 1, "n": 3_000}),
        ("/v1/certify", {"sampling": "sequential", "max_samples": 3_001}),
        ("/v1/certify", {"sampling": "sequential", "max_samples": 3_001, "stream": True}),
    ):
        refused = post(service, path, {"values": _values(), **more})
        assert refused.status_code == 422
        assert "at most 3,000" in refused.json()["detail"]
    assert metric(service.handlers.metrics, "sparsecert_copies_total") == before


def test_settings_that_do_not_go_together_are_refused_also_where_a_stream_was_asked(service: Service) -> None:
    for more, sentence in (
        ({"sampling": "sequential", "n": 10}, "n is for sampling=fixed"),
        ({"max_samples": 10}, "max_samples is for sampling=sequential"),
        ({"sampling": "sequential", "n0": 500, "max_samples": 400}, "max_samples must be above n0"),
        ({"against": "patches"}, "against is for a fixed set of masks"),
    ):
        refused = post(service, "/v1/certify", {"values": _values(), "stream": True, **more})
        assert refused.status_code == 422
        assert sentence in refused.json()["detail"]


def test_a_fixed_set_of_masks_refuses_what_is_for_chance() -> None:
    made = small(exact=True)
    refused = post(made, "/v1/certify", {"values": _values(), "alpha": 0.01})
    assert refused.status_code == 422
    assert "the 4 masks of this model are fixed" in refused.json()["detail"]
    certified = post(made, "/v1/certify", {"values": _values(), "against": "patches"})
    assert certified.json()["against"] == "patches"
    assert "patch" in certified.json()["guarantee"]
    assert _get(made, "/v1/model").json()["masks"] == 4
    made.close()


def test_answers_and_the_card_say_which_class_is_elected() -> None:
    made = serve(replaced(smoothed(), bound="pairwise"), limits=Limits(samples=3_000))
    card = _get(made, "/v1/model").json()
    assert (card["rule"], card["answer"]) == ("pairwise", "the class that beats every other one")
    assert "changes the answer (the class that beats every other one)." in card["guarantee"]
    for settings, rule in (({}, "pairwise"), ({"bound": "one-sided"}, "plurality")):
        body = {"values": _values(), "seed": 1, **settings}
        predicted = post(made, "/v1/predict", {**body, "n": 300}).json()
        for sampling in ({"n0": 50, "n": 300}, {"sampling": "sequential", "n0": 50, "max_samples": 900}):
            found = post(made, "/v1/certify", {**body, **sampling}).json()
            assert (predicted["rule"], found["rule"]) == (rule, rule)
            assert found["bound"] == settings.get("bound", "pairwise")
    made.close()
    exact = serve(replaced(smoothed(exact=True), rule="plurality"))
    assert _get(exact, "/v1/model").json()["rule"] == "plurality"
    assert post(exact, "/v1/certify", {"values": _values()}).json()["rule"] == "plurality"
    assert post(exact, "/v1/predict", {"values": _values(), "rule": "run-off"}).json()["rule"] == "run-off"
    exact.close()


def replaced(g: Smoothed, **own: str) -> Smoothed:
    g.metadata.update(own)
    return g


def test_as_many_groups_as_pixels_are_not_called_pixels() -> None:
    groups = np.array([[[0, 0], [1, 1]], [[2, 2], [3, 3]], [[0, 1], [2, PROTECTED]]])  # a pixel is in three of the four
    encoding, scheme = Grouped(NullChannels(), groups), Uniform(units=4, keep=1)
    made = serve(Smoothed(lambda copies: copies.flatten(1)[:, :2], scheme, encoding), shape=(3, 2, 2))
    answer = post(made, "/v1/certify", {"values": np.zeros((3, 2, 2)).tolist(), "n0": 10, "n": 100}).json()
    assert answer["against"] == "units"
    assert (
        "units changes the answer (the class with most votes), as long as the 1 protected entries are unchanged"
        in answer["guarantee"]
    )
    made.close()


def test_a_body_that_is_too_large_is_refused_while_it_is_read(service: Service) -> None:
    declared = asked(service, lambda client: client.post("/v1/predict", content=b" " * 20_001))
    assert declared.status_code == 413
    assert "20,000 bytes" in declared.json()["detail"]
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1_000):
            sent += 1
            yield b" " * 1_000

    chunked = asked(service, lambda client: client.post("/v1/predict", content=endless()))
    assert chunked.status_code == 413
    assert sent < 30
    lied = asked(service, lambda client: client.post("/v1/predict", content=b"{}", headers={"content-length": "-1"}))
    assert lied.status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    made = small(limits=Limits(seconds=1))

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(30)

    assert asked(made, lambda client: client.post("/v1/predict", content=never())).status_code == 408
    made.close()


def test_a_reader_who_does_not_read_gives_up_the_place_and_the_work() -> None:
    made = small(limits=Limits(samples=1_000_000, concurrency=1, seconds=1))
    body = json.dumps({"values": _values(), "n": 900_000, "stream": True}).encode()
    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/certify", "headers": headers, "query_string": b""}

    bodies = [body]

    async def receive() -> dict[str, Any]:
        if not bodies:
            await asyncio.sleep(600)
        return {"type": "http.request", "body": bodies.pop(), "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await asyncio.sleep(600)

    asyncio.run(made.app(scope, receive, send))  # type: ignore[arg-type]
    assert metric(made.handlers.metrics, "sparsecert_requests_in_flight") == 0
    made.close()
    assert metric(made.handlers.metrics, "sparsecert_copies_total") < 900_000


def test_one_request_too_many_is_asked_to_retry_and_none_is_lost() -> None:
    made = small(limits=Limits(samples=100_000, concurrency=3))
    body = {"values": _values(), "n": 3_000}

    async def crowd(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post("/v1/predict", json=body) for _ in range(9)))

    answers = asked(made, crowd)
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(refused) == 6
    assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
    assert "3 requests" in refused[0].json()["detail"]
    assert sum(answer.status_code == 200 for answer in answers) == 3
    assert post(made, "/v1/predict", body).status_code == 200  # the places are free again
    made.close()


def test_a_token_is_asked_of_everything_but_the_page_and_health() -> None:
    made = small(token="s3cret")
    for path in ("/health", "/", "/docs", "/page.css", "/page.js", "/service.js", "/docs.js"):
        assert _get(made, path).status_code == 200
    for path in ("/v1/model", "/v1/digits", "/metrics", "/openapi.json", "/nothing"):
        assert _get(made, path).status_code == 401
        for wrong in ("Bearer wrong", "Basic s3cret", "Bearer", "s3cret", "Bearer s3cret2"):
            assert _get(made, path, headers={"authorization": wrong}).status_code == 401
        assert _get(made, path, headers={"authorization": "Bearer s3cret"}).status_code in (200, 404)
    refused = post(made, "/v1/predict", {"values": _values()})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    made.close()


def test_a_closed_service_says_so() -> None:
    made = small()
    made.close()
    assert post(made, "/v1/predict", {"values": _values(), "n": 10}).status_code == 503


def test_a_model_that_fails_is_a_500_for_its_request_and_the_service_goes_on() -> None:
    made = small()
    base = made.handlers.batcher._base

    def broken(*_: Any) -> torch.Tensor:
        raise RuntimeError("device lost")

    base.scores = broken  # type: ignore[method-assign]
    failed = post(made, "/v1/predict", {"values": _values(), "n": 10})
    assert failed.status_code == 500
    assert "device lost" not in failed.text
    assert failed.headers["x-content-type-options"] == "nosniff"
    labels = {"method": "POST", "path": "/v1/predict", "status": "500"}
    assert made.handlers.metrics.registry.get_sample_value("sparsecert_requests_total", labels) == 1
    del base.scores
    assert post(made, "/v1/predict", {"values": _values(), "n": 10}).status_code == 200
    made.close()


def test_every_answer_has_the_security_headers_and_the_page_loads_nothing_from_outside(service: Service) -> None:
    for path in ("/", "/page.js", "/page.css", "/health", "/nothing"):
        answer = _get(service, path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    page = "".join(_get(service, path).text for path in FILES)
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    for path in ("/", "/docs"):
        assert not re.findall(r"<script(?! src=)|\son\w+=|style=|javascript:", _get(service, path).text)


def test_the_page_addresses_everything_relative_to_itself(service: Service) -> None:
    for path in FILES:
        text = _get(service, path).text
        assert not re.findall(r"""(?:href|src)="/|request\(["'`]/|from ["'`]/""", text)
        found = re.findall(r"""(?:href|src)="([\w.]+)"|request\("([\w./]+)"|from "\./([\w.]+)\"""", text)
        for name in filter(None, itertools.chain(*found)):
            if name != "." and not name.startswith("v1/predict") and not name.startswith("v1/certify"):
                assert _get(service, f"/{name}").status_code == 200


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("cert.example.org", None, 200),
        ("CERT.example.org:8443", "https://cert.example.org:8443", 200),
        ("127.0.0.1:8000", "http://127.0.0.1:8000", 200),
        ("[::1]:8000", None, 200),
        ("10.0.0.7:8000", "https://cert.example.org", 200),  # a proxy that sends its own Host
        ("evil.example", None, 421),  # a name that its owner has pointed here
        ("evil.example", "http://evil.example", 421),
        ("cert.example.org.evil.example", None, 421),
        ("", None, 421),
        ("[", None, 421),
        ("127.0.0.1:8000", "http://127.0.0.1:9000", 403),  # another program of this machine
        ("cert.example.org", "https://evil.example", 403),
        ("cert.example.org", "https://cert.example.org.evil.example", 403),
        ("cert.example.org", "null", 403),
    ],
)
def test_another_host_and_a_page_of_another_origin_are_refused(host: str, origin: str | None, status: int) -> None:
    made = serve(smoothed(), hosts={"cert.example.org"})
    headers = {"host": host} | ({} if origin is None else {"origin": origin})
    assert _get(made, "/health", headers=headers).status_code == status
    body = {"values": _values(), "n": 10}
    answer = asked(made, lambda client: client.post("/v1/predict", json=body, headers=headers))
    assert answer.status_code == status
    assert status == 200 or "--allow-host" in answer.json()["detail"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    made.close()


def test_the_access_log_is_one_line_a_request_that_nobody_can_forge(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="sparsecert.access")
    _get(service, "/health")
    post(service, "/v1/predict", {"values": 0})
    _get(service, "/a%0Ab%20200?token=s3cret")
    _get(service, "/" + "x" * 5_000)
    lines = [re.sub(r"[\d.]+ s$", "SECONDS", line) for line in caplog.messages]
    assert lines[:3] == [
        "127.0.0.1 GET /health 200 SECONDS",
        "127.0.0.1 POST /v1/predict 422 SECONDS",
        "127.0.0.1 GET /a%0Ab%20200 404 SECONDS",
    ]
    assert len(lines) == 4
    assert len(lines[3]) < 300


def test_metrics_count_what_happened() -> None:
    made = small()
    answered = post(made, "/v1/predict", {"values": _values(), "n": 100}).json()
    outcome = "abstained" if answered["abstained"] else "answered"
    post(made, "/v1/predict", {"values": 0})
    _get(made, "/nothing/" + "x" * 50)
    answer = _get(made, "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(answer.text))
    types = {family.name: family.type for family in families if family.name.startswith("sparsecert")}
    assert types == {
        "sparsecert_requests": "counter", "sparsecert_request_seconds": "histogram",
        "sparsecert_requests_in_flight": "gauge", "sparsecert_jobs": "gauge", "sparsecert_forward_passes": "counter",
        "sparsecert_copies": "counter", "sparsecert_pass_requests": "counter", "sparsecert_answers": "counter",
    }  # fmt: skip
    found = {(s.name, *sorted(s.labels.values())): s.value for family in families for s in family.samples}
    assert found["sparsecert_requests_total", "/v1/predict", "200", "POST"] == 1
    assert found["sparsecert_requests_total", "/v1/predict", "422", "POST"] == 1
    assert found["sparsecert_requests_total", "404", "GET", "other"] == 1
    assert found["sparsecert_copies_total",] == 100
    assert found["sparsecert_request_seconds_bucket", "+Inf", "/v1/predict"] == 2
    assert found["sparsecert_request_seconds_count", "/v1/predict"] == 2
    assert found["sparsecert_requests_in_flight",] == 1  # the one that asks
    assert found["sparsecert_answers_total", outcome, "predict"] == 1
    assert sys.platform != "linux" or found["process_resident_memory_bytes",] > 1 << 20
    assert not any(name.endswith("_created") for name, *_ in found)
    made.close()


def test_a_model_whose_shape_nobody_says_is_refused() -> None:
    with pytest.raises(InputError, match="--shape"):
        serve(Smoothed(network(), Uniform(16, 4)))
    made = serve(Smoothed(network(), Uniform(16, 4)), shape=SHAPE)
    assert _get(made, "/v1/model").json()["classes"] == ["0", "1", "2"]
    made.close()


def test_the_document_describes_every_path_and_refusal(service: Service) -> None:
    document = _get(service, "/openapi.json").json()
    paths = set(document["paths"])
    assert paths == {
        "/health", "/metrics", "/v1/model", "/v1/digits",
        "/v1/predict", "/v1/predict/image", "/v1/certify", "/v1/certify/image",
    }  # fmt: skip
    for path in paths:
        if "post" in document["paths"][path]:
            assert {"200", "401", "408", "413", "422", "429", "503"} <= set(
                document["paths"][path]["post"]["responses"]
            )


@pytest.mark.parametrize("alpha", [0.05, 1e-9, 1.04e-9, 0.123456789876, 0.5, 1 / 3])
def test_a_guarantee_promises_no_more_than_alpha_leaves(alpha: float) -> None:
    said = re.search(
        r"with probability at least (0\.\d+) over the random masks",
        certificate_guarantee(3, "pixels", alpha, "plurality"),
    )
    assert said is not None
    assert Fraction(said[1]) == 1 - Fraction(str(alpha))
