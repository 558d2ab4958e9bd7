"""One worker of a run over many machines: it is sent the model once, and then groups of inputs. No Ray here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch

from sparsecert.devices import device_named
from sparsecert.inputs import Inputs, to_tensor
from sparsecert.progress import ignore
from sparsecert.records import Record
from sparsecert.runs.header import environment
from sparsecert.runs.questions import Group, Question, answer
from sparsecert.smoothed import Smoothed

Batch = npt.NDArray[Any]


@dataclass(frozen=True)
class WorkerJob:
    """What every worker of a run has to know; no file is looked for where it computes."""

    question: Question
    model: str  # the name of the model file
    file: bytes  # what it holds
    module: torch.nn.Module | None  # for the weights, where the file does not say how to build one
    precision: str
    rows: int | None
    device: str
    threads: int
    classes: int
    first: Batch  # an input of the data set, to look at the model with


@dataclass(frozen=True)
class Packed:
    """A group on its way: a batch of inputs, and the numbers and true labels of each."""

    inputs: Batch
    examples: list[int]
    labels: list[int]

    @classmethod
    def of(cls, data: Inputs, examples: list[int]) -> Packed:
        """These inputs of a data set."""
        return cls(data.batch(examples), examples, data.labels[examples].tolist())

    def group(self) -> Group:
        """As it is computed with."""
        writable = self.inputs.copy()  # what arrives is shared memory, which torch may not hold
        return Group(to_tensor(writable), self.examples, self.labels)


@dataclass(frozen=True)
class Ready:
    """A worker that has loaded the model: where and in what it computes, and the environment of its records."""

    device: str
    precision: str
    environment: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """A record for each input that a worker was sent."""

    records: list[Record]
    warnings: tuple[str, ...]


class Worker:
    """Computes groups of inputs, in the order in which they are sent.

    A CPU's rounding may depend on the number of its threads: it is the job's, not what the machine suggests.
    """

    def begin(self, job: WorkerJob) -> Ready:
        """Loads the model and looks at it."""
        torch.set_num_threads(job.threads)
        with _warnings() as seen:
            device = device_named(job.device)
            self._smoothed = Smoothed.load_bytes(
                job.file, job.model, job.module, device, precision=job.precision, rows=job.rows
            )
            self._voter = self._smoothed.voter(to_tensor(job.first[None].copy()), job.classes)
        self._question, self._rows = job.question, self._voter.rows
        found = environment(self._smoothed.device, job.model, self._rows)
        return Ready(self._smoothed.device.type, self._smoothed.precision, found, tuple(seen))

    def compute(self, groups: list[Packed], rows: int) -> Answer:
        """The records of these groups; `rows` copies to a forward pass, the same number in the whole run."""
        if rows != self._rows:
            self._rows = self._voter.rows = rows
        with _warnings() as seen:
            arrived = (packed.group() for packed in groups)
            results = answer(self._question, self._voter, arrived, ignore)
            records = [record for done in results for record in done]
        return Answer(records, tuple(seen))


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """What the user should be told of, collected: nobody reads a worker's terminal."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    texts += [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
