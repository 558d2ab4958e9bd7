"""A worker of a run on a cluster: it is sent the model once, then groups of inputs. No Ray here."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
import torch

from sparsecert.inputs import Inputs, labels_at, to_tensor
from sparsecert.progress import ignore
from sparsecert.records import Record
from sparsecert.runs.header import environment
from sparsecert.runs.run_spec import Group, RunSpec, compute_records
from sparsecert.smoothed import Smoothed

Batch = npt.NDArray[Any]


@dataclass(frozen=True)
class WorkerJob:
    """Everything a worker needs; it reads no files."""

    spec: RunSpec
    model: str  # the name of the model file
    file: bytes  # its contents
    module: torch.nn.Module | str  # or its name; a network of the user's is imported by the worker too
    precision: str
    rows: int | None
    device: str
    threads: int
    classes: int
    first: Batch  # an input to probe the model with


@dataclass(frozen=True)
class PackedGroup:
    """A group as it is sent: a batch of inputs with their indices and true labels."""

    inputs: Batch
    examples: list[int]
    labels: list[int]

    @classmethod
    def of(cls, data: Inputs, examples: list[int]) -> PackedGroup:
        return cls(data.batch(examples), examples, labels_at(data, examples))

    def group(self) -> Group:
        writable = self.inputs.copy()  # Ray hands out read-only shared memory
        return Group(to_tensor(writable), self.examples, self.labels)


@dataclass(frozen=True)
class WorkerInfo:
    """A worker that has loaded the model: its device, precision and environment."""

    device: str
    precision: str
    environment: dict[str, Any]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class WorkerResult:
    """A record for each input of a call."""

    records: list[Record]
    warnings: tuple[str, ...]


class Worker:
    """Computes groups of inputs, in the order in which they are sent.

    The number of threads is the job's, not the machine's default: rounding may depend on it.
    """

    def begin(self, job: WorkerJob) -> WorkerInfo:
        """Loads and probes the model."""
        torch.set_num_threads(job.threads)
        with _warnings() as seen:
            self._smoothed = Smoothed.load_bytes(
                job.file, job.model, job.module, job.device, precision=job.precision, rows=job.rows
            )
            self._voter = self._smoothed.voter(to_tensor(job.first[None].copy()), job.classes)
        self._spec, self._rows = job.spec, self._voter.rows
        found = environment(self._smoothed.device, job.model, self._rows)
        return WorkerInfo(self._smoothed.device.type, self._smoothed.precision, found, tuple(seen))

    def compute(self, groups: list[PackedGroup], rows: int) -> WorkerResult:
        """The records of these groups; `rows` copies per forward pass, the same in the whole run."""
        if rows != self._rows:
            self._rows = self._voter.rows = rows
        with _warnings() as seen:
            arrived = (packed.group() for packed in groups)
            results = compute_records(self._spec, self._voter, arrived, ignore)
            records = [record for done in results for record in done]
        return WorkerResult(records, tuple(seen))


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """Collects warnings for the user: nobody reads a worker's terminal."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield texts
    texts += [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]
