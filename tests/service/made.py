"""Small services for tests, asked in this process."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import httpx
import torch

from sparsecert import Lattice, Smoothed, Uniform
from sparsecert.service import Limits, Service, serve
from sparsecert.service.metrics import Metrics

T = TypeVar("T")
SHAPE = (1, 4, 4)


def network(seed: int = 0) -> torch.nn.Module:
    """A network of three classes whose votes are not all the same."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 3))
        with torch.no_grad():
            net[1].weight.mul_(4)
        return net.double()


def smoothed(exact: bool = False) -> Smoothed:
    scheme = Lattice(height=4, width=4, parts=4) if exact else Uniform(units=16, keep=4)
    return Smoothed(network(), scheme, classes=3, metadata={"shape": list(SHAPE), "class_names": ["a", "b", "c"]})


def small(exact: bool = False, limits: Limits | None = None, token: str | None = None, rows: int = 37) -> Service:
    limits = limits or Limits(body=20_000, samples=3_000)
    return serve(smoothed(exact), name="small", limits=limits, token=token, rows=rows)


def image(number: int = 0) -> torch.Tensor:
    return torch.rand(1, *SHAPE, generator=torch.Generator().manual_seed(number))


def asked(service: Service, ask: Callable[[httpx.AsyncClient], Awaitable[T]]) -> T:
    """What `ask` returns, given a client of the service."""

    async def run() -> T:
        transport = httpx.ASGITransport(service.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://service", timeout=60) as client:
            return await ask(client)

    return asyncio.run(run())


def metric(metrics: Metrics, name: str) -> float:
    """The value of a metric without labels."""
    value = metrics.registry.get_sample_value(name)
    assert value is not None
    return value


def post(service: Service, path: str, body: Any) -> httpx.Response:
    return asked(service, lambda client: client.post(path, json=body))


def png(width: int = 4, height: int = 4, mode: str = "L", kind: str = "PNG") -> bytes:
    from PIL import Image

    out = io.BytesIO()
    picture = Image.new(mode, (width, height))
    picture.putdata([_colour(mode, 13 * place % 256) for place in range(width * height)])
    picture.save(out, kind)
    return out.getvalue()


def _colour(mode: str, grey: int) -> Any:
    return {"RGB": (grey,) * 3, "RGBA": (grey, grey, grey, 255), "LA": (grey, 100)}.get(mode, grey)
