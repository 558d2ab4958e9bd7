"""The settings of the run behind a report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.certificates import METHODS, theorem_name
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact
from sparsecert.records import Records

KINDS = "certify", "predict"
EXACT = "exact"  # the deterministic certificate of a fixed set of masks


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """The run's settings from its header, except `alpha`, `bound` and `certificate`, which are the report's.

    `run_alpha` and `run_bound` are the header's. n0, bound and certificate are None for predictions. `sampling` is None
    if every input got n0 + n samples; otherwise these are upper limits and it holds the stopping rule. `chosen` is
    "random" if the inputs were drawn, None if they are all or evenly spaced.

    With a fixed set of `masks` masks there is no n, alpha or seed; `bound` is the election rule, `against` says whether
    the radius is of perturbed pixels or patches, and `seconds` is the time limit of the linear programs.
    """

    path: Path
    kind: str
    expected_inputs: int
    model_file: str
    model_sha256: str
    data: str
    split: str
    scheme: dict[str, Any]
    encoding: str
    precision: str
    n0: int | None
    n: int | None
    sampling: dict[str, Any] | None
    shard: str | None
    chosen: str | None
    alpha: float | None
    seed: int | None
    bound: str | None
    certificate: str | None
    run_alpha: float | None
    run_bound: str | None
    device: str
    device_name: str
    masks: int | None = None
    against: str | None = None
    run_against: str | None = None
    seconds: float | None = None

    @property
    def exact(self) -> bool:
        """Whether the masks are a fixed set, all of which vote."""
        return self.masks is not None

    @property
    def recertified(self) -> bool:
        """Whether the report uses another alpha, bound or threat model than the run."""
        used, own = (self.alpha, self.bound, self.against), (self.run_alpha, self.run_bound, self.run_against)
        return used != own


def read_run_info(records: Records, alpha: float | None, bound: str | None) -> dict[str, Any]:
    """The fields of `RunInfo`, from the header; alpha and bound, if given, replace the run's."""
    header, path = records.header, records.path
    _check_kind(records)
    certifies = header.kind == "certify"
    if bound is not None and not certifies:
        raise InputError(
            f"bound {bound} was asked of {path}, which holds predictions; leave it out or name certify records"
        )
    run = header.run
    try:
        method = METHODS[run["bound"] if bound is None else bound] if certifies else None
        return {
            **_common(records),
            "n0": run["n0"] if certifies else None,
            "n": run["n"],
            "sampling": run.get("sampling"),
            "alpha": run["alpha"] if alpha is None else alpha,
            "seed": run["seed"],
            "bound": method.name if method else None,
            "certificate": theorem_name(method.name, run["scheme"], run.get("sampling")) if method else None,
            "run_alpha": run["alpha"],
            "run_bound": run["bound"] if certifies else None,
        }
    except (KeyError, TypeError) as error:
        raise _damaged(records, error) from error


def read_exact_run_info(records: Records, procedure: Exact) -> dict[str, Any]:
    """The same for a run with a fixed set of masks, certified by `procedure`."""
    _check_kind(records)
    run, certifies = records.header.run, records.header.kind == "certify"
    sampled = dict.fromkeys(("n0", "n", "sampling", "alpha", "seed", "run_alpha"))
    try:
        return {
            **_common(records),
            **sampled,
            "bound": procedure.rule,
            "certificate": EXACT if certifies else None,
            "run_bound": run["rule"],
            "masks": run["masks"],
            "against": procedure.against if certifies else None,
            "run_against": run["against"] if certifies else None,
            "seconds": procedure.seconds if certifies else None,
        }
    except (KeyError, TypeError) as error:
        raise _damaged(records, error) from error


def _check_kind(records: Records) -> None:
    if records.header.kind not in KINDS:
        held = f"{records.path} holds {records.header.kind!r} records"
        raise InputError(f"{held}, reports know {' and '.join(KINDS)}; update sparsecert")


def _common(records: Records) -> dict[str, Any]:
    header = records.header
    run, environment = header.run, header.environment
    return {
        "path": records.path,
        "kind": header.kind,
        "expected_inputs": run["shard"]["inputs"] if "shard" in run else run["data"]["inputs"],
        "model_file": environment["model"],
        "model_sha256": run["model"]["sha256"],
        "data": run["data"]["name"],
        "split": run["data"]["split"],
        "scheme": run["scheme"],
        "encoding": run["encoding"]["kind"],
        "precision": run["precision"],
        "shard": f"{run['shard']['index']}/{run['shard']['of']}" if "shard" in run else None,
        "chosen": run["chosen"]["kind"] if "chosen" in run else None,
        "device": run["device"],
        "device_name": environment["device_name"],
    }


def _damaged(records: Records, error: Exception) -> InputError:
    return InputError(f"{records.path} has a damaged header, {error} cannot be read; name another file")
