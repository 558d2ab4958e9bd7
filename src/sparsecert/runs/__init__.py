"""A data set through a smoothed classifier into records: what `sparsecert predict`, `certify` and `attack` do."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact, fixed
from sparsecert.procedures.sequential import Sequential
from sparsecert.runs.attacks import adversarial_images, attack_dataset
from sparsecert.runs.cluster import Cluster, record_on_cluster
from sparsecert.runs.inputs import Drawn, Limit, Shard, pixels
from sparsecert.runs.local import OnProgress, record_all
from sparsecert.runs.procedures import Certify, CertifyExactly, CertifySequentially, Predict, PredictExactly, Procedure
from sparsecert.runs.targets import AllMasksTarget, PlainTarget, SmoothedTarget, Target, target_of
from sparsecert.smoothed import Smoothed

__all__ = [
    "AllMasksTarget",
    "Cluster",
    "Drawn",
    "Exactly",
    "Limit",
    "PlainTarget",
    "Procedure",
    "Shard",
    "SmoothedTarget",
    "Target",
    "Told",
    "adversarial_images",
    "attack_dataset",
    "certify_dataset",
    "certifying",
    "pixels",
    "predict_dataset",
    "record_all",
    "record_on_cluster",
    "target_of",
]


def certify_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    *,
    n0: int = 1_000,
    n: int = 10_000,
    alpha: float = 0.05,
    seed: int = 0,
    bound: str = "two-sided",
    sampling: Sequential | None = None,
    exactly: Exact | None = None,
    limit: Limit = None,
    shard: Shard | None = None,
    cluster: Cluster | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Certifies `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run.

    `limit` may be `Drawn(400, seed)`, for 400 inputs drawn at random. `model` is the file that `smoothed` was loaded
    from: the records name the model by its hash. `sampling` takes the place of n0 and n. `exactly` takes the place of
    all that chance needs, where the scheme is a fixed set of masks: each is voted by, and what is certified holds
    always. Of a `shard` only its part of the inputs is certified. With a `cluster` its workers load the model from that
    file and compute on their devices, and nothing is computed here.
    """
    if exactly is None:
        procedure = certifying(n0, n, alpha, seed, bound, sampling)
    elif (n0, n, alpha, bound, sampling) != (1_000, 10_000, 0.05, "two-sided", None):
        raise InputError("n0, n, alpha, bound and sampling are for masks drawn at random; leave them out with exactly")
    else:
        procedure = CertifyExactly.by(smoothed.scheme, exactly)
    _record(procedure, smoothed, model, data, out, limit, shard, cluster, on_progress)


def certifying(n0: int, n: int, alpha: float, seed: int, bound: str, sampling: Sequential | None) -> Procedure:
    """The procedure of these settings."""
    if sampling is None:
        return Certify(n0, n, alpha, seed, bound)
    return CertifySequentially(sampling, alpha, seed, bound)


def predict_dataset(
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    *,
    n: int = 10_000,
    alpha: float = 0.05,
    seed: int = 0,
    rule: str | None = None,
    limit: Limit = None,
    shard: Shard | None = None,
    cluster: Cluster | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Predicts `limit` evenly spaced inputs (all by default) and records each as it is done; resumes a killed run.

    `rule` ("run-off", "plurality") takes the place of n and alpha where the scheme is a fixed set of masks: each is
    voted by. `limit`, `model`, `shard` and `cluster` are as in `certify_dataset`.
    """
    procedure: Procedure = Predict(n, alpha, seed)
    if rule is not None:
        if (n, alpha) != (10_000, 0.05):
            raise InputError("n and alpha are for masks drawn at random; leave them out with rule")
        procedure = PredictExactly(rule, len(fixed(smoothed.scheme).table))
    _record(procedure, smoothed, model, data, out, limit, shard, cluster, on_progress)


def _record(
    procedure: Procedure,
    smoothed: Smoothed,
    model: str | Path,
    data: Dataset,
    out: str | Path,
    limit: Limit,
    shard: Shard | None,
    cluster: Cluster | None,
    on_progress: OnProgress | None,
) -> None:
    record = record_all if cluster is None else partial(record_on_cluster, cluster)
    record(procedure, smoothed, model, data, out, limit, shard, on_progress)
