"""Which inputs are blamed when workers die, by a made-up Ray whose workers die at will; the real one: test_cluster."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparsecert.errors import InputError
from sparsecert.runs.ray_pool import DEATHS, RayPool
from sparsecert.runs.worker import PackedGroup, WorkerInfo, WorkerResult


class RayError(Exception):
    pass


class RayTaskError(RayError):
    pass


@dataclass(eq=False)
class Call:
    """A reference to what an actor will answer."""

    actor: Actor
    examples: list[int]


class Actor:
    """Answers calls in their order, until one that kills it; the answer before that one is lost with it."""

    def __init__(self, poison: int) -> None:
        self.queue: list[Call] = []
        self.poison, self.dead = poison, False
        self.begin = SimpleNamespace(remote=lambda job: self._called([]))
        self.compute = SimpleNamespace(remote=lambda packed, rows: self._called(packed[0].examples))

    def _called(self, examples: list[int]) -> Call:
        self.queue.append(Call(self, examples))
        return self.queue[-1]

    def answer(self) -> Any:
        self.dead = self.dead or any(self.poison in call.examples for call in self.queue[:2])
        if self.dead:
            raise RayError("killed")
        examples = self.queue.pop(0).examples
        return WorkerResult(examples, ()) if examples else WorkerInfo("cpu", "fp32", {}, ())


class MadeUpRay:
    """As much of Ray as a pool uses."""

    exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)

    def __init__(self, poison: int) -> None:
        self.poison, self.started = poison, 0

    def put(self, value: Any) -> Any:
        return value

    def options(self, **_: Any) -> MadeUpRay:
        return self

    def remote(self, kind: type | None = None) -> Any:
        if kind is not None:
            return self
        self.started += 1
        return Actor(self.poison)

    def wait(self, references: list[Any], timeout: float | None = None) -> tuple[list[Any], list[Any]]:
        return references[:1], references[1:]

    def get(self, reference: Any) -> Any:
        return reference.actor.answer()

    def kill(self, actor: Actor) -> None:
        actor.dead = True


@pytest.fixture(autouse=True)
def _deaths_are_expected() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "a worker died over")
        yield


def _pack(examples: list[int]) -> PackedGroup:
    return PackedGroup(np.zeros((len(examples), 1, 2, 2), dtype=np.uint8), examples, examples)


def _count(pool: RayPool, answered: Counter[int]) -> None:
    for answer in pool.answers([[example] for example in range(12)], 8, 1, _pack, lambda ready: None):
        answered.update(answer.records)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("poison", [0, 3, 5, 11])
def test_only_the_inputs_that_kill_are_blamed_and_all_others_are_answered(size: int, poison: int) -> None:
    made_up, answered = MadeUpRay(poison), Counter[int]()
    with RayPool(made_up, {"CPU": 1}, size, None) as pool:
        pool.first()
        with pytest.raises(InputError, match=f"^{DEATHS} workers died over input {poison}: killed; "):
            _count(pool, answered)
    assert poison not in answered
    assert set(answered.values()) <= {1}
    assert size + DEATHS - 1 <= made_up.started <= size + DEATHS


@pytest.mark.parametrize("size", [1, 4])
def test_without_deaths_every_group_is_answered_once(size: int) -> None:
    made_up, answered = MadeUpRay(poison=-1), Counter[int]()
    with RayPool(made_up, {"CPU": 1}, size, None) as pool:
        pool.first()
        _count(pool, answered)
    assert answered == Counter(range(12))
    assert made_up.started == size
