"""Runs over a data set, written to records: what `sparsecert predict`, `certify` and `attack` do."""

from __future__ import annotations

import warnings
from pathlib import Path

from sparsecert.datasets.provenance import doubts
from sparsecert.inputs import Inputs
from sparsecert.procedures import Procedure, procedure_for
from sparsecert.progress import OnProgress, ignore
from sparsecert.records import CERTIFY, PREDICT
from sparsecert.runs.attacks import adversarial_images, attack_dataset
from sparsecert.runs.cluster import Cluster, record_on_cluster
from sparsecert.runs.groups import Limit, RandomSample, Shard, load_batch
from sparsecert.runs.local import DatasetRun, record_all
from sparsecert.runs.run_spec import RunSpec
from sparsecert.runs.targets import AllMasksTarget, PlainTarget, SmoothedTarget, Target, target_of
from sparsecert.smoothed import Smoothed

__all__ = [
    "AllMasksTarget",
    "Cluster",
    "DatasetRun",
    "Limit",
    "PlainTarget",
    "RandomSample",
    "RunSpec",
    "Shard",
    "SmoothedTarget",
    "Target",
    "adversarial_images",
    "attack_dataset",
    "certify_dataset",
    "load_batch",
    "predict_dataset",
    "record_all",
    "record_on_cluster",
    "record_run",
    "target_of",
]


def certify_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    out: str | Path,
    procedure: Procedure | None = None,
    *,
    n0: int | None = None,
    n: int | None = None,
    alpha: float | None = None,
    seed: int = 0,
    limit: Limit = None,
    shard: Shard | None = None,
    cluster: Cluster | None = None,
    rankings: bool = True,
    on_progress: OnProgress = ignore,
) -> None:
    """Certifies `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run.

    `procedure`, n0, n, alpha and seed are as in `Smoothed.certify`. `limit` may be `RandomSample(400, seed)`. `model`
    is the file that `smoothed` was loaded from: the records name the model by its hash. `shard` restricts the run to a
    part of the inputs. With a `cluster` its workers load that file and compute; this process only writes. Without
    `rankings`, the records of a fixed set of masks are short, but cannot be certified again in another way. Warns of
    images of another data set than the model was trained on, and of its training images.
    """
    procedure = procedure_for(smoothed, procedure, n0, n)
    spec = RunSpec(CERTIFY, procedure, procedure.level(alpha), seed, rankings)
    _warn_of_other_data(smoothed, data)
    record_run(DatasetRun(spec, smoothed, model, data, out, limit, shard, on_progress), cluster)


def predict_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Inputs,
    out: str | Path,
    procedure: Procedure | None = None,
    *,
    n: int | None = None,
    alpha: float | None = None,
    seed: int = 0,
    limit: Limit = None,
    shard: Shard | None = None,
    cluster: Cluster | None = None,
    rankings: bool = True,
    on_progress: OnProgress = ignore,
) -> None:
    """Predicts `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run.

    `procedure`, n, alpha and seed are as in `Smoothed.predict`, the others as in `certify_dataset`.
    """
    procedure = procedure_for(smoothed, procedure, n=n)
    spec = RunSpec(PREDICT, procedure, procedure.level(alpha), seed, rankings)
    _warn_of_other_data(smoothed, data)
    record_run(DatasetRun(spec, smoothed, model, data, out, limit, shard, on_progress), cluster)


def record_run(run: DatasetRun, cluster: Cluster | None = None) -> None:
    """Computes and records a run, here or on a cluster."""
    if cluster is None:
        record_all(run)
    else:
        record_on_cluster(cluster, run)


def _warn_of_other_data(smoothed: Smoothed, data: Inputs) -> None:
    for line in doubts(data, smoothed.metadata):
        warnings.warn(line, stacklevel=3)
