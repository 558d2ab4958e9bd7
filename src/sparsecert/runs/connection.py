"""The connection to a Ray cluster, and its capacity."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparsecert.errors import InputError

RESUME_HINT = "finished inputs are kept; rerun the same command to resume"
CONNECT_SECONDS = 10  # Ray itself would try for minutes


def import_ray() -> Any:
    """Ray, an optional dependency."""
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed; pip install 'sparsecert[ray]'") from error
    return ray


@contextmanager
def ray_connection(address: str) -> Iterator[Any]:
    """Ray, connected to `address`; `auto` is RAY_ADDRESS, else a cluster on this machine, else a new one.

    A program that has called `ray.init` itself keeps its connection, whatever the address.
    """
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise InputError(f"Ray failed: {' '.join(str(error).split())[:300]}; {RESUME_HINT}") from error
    finally:
        if ours:
            ray.shutdown()


def _connect(ray: Any, address: str) -> None:
    _check_reachable(os.environ.get("RAY_ADDRESS", "") if address == "auto" else address)
    try:
        ray.init(None if address == "auto" else address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
        raise InputError(f"ray {address!r} cannot be used: {' '.join(str(error).split())[:300]}") from error


def _check_reachable(address: str) -> None:
    """Refuses HOST:PORT where nothing listens; other forms of address are left to Ray."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"ray {address!r} cannot be reached: {error}; start Ray there with `ray start --head`, or name another"
        ) from error


def capacity(nodes: Iterable[Mapping[str, Any]], need: Mapping[str, float]) -> int:
    """How many workers that each reserve `need` fit on these nodes when idle."""
    living = [node["Resources"] for node in nodes if node["Alive"]]
    return sum(min(int(has.get(name, 0) / amount + 1e-9) for name, amount in need.items()) for has in living)


def describe_resources(need: Mapping[str, float]) -> str:
    """Such as "1 CPU and 1 GPU"."""
    return " and ".join(f"{amount:g} {name}" for name, amount in need.items())
