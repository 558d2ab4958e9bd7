"""Whoever else asks at the same time, a request is answered what `Smoothed` answers alone."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest
import torch

from sparsecert import Sequential
from sparsecert.procedures import Exact, Fixed
from sparsecert.results import Predictions
from sparsecert.schemes import ENUMERATION
from sparsecert.service import Service
from sparsecert.service.batching import (
    Batcher,
    Begin,
    Job,
    QueuedCopies,
    ShuttingDown,
    VoteTask,
    allocate_rows,
    draw_masks,
)
from sparsecert.service.metrics import Metrics
from tests.service.made import asked, image, metric, small, smoothed

BOUNDS = "two-sided", "pairwise", "one-sided"


def _prediction(n: int, seed: int = 0) -> Begin[Predictions]:
    """The steps of a prediction from n copies."""
    return lambda voter, queue: Fixed(n=n).predict(
        QueuedCopies(voter, smoothed().check(image()), [0], seed, queue=queue), 0.05
    )


def _bodies() -> list[tuple[str, dict[str, Any]]]:
    """Requests of every kind, each with an image, seed and example number of its own."""
    found = []
    for number in range(24):
        common = {"values": image(number)[0].tolist(), "seed": number // 2, "example": number % 5}
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("/v1/predict", {"n": 101 + number, "bound": BOUNDS[number % 4 // 2]}),
            ("/v1/certify", {"n0": 40, "n": 300 + number, "bound": BOUNDS[number // 3 % 3]}),
            ("/v1/certify", {"sampling": "sequential", "n0": 50, "max_samples": 900, "bound": BOUNDS[number // 3 % 3]}),
        ]
        path, more = kinds[number % 3]
        found.append((path, {**common, **more}))
    return found


def _alone(path: str, body: dict[str, Any]) -> dict[str, Any]:
    g, x = smoothed(), torch.tensor(body["values"])[None]
    chance: dict[str, Any] = {"seed": body["seed"], "examples": [body["example"]]}
    if path == "/v1/predict":
        p = g.predict(x, Fixed(n=body["n"], bound=body["bound"]), **chance)
        return {"label": p.answers[0], "votes": p.counts[0].tolist()}
    if "sampling" in body:
        c = g.certify(x, procedure=Sequential(body["max_samples"], body["n0"], bound=body["bound"]), **chance)
    else:
        c = g.certify(x, Fixed(body["n0"], body["n"], body["bound"]), **chance)
    return {
        "label": c[0].label,
        "radius": c[0].radius,
        "votes": c.counts[0].tolist(),
        "selection": c.selection.votes[0].tolist(),
        "samples": int(c.samples[0]),
    }


@pytest.mark.parametrize("rows", [1, 37, 4096])
def test_the_answer_is_that_of_smoothed_alone_whatever_is_in_the_batch(rows: int) -> None:
    service, bodies = small(rows=rows), _bodies()[: 6 if rows == 1 else None]

    async def all_at_once(client: httpx.AsyncClient) -> list[httpx.Response]:
        return await asyncio.gather(*(client.post(path, json=body) for path, body in bodies))

    answers = asked(service, all_at_once)
    metrics = service.handlers.metrics
    service.close()
    for (path, body), answer in zip(bodies, answers, strict=True):
        assert answer.status_code == 200, answer.text
        given = answer.json()
        expected = _alone(path, body)
        assert {name: given[name] for name in expected} == expected
    if rows > 1:
        passes = metric(metrics, "sparsecert_forward_passes_total")
        assert metric(metrics, "sparsecert_pass_requests_total") > 1.5 * passes  # requests did share passes


def test_a_fixed_set_of_masks_votes_as_it_does_alone() -> None:
    service, g = small(exact=True), smoothed(exact=True)

    async def all_at_once(client: httpx.AsyncClient) -> list[httpx.Response]:
        bodies = [{"values": image(number)[0].tolist(), "rule": "plurality"} for number in range(8)]
        paths = ["/v1/certify", "/v1/predict"] * 4
        return await asyncio.gather(*(client.post(path, json=body) for path, body in zip(paths, bodies, strict=True)))

    for number, answer in enumerate(asked(service, all_at_once)):
        c = g.certify(image(number), Exact("plurality"))
        given = answer.json()
        assert given["label"] == c.labels[0]
        assert given["votes"] == c.counts[0].tolist()
        assert given["alpha"] is None
        if number % 2 == 0:
            assert given["radius"] == c.radii[0]
    service.close()


@pytest.mark.parametrize(("rows", "jobs"), [(37, 2), (9, 5)])
def test_requests_for_fixed_masks_that_ask_the_same_become_one_job(rows: int, jobs: int) -> None:
    """With 4 masks, 9 rows take 2 inputs: 7 certificates by plurality are 4 jobs, one by another rule is a fifth."""
    service, g, free = small(exact=True, rows=rows), smoothed(exact=True), threading.Event()
    batcher, submitted = service.handlers.batcher, []

    def busy(voter: Any, queue: Any) -> Any:
        free.wait(60)
        yield from ()

    def submit(*arguments: Any) -> Any:
        submitted.append(submit_one(*arguments))
        return submitted[-1]

    submit_one = batcher.submit
    submit_one(busy)
    batcher.submit = submit  # type: ignore[method-assign]
    rules = ["plurality"] * 4 + ["pairwise"] + ["plurality"] * 3

    async def all_at_once(client: httpx.AsyncClient) -> list[Any]:
        bodies = [{"values": image(number)[0].tolist(), "rule": rule} for number, rule in enumerate(rules)]
        tasks = [asyncio.ensure_future(client.post("/v1/certify", json=body)) for body in bodies]
        while metric(service.handlers.metrics, "sparsecert_requests_in_flight") < len(tasks) or len(submitted) < jobs:
            await asyncio.sleep(0.01)
        tasks[1].cancel()  # leaves, which is no matter to the others
        await asyncio.sleep(0.01)
        free.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asked(service, all_at_once)
    service.close()
    assert len(submitted) == jobs
    assert metric(service.handlers.metrics, "sparsecert_copies_total") == 4 * len(rules)
    if rows == 37:  # all in one pass
        assert metric(service.handlers.metrics, "sparsecert_pass_requests_total") == len(rules)
    assert isinstance(answers.pop(1), asyncio.CancelledError)
    for number, answer in zip([0, *range(2, 8)], answers, strict=True):
        c, given = g.certify(image(number), Exact(rules[number])), answer.json()
        assert (given["label"], given["radius"], given["votes"]) == (c.labels[0], c.radii[0], c.counts[0].tolist())


def test_masks_drawn_together_are_those_drawn_task_by_task() -> None:
    random, fixed = smoothed().scheme, smoothed(exact=True).scheme
    votes = torch.zeros(4).long().numpy()
    settings = [(random, 3, 7), (random, 1, 7), (random, 1, 8), (fixed, 0, 0), (fixed, 0, 0), (random, 1, 8)]
    shares = []
    for number, (scheme, example, seed) in enumerate(settings):
        first = ENUMERATION if scheme is fixed else 5 * number
        task = VoteTask(image(), scheme, example, seed, range(first, first + 4), votes, counted=number % 3)
        shares.append((task, 1 + number % 2))
    alone = [
        task.scheme.masks(task.seed, [task.example], list(task.draws)[task.counted : task.counted + rows])[0]
        for task, rows in shares
    ]
    which = torch.repeat_interleave(torch.arange(len(shares)), torch.tensor([rows for _, rows in shares]))
    assert torch.equal(draw_masks(shares, which), torch.cat(alone))


@pytest.mark.parametrize("bound", ["two-sided", "pairwise"])
@pytest.mark.parametrize("sampling", ["fixed", "sequential"])
def test_a_stream_ends_with_the_certificate_and_its_radii_only_grow(
    service: Service, sampling: str, bound: str
) -> None:
    more: dict[str, Any] = {"n0": 60, "n": 900} if sampling == "fixed" else {"n0": 60, "max_samples": 2_000}
    settings = {"sampling": sampling, "bound": bound, **more}
    for number in range(5):
        body = {"values": image(number)[0].tolist(), "seed": 3, "stream": True, "copies": 2, **settings}
        answer = asked(service, lambda client, body=body: client.post("/v1/certify", json=body))
        assert answer.headers["content-type"].startswith("application/x-ndjson")
        *before, last = [json.loads(line) for line in answer.text.splitlines()]
        assert last["event"] == "certificate"
        assert all(line["event"] == "progress" for line in before)
        alone = asked(
            service, lambda client, body=body: client.post("/v1/certify", json={**body, "stream": False, "copies": 0})
        ).json()
        assert {**last, "event": None} == {**alone, "event": None}
        radii = [-1 if line["radius"] is None else line["radius"] for line in before]
        assert radii == sorted(radii)
        if sampling == "fixed":
            assert set(radii) == {-1}  # no certificate before the last vote
        else:
            assert radii[-1] == (-1 if last["radius"] is None else last["radius"])
        assert [line["samples"] for line in before] == sorted({line["samples"] for line in before})


def test_the_copies_of_a_stream_are_those_that_voted(service: Service) -> None:
    body = {"values": image()[0].tolist(), "seed": 5, "example": 2, "n0": 10, "n": 80, "stream": True, "copies": 16}
    text = asked(service, lambda client: client.post("/v1/certify", json=body)).text
    g, x = smoothed(), image()
    seen = [copy for line in text.splitlines() for copy in json.loads(line).get("copies", ())]
    assert len(seen) > 10
    for copy in seen:
        draw = -1 - copy["draw"] if copy["draw"] < 0 else (1 << 40) + copy["draw"]
        mask = g.scheme.masks(5, [2], [draw])[0]
        assert mask[0].nonzero().flatten().tolist() == copy["retained"]
        assert g.model(g.encoding(x.double(), mask)).argmax().item() == copy["label"]


def test_rows_are_allocated_evenly_and_none_is_wasted() -> None:
    def task(left: int) -> tuple[Job[Any], VoteTask]:
        job: Job[Any] = Job(lambda voter, queue: iter(()), None)  # type: ignore[arg-type,return-value]
        return job, VoteTask(image(), smoothed().scheme, 0, 0, range(left), torch.zeros(4).long().numpy())

    def shares(rows: int, *left: int) -> list[int]:
        return [taken for *_, taken in allocate_rows(rows, [task(one) for one in left])]

    assert shares(10, 100) == [10]
    assert shares(10, 3) == [3]
    assert shares(10, 100, 100) == [5, 5]
    assert shares(10, 2, 100, 1) == [2, 7, 1]
    assert shares(2, 5, 5, 5) == [1, 1]
    assert shares(12, *[100] * 9) == [3] * 4
    assert shares(12, *[1] * 20) == [1] * 12
    assert shares(12, 1, 1, 100, 100, 100, 100, 100) == [1, 1, 3, 3, 4]


def test_closing_finishes_what_was_taken_and_takes_no_more() -> None:
    g = smoothed()
    batcher = Batcher(g.voter(image()), Metrics(), rows=8)
    jobs = [batcher.submit(_prediction(500, seed)) for seed in range(6)]
    batcher.close()
    assert all(job.done.done() for job in jobs)
    for seed, job in enumerate(jobs):
        assert (job.done.result().counts == g.predict(image(), n=500, seed=seed).counts).all()
    with pytest.raises(ShuttingDown):
        batcher.submit(_prediction(5))


def test_a_request_that_fails_leaves_the_others_alone() -> None:
    g = smoothed()
    batcher = Batcher(g.voter(image()), Metrics(), rows=8)

    def broken(voter: Any, queue: Any) -> Any:
        raise ZeroDivisionError
        yield

    bad = batcher.submit(broken)
    reported = batcher.submit(_prediction(50), lambda _: [][0])
    good = batcher.submit(_prediction(500))
    assert good.done.result(60).n == 500
    with pytest.raises(ZeroDivisionError):
        bad.done.result(60)
    with pytest.raises(IndexError):
        reported.done.result(60)
    batcher.close()


def test_a_cancelled_job_is_abandoned() -> None:
    g = smoothed()
    metrics = Metrics()
    batcher = Batcher(g.voter(image()), metrics, rows=8)
    job = batcher.submit(_prediction(1_000_000), lambda _: job.cancel())
    batcher.close()
    assert not job.done.done()
    assert metric(metrics, "sparsecert_copies_total") < 1_000_000
