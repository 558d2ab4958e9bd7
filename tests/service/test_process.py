"""`sparsecert serve` as a process: it listens, asks for its token, and finishes what it took before it ends."""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from sparsecert import InputError, Smoothed
from sparsecert.cli import cli
from sparsecert.cli.serve import _listen
from tests.helpers import Digits
from tests.service.running import running

pytestmark = pytest.mark.check


def test_it_finishes_what_it_took_and_ends_with_0(trained: Path, digits: Digits, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    values = digits[0][0].tolist()
    with running(trained, "--token-file", token, "--concurrency", 4) as (process, address):
        headers = {"authorization": "Bearer s3cret"}
        assert address.startswith("http://127.0.0.1:")
        assert httpx.get(f"{address}/v1/model").status_code == 401
        card = httpx.get(f"{address}/v1/model", headers=headers).json()
        assert card["sha256"] is not None
        assert len(httpx.get(f"{address}/v1/digits", headers=headers).json()) == 100
        answers: dict[str, Any] = {}

        def ask(name: str, body: dict[str, Any]) -> None:
            answers[name] = httpx.post(f"{address}/v1/certify", json=body, headers=headers, timeout=120)

        common = {"values": values, "seed": 4, "n0": 100, "n": 20_000}
        threads = [
            threading.Thread(target=ask, args=("whole", common)),
            threading.Thread(target=ask, args=("lines", {**common, "stream": True})),
        ]
        for thread in threads:
            thread.start()
        while "sparsecert_jobs 2" not in httpx.get(f"{address}/metrics", headers=headers).text:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join()
        assert process.wait(60) == 0
    alone = Smoothed.load(trained).certify(digits[0][:1], n0=100, n=20_000, seed=4)
    last = json.loads(answers["lines"].text.splitlines()[-1])
    for given in (answers["whole"].json(), last):
        assert given["radius"] == alone[0].radius
        assert given["samples"] == 20_100
        assert abs(sum(given["votes"]) - 20_000) <= given["invalid"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing-there"], "does not exist"),
        (["mnist-k45", "--shape", "1,x"], "--shape must be sizes separated by commas"),
        (["mnist-k45", "--max-samples", "0"], "the most samples must be"),
        (["mnist-k45", "--host", "203.0.113.1"], "cannot listen on 203.0.113.1"),
    ],
)
def test_a_mistake_ends_in_one_line(arguments: list[str], sentence: str) -> None:
    failure = CliRunner().invoke(cli, ["serve", *arguments, "--device", "cpu"]).exception
    assert isinstance(failure, InputError)
    assert sentence in str(failure)


def test_the_body_of_an_answer_does_not_wait_until_its_headers_are_acknowledged() -> None:
    with _listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("library", ["fastapi", "uvicorn", "prometheus_client"])
def test_without_the_extra_it_says_what_to_install(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    failure = CliRunner().invoke(cli, ["serve", "mnist-k45"]).exception
    assert isinstance(failure, InputError)
    assert "pip install 'sparsecert[serve]'" in str(failure)


def test_an_empty_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    failure = CliRunner().invoke(cli, ["serve", "mnist-k45", "--token-file", str(tmp_path / "token")]).exception
    assert isinstance(failure, InputError)
    assert "must be printable characters" in str(failure)
