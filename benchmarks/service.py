"""A load test of the service; needs the extra `serve`.

Starts `sparsecert serve` in another process and sends requests from more and more concurrent clients, each waiting for
its last answer: predictions of n copies, or certificates where the masks are a fixed set. Prints requests a second, the
median and 99th percentile latency, how many were rejected (429, and retried) or lost, how many requests shared a
forward pass, and the memory of the service. The last level has more clients than the service accepts. Finally, many
small requests show whether its memory grows. Deterministic answers are compared with those of `certify` here.

With --without-http the clients are tasks of this process that call the service's handlers: what is left is the batching
of requests into forward passes. Deterministic models only.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import json
import multiprocessing
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

IMAGES, WARM = 100, 8  # an eighth as many requests warm each level up: a GPU prepares for every size of batch
SOAK_ROUNDS, SOAK_REQUESTS, SOAK_CLIENTS, SOAK_COPIES = 5, 400, 8, 20


@dataclass(frozen=True)
class Load:
    """What the clients ask: image by image the start of a body, and, where it is known, the answer."""

    address: str
    path: str
    bodies: list[str]
    answers: list[tuple[int, int]] | None  # labels and radii, where the masks are a fixed set


@dataclass
class Level:
    """What came of one level of load."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0
    lost: int = 0
    wrong: int = 0

    def add(self, other: Level) -> None:
        self.seconds += other.seconds
        self.refused += other.refused
        self.lost += other.lost
        self.wrong += other.wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mnist-k45", help="a shipped model of MNIST")
    parser.add_argument("--n", type=int, default=200, help="ablated copies of a prediction")
    parser.add_argument("--requests", type=int, default=128, help="of each level")
    parser.add_argument("--clients", default="1,2,4,8,16,32,48", help="concurrent clients of each level")
    parser.add_argument("--concurrency", type=int, default=32, help="requests that the service takes at once")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="of the clients")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--without-http", action="store_true", help="call the handlers in this process")
    options = parser.parse_args()
    if options.without_http:
        without_http(options)
        return
    command = [sys.executable, "-m", "sparsecert", "serve", options.model, "--port", "0"]
    command += ["--concurrency", str(options.concurrency), "--device", options.device, "--precision", options.precision]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        bodies, answers = questions(options)
        print(setting(options))
        kind = f"predict, n = {options.n}" if answers is None else "certify"
        seeded = ", each with a seed of its own" if answers is None else ""
        print(f"{kind}, {options.requests} requests a level{seeded}", flush=True)
        path = "/v1/certify" if answers is not None else "/v1/predict"
        measured(Load(address_of(process), path, bodies, answers), options)
    finally:
        process.send_signal(signal.SIGTERM)
        print(f"asked to end, the service ended with exit code {process.wait(60)}")


