"""The connection to a Ray cluster: begun, ended, and asked for room."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sparsecert.errors import InputError

KEPT = "what was finished is kept, and the same command continues from there"
REACHED_WITHIN = 10  # seconds for a plain connection; Ray itself would try for minutes


def import_ray() -> Any:
    """Ray, which only a run over many machines needs."""
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed; pip install 'sparsecert[ray]'") from error
    return ray


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to `address`; `auto` is RAY_ADDRESS, else the cluster that runs here, else a new one started here.

    A program that has called `ray.init` itself keeps its own connection, whatever the address.
    """
    ray = import_ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    try:
        yield ray
    except ray.exceptions.RayError as error:
        raise InputError(f"Ray failed: {' '.join(str(error).split())[:300]}; {KEPT}") from error
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
    """Refuses HOST:PORT where nobody answers; other forms of address are left to Ray."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=REACHED_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"ray {address!r} cannot be reached: {error}; start Ray there with `ray start --head`, or name another"
        ) from error


def room(nodes: Iterable[Mapping[str, Any]], need: Mapping[str, float]) -> int:
    """How many workers, each of which takes `need`, these nodes of a cluster could hold if they did nothing else."""
    living = [node["Resources"] for node in nodes if node["Alive"]]
    return sum(min(int(has.get(name, 0) / amount + 1e-9) for name, amount in need.items()) for has in living)


def described(need: Mapping[str, float]) -> str:
    """What a worker takes, in words."""
    return " and ".join(f"{amount:g} {name}" for name, amount in need.items())
