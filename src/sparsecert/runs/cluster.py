"""A run on a Ray cluster: the workers compute, this process alone writes."""

from __future__ import annotations

import copy
import hashlib
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

import sparsecert
from sparsecert import modelfile
from sparsecert.errors import InputError, check_int
from sparsecert.models import architecture_of
from sparsecert.records import Header, Writer
from sparsecert.runs.connection import capacity, describe_resources, ray_connection
from sparsecert.runs.groups import unfinished
from sparsecert.runs.header import check_inputs, recorded_rows
from sparsecert.runs.local import DatasetRun
from sparsecert.runs.ray_pool import RayPool
from sparsecert.runs.run_spec import inputs_per_group
from sparsecert.runs.worker import PackedGroup, WorkerInfo, WorkerJob

ROUNDING = "torch", "device_name", "threads"  # parts of the environment that rounding may depend on
GROUPS_A_CALL = 4  # groups per call on a GPU, times those in flight


@dataclass(frozen=True)
class Cluster:
    """`workers` processes on a Ray cluster, and the CPUs and GPUs reserved for each.

    `address` of the cluster; `auto` uses RAY_ADDRESS, else a cluster on this machine, else starts one. `workers`
    defaults to as many as the cluster has room for, `gpus_per_worker` to one where the cluster has GPUs and `device`
    allows it. `device` of the workers: auto, cpu, cuda or mps. Every machine needs this version of sparsecert; model
    and inputs are sent to it.
    """

    address: str = "auto"
    workers: int | None = None
    cpus_per_worker: float = 1
    gpus_per_worker: float | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        if self.workers is not None:
            check_int("workers", self.workers, 1, 1_000_000)
        if not 0 < self.cpus_per_worker < math.inf:
            raise InputError(f"cpus_per_worker must be above 0, got {self.cpus_per_worker}")
        gpus = self.gpus_per_worker
        if gpus is not None and not (0 <= gpus <= 1 or (1 < gpus < math.inf and gpus == int(gpus))):
            raise InputError(f"gpus_per_worker must be a whole number, or a share between 0 and 1, got {gpus}")
        if self.device not in ("auto", "cpu", "cuda", "mps"):
            raise InputError(f"device must be one of auto, cpu, cuda, mps on a cluster, got {self.device!r}")
        if gpus is not None and self.device != "auto" and (gpus > 0) != (self.device == "cuda"):
            raise InputError(f"device {self.device} and {gpus:g} gpus_per_worker do not go together; leave one out")

    def need(self, resources: Mapping[str, float]) -> dict[str, float]:
        """The resources each worker reserves on a cluster that has these."""
        gpus = self.gpus_per_worker
        if gpus is None:
            gpus = float(self.device == "cuda" or (self.device == "auto" and resources.get("GPU", 0) >= 1))
        return {"CPU": self.cpus_per_worker, **({"GPU": gpus} if gpus else {})}


def record_on_cluster(cluster: Cluster, run: DatasetRun) -> None:
    """`record_all` on a cluster: the same groups, the same copies in the same batches.

    So a run may start on one and resume on the other, and its counts are identical if the kind of device and the number
    of threads are: a worker has as many threads as whole CPUs, at least one. Records are written as they
    arrive; `seconds` are the worker's. The environment is the first worker's.
    """
    spec, data, on_progress = run.spec, run.data, run.on_progress
    smoothed, info, indices = run.prepare()
    with ray_connection(cluster.address) as ray:
        need = cluster.need(ray.cluster_resources())
        workers = _worker_count(cluster.workers, len(indices), need, capacity(ray.nodes(), need))
        job = _job(cluster, need, replace(run, smoothed=smoothed), info["model"]["sha256"])
        with RayPool(ray, need, workers, job) as pool:
            first = pool.first()
            header = Header(
                spec.kind,
                {**info, "device": first.device, "precision": first.precision},
                {**first.environment, "workers": workers},
            )
            with Writer(run.out, header) as writer:
                check_inputs(writer, indices)
                rows = recorded_rows(writer, smoothed.rows)
                check = partial(check_worker, writer.header)
                check(first)
                on_progress(len(writer.done), 0)
                size = inputs_per_group(spec, smoothed.scheme, rows, math.prod(data.shape))
                left = unfinished(indices, size, writer.done)
                most = GROUPS_A_CALL * spec.procedure.in_flight if first.device == "cuda" else 1
                for answer in pool.answers(left, rows, most, partial(PackedGroup.of, data), check):
                    fresh = [record for record in answer.records if record.example not in writer.done]
                    writer.append(fresh)
                    on_progress(len(fresh), sum(record.copies for record in answer.records))


def _worker_count(asked: int | None, inputs: int, need: Mapping[str, float], capacity: int) -> int:
    """How many workers to start; warns where the cluster has no room for all of them."""
    size = min(inputs, max(1, capacity) if asked is None else asked)
    if capacity < size:
        room_for = f"the cluster has room for {capacity} of {size} workers, each of {describe_resources(need)}"
        warnings.warn(f"{room_for}; the others start if it grows", stacklevel=4)
    return size


def _job(cluster: Cluster, need: Mapping[str, float], run: DatasetRun, fingerprint: str) -> WorkerJob:
    """What the workers are sent; the model is the file that the records will name."""
    smoothed, model = run.smoothed, run.model
    if not isinstance(smoothed.model, torch.nn.Module):
        raise InputError(f"a cluster takes a torch.nn.Module, the model is a {type(smoothed.model).__name__}")
    header = modelfile.read_header(model)
    for name, part in (("scheme", smoothed.scheme), ("encoding", smoothed.encoding)):
        if header.get(name) != part.config():
            raise InputError(
                f"{model} was saved with another {name} than {part}; save this classifier and use that file"
            )
    file = modelfile.read_bytes(model)
    if hashlib.sha256(file).hexdigest() != fingerprint:
        raise InputError(f"{model} changed while it was read; run the command again")
    architecture = architecture_of(smoothed.model)
    device = cluster.device
    if device == "auto":
        device = "cuda" if "GPU" in need else "cpu"
    return WorkerJob(
        spec=run.spec,
        model=Path(model).name,
        file=file,
        module=copy.deepcopy(smoothed.model).cpu() if architecture is None else architecture["name"],
        precision=smoothed.requested_precision,
        rows=smoothed.rows,
        device=device,
        threads=max(1, int(need["CPU"])),
        classes=len(run.data.classes),
        first=run.data.batch([0])[0],
    )


def check_worker(header: Header, worker: WorkerInfo) -> None:
    """Refuses a worker whose device, precision or version is not the run's; warns where its rounding may differ."""
    if worker.device != header.run["device"]:
        raise InputError(
            f"a worker computes on {worker.device}, the run on {header.run['device']}; set one device for all"
        )
    if worker.precision != header.run["precision"]:
        raise InputError(
            f"a worker computes in {worker.precision}, the run in {header.run['precision']}; set one precision for all"
        )
    version = worker.environment["sparsecert"]
    if version != sparsecert.__version__:
        raise InputError(f"a worker has sparsecert {version}, this is {sparsecert.__version__}; install the same there")
    there, here = header.environment, worker.environment
    differing = [f"{key} {here[key]}, not {there.get(key)}" for key in ROUNDING if here[key] != there.get(key)]
    if differing:
        warnings.warn(
            f"a worker has {'; '.join(differing)} as the run was started with: its votes may differ by rounding",
            stacklevel=4,
        )
