"""A load test of the service; needs the extra `serve` and httpx.

Starts `sparsecert serve` in another process and sends requests from more and more concurrent clients, each waiting for
its last answer. Prints requests a second, the median and 99th percentile latency, how many were rejected (429, and
retried) or lost, how many requests shared a forward pass, and the memory of the service. The last level has more
clients than the service accepts. Finally, many small requests show whether its memory grows.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
import torch

from sparsecert import datasets

MODEL, CLIENTS, CONCURRENCY = "mnist-k45", (1, 2, 4, 8, 16, 32, 48), 32
SOAK_ROUNDS, SOAK_REQUESTS, SOAK_CLIENTS, SOAK_COPIES = 5, 400, 8, 20


@dataclass
class Level:
    """What came of one level of load."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=200, help="ablated copies of a prediction")
    parser.add_argument("--requests", type=int, default=128, help="of each level")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    options = parser.parse_args()
    command = [sys.executable, "-m", "sparsecert", "serve", MODEL, "--port", "0", "--concurrency", str(CONCURRENCY)]
    command += ["--device", options.device, "--precision", options.precision]
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, {options.device}, "
        f"{options.precision}, {MODEL}, at most {CONCURRENCY} requests at once"
    )
    print(f"predict, n = {options.n}, {options.requests} requests a level, each with a seed of its own")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        asyncio.run(measured(address_of(process), options.n, options.requests))
    finally:
        process.send_signal(signal.SIGTERM)
        print(f"asked to end, the service ended with exit code {process.wait(60)}")


def address_of(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"serving on (http://\S+)", line):
            return found[1]
    raise SystemExit("the service did not start")


async def measured(address: str, n: int, requests: int) -> None:
    images = datasets.load("mnist-sample").images.batch(range(100)).astype(np.float64) / 255
    async with httpx.AsyncClient(base_url=address, timeout=600, limits=httpx.Limits(max_connections=None)) as client:
        await level(client, images, n, 4, 16)  # warm
        print("clients  requests/s  copies/s  p50 ms  p99 ms  refused  lost  requests a pass  memory MiB")
        for clients in CLIENTS:
            before, began = await numbers(client), time.perf_counter()
            found = await level(client, images, n, clients, requests)
            took, after = time.perf_counter() - began, await numbers(client)
            p50, p99 = (1_000 * float(np.quantile(found.seconds, share)) for share in (0.5, 0.99))
            passes = after["sparsecert_forward_passes_total"] - before["sparsecert_forward_passes_total"]
            together = after["sparsecert_pass_requests_total"] - before["sparsecert_pass_requests_total"]
            print(
                f"{clients:7}  {requests / took:10.1f}  {n * requests / took:8,.0f}  {p50:6.0f}  {p99:6.0f}  "
                f"{found.refused:7}  {found.lost:4}  {together / passes:15.1f}  {memory(after):10.0f}"
            )
        print(f"then {SOAK_ROUNDS} times {SOAK_REQUESTS} requests of {SOAK_COPIES} copies by {SOAK_CLIENTS} clients:")
        for _ in range(SOAK_ROUNDS):
            found = await level(client, images, SOAK_COPIES, SOAK_CLIENTS, SOAK_REQUESTS)
            print(f"lost {found.lost}, memory {memory(await numbers(client)):.0f} MiB")


async def level(client: httpx.AsyncClient, images: Any, n: int, clients: int, requests: int) -> Level:
    """So many requests, by so many clients."""
    found, waiting = Level(), iter(range(requests))

    async def one() -> None:
        for number in waiting:
            body = {"values": images[number % len(images)].tolist(), "n": n, "seed": number}
            began = time.perf_counter()
            answer = await answered(client, body, found)
            found.seconds.append(time.perf_counter() - began)
            found.lost += answer is None or sum(answer["votes"]) + answer["invalid"] != n or answer["seed"] != number

    await asyncio.gather(*(one() for _ in range(clients)))
    return found


async def answered(client: httpx.AsyncClient, body: dict[str, Any], found: Level) -> dict[str, Any] | None:
    """The answer, asked for again where the service was full; None where there is none."""
    while True:
        try:
            answer = await client.post("/v1/predict", json=body)
        except httpx.HTTPError:
            return None
        if answer.status_code != 429:
            return answer.json() if answer.status_code == 200 else None
        found.refused += 1
        await asyncio.sleep(float(answer.headers["retry-after"]))


async def numbers(client: httpx.AsyncClient) -> dict[str, float]:
    """The service's own counts that have no labels."""
    text = (await client.get("/metrics")).text
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, flags=re.MULTILINE)}


def memory(counts: dict[str, float]) -> float:
    return counts.get("process_resident_memory_bytes", float("nan")) / (1 << 20)


if __name__ == "__main__":
    main()