def without_http(options: argparse.Namespace) -> None:
    """Certificates by the service's handlers, in this process."""
    import torch

    from sparsecert import Smoothed
    from sparsecert.service import serve
    from sparsecert.service.schemas import CertifySettings

    bodies, answers = questions(options)
    if answers is None:
        raise SystemExit("--without-http needs a deterministic model")
    inputs = [torch.tensor([json.loads(f"{body}}}")["values"]]) for body in bodies]
    smoothed = Smoothed.load(options.model, device=options.device, precision=options.precision)
    service, settings, total = serve(smoothed), CertifySettings.model_validate({}), Level()

    async def client(waiting: Iterator[int], found: Level) -> None:
        for number in waiting:
            began = time.perf_counter()
            answer = await service.handlers.certify(inputs[number % IMAGES], settings)
            found.seconds.append(time.perf_counter() - began)
            found.wrong += (answer.label, answer.radius) != answers[number % IMAGES]

    async def clients(count: int, requests: int) -> Level:
        found, waiting = Level(), iter(range(requests))
        await asyncio.gather(*(client(waiting, found) for _ in range(count)))
        return found

    print(setting(options, service=False))
    print(f"certify without HTTP, {options.requests} requests a level", flush=True)
    print("clients  requests/s  p50 ms  p99 ms", flush=True)
    for count in map(int, options.clients.split(",")):
        asyncio.run(clients(count, max(count, options.requests // WARM)))
        began = time.perf_counter()
        found = asyncio.run(clients(count, options.requests))
        took = time.perf_counter() - began
        total.add(found)
        p50, p99 = percentiles(found)
        print(f"{count:7}  {options.requests / took:10.1f}  {p50:6.1f}  {p99:6.1f}", flush=True)
    print(f"{total.wrong} of {len(total.seconds):,} answers differ from those of certify")
    service.close()


def questions(options: argparse.Namespace) -> tuple[list[str], list[tuple[int, int]] | None]:
    """The images in JSON, and the deterministic answers to them, if the masks are a fixed set."""
    import torch

    from sparsecert import Smoothed, datasets
    from sparsecert.schemes import FixedMasks

    images = datasets.load("mnist-sample").images.batch(range(IMAGES))
    values = (torch.from_numpy(images).double() / 255).tolist()
    bodies = [json.dumps({"values": image})[:-1] for image in values]
    smoothed = Smoothed.load(options.model, device=options.device, precision=options.precision)
    if not isinstance(smoothed.scheme, FixedMasks):
        return bodies, None
    found = smoothed.certify(torch.tensor(values))
    return bodies, [*zip(found.labels.tolist(), found.radii.tolist(), strict=True)]


def setting(options: argparse.Namespace, service: bool = True) -> str:
    """The machine, and where there is one the service, with its clients."""
    import torch

    device = torch.cuda.get_device_name() if options.device.startswith("cuda") else options.device
    machine = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, {device}, "
    machine += f"{options.precision}, {options.model}"
    if not service:
        return f"{machine}\nPython {platform.python_version()}"
    faster = [name for name in ("httptools", "uvloop") if importlib.util.find_spec(name)]
    return (
        f"{machine}, at most {options.concurrency} requests at once\n"
        f"Python {platform.python_version()}, uvicorn {importlib.metadata.version('uvicorn')} with "
        f"{' and '.join(faster) or 'h11'}, clients in {options.processes} other processes"
    )


def address_of(process: subprocess.Popen[str]) -> str:
    """Where the service listens; what else it writes is passed on."""
    assert process.stderr is not None
    for line in process.stderr:
        sys.stderr.write(line)
        if found := re.search(r"serving on (http://\S+)", line):
            threading.Thread(target=shutil.copyfileobj, args=(process.stderr, sys.stderr), daemon=True).start()
            return found[1]
    raise SystemExit("the service did not start")


def measured(load: Load, options: argparse.Namespace) -> None:
    requests, total = options.requests, Level()
    copies = json.loads(fetched(load, "/v1/model"))["masks"] or options.n
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.processes, context, initializer=begin, initargs=(load,)) as pool:
        print("clients  requests/s  copies/s  p50 ms  p99 ms  refused  lost  requests a pass  memory MiB", flush=True)
        for clients in map(int, options.clients.split(",")):
            level(pool, options, clients, max(clients, requests // WARM), copies)
            before, began = numbers(load), time.perf_counter()
            found = level(pool, options, clients, requests, copies)
            took, after = time.perf_counter() - began, numbers(load)
            total.add(found)
            p50, p99 = percentiles(found)
            passes, together = (
                after[name] - before[name]
                for name in ("sparsecert_forward_passes_total", "sparsecert_pass_requests_total")
            )
            print(
                f"{clients:7}  {requests / took:10.1f}  {copies * requests / took:8,.0f}  {p50:6.0f}  {p99:6.0f}  "
                f"{found.refused:7}  {found.lost:4}  {together / passes:15.1f}  {memory(after):10.0f}",
                flush=True,
            )
        if load.answers is not None:
            print(f"{total.wrong} of {len(total.seconds):,} answers differ from those of certify in another process")
        few = SOAK_COPIES if load.answers is None else copies
        print(f"then {SOAK_ROUNDS} times {SOAK_REQUESTS} requests of {few} copies by {SOAK_CLIENTS} clients:")
        for _ in range(SOAK_ROUNDS):
            found = level(pool, options, SOAK_CLIENTS, SOAK_REQUESTS, few)
            print(f"lost {found.lost}, memory {memory(numbers(load)):.0f} MiB", flush=True)


def percentiles(found: Level) -> tuple[float, float]:
    """The median and the 99th percentile of the latency, in milliseconds."""
    import numpy as np

    p50, p99 = 1_000 * np.quantile(found.seconds, (0.5, 0.99))
    return float(p50), float(p99)


def level(pool: Executor, options: argparse.Namespace, clients: int, requests: int, copies: int) -> Level:
    """So many requests, by so many clients."""
    found, processes = Level(), min(options.processes, clients)
    shares = [
        (len(range(one, clients, processes)), range(one, requests, processes), copies) for one in range(processes)
    ]
    for share in pool.map(ask_all, *zip(*shares, strict=True)):
        found.add(share)
    return found


ASKED: list[Load] = []  # in a process of clients


def begin(load: Load) -> None:
    ASKED.append(load)


def ask_all(clients: int, requests: range, copies: int) -> Level:
    """In a process of clients: its share of the requests, by its share of the clients, a thread each."""
    found, waiting = Level(), iter(requests)  # to take the next of a range is atomic
    with ThreadPoolExecutor(clients) as threads:
        for share in threads.map(ask, [ASKED[0]] * clients, [waiting] * clients, [copies] * clients):
            found.add(share)
    return found


def ask(load: Load, waiting: Iterator[int], copies: int) -> Level:
    """One client, with a connection of its own; plain, as the clients must be faster than the service."""
    found, client = Level(), HTTPConnection(urlsplit(load.address).netloc, timeout=600)
    for number in waiting:
        image = number % len(load.bodies)
        more = f', "n": {copies}, "seed": {number}' if load.answers is None else ""
        began = time.perf_counter()
        answer = answered(client, load.path, f"{load.bodies[image]}{more}}}".encode(), found)
        found.seconds.append(time.perf_counter() - began)
        if answer is None or sum(answer["votes"]) + answer["invalid"] != copies:
            found.lost += 1
        elif load.answers is None:
            found.lost += answer["seed"] != number
        else:
            found.wrong += (answer["label"], answer["radius"]) != load.answers[image]
    client.close()
    return found


def answered(client: HTTPConnection, path: str, body: bytes, found: Level) -> dict[str, Any] | None:
    """The answer, asked for again where the service was full; None where there is none."""
    while True:
        try:
            client.request("POST", path, body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            text = answer.read()
        except (OSError, HTTPException):
            client.close()
            return None
        if answer.status != 429:
            return json.loads(text) if answer.status == 200 else None
        found.refused += 1
        time.sleep(float(answer.headers["retry-after"]))


def fetched(load: Load, path: str) -> bytes:
    with urlopen(load.address + path) as answer:
        return answer.read()  # type: ignore[no-any-return]


def numbers(load: Load) -> dict[str, float]:
    """The service's own counts that have no labels."""
    text = fetched(load, "/metrics").decode()
    return {name: float(value) for name, value in re.findall(r"^(\w+) (\S+)$", text, flags=re.MULTILINE)}


def memory(counts: dict[str, float]) -> float:
    return counts.get("process_resident_memory_bytes", float("nan")) / (1 << 20)


if __name__ == "__main__":
    main()
