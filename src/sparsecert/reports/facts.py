"""What a report says about the run behind its numbers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.certificates import method_named, theorem_name
from sparsecert.errors import InputError
from sparsecert.records import Records

KINDS = "certify", "predict"


@dataclass(frozen=True, kw_only=True)
class RunFacts:
    """The run as its header states it, except `alpha`, `bound` and `certificate`: those are what the report used.

    `run_alpha` and `run_bound` are the header's own. n0, bound and certificate are None for predictions. `sampling` is
    None where every input got n0 + n samples; otherwise these are the most, and it says what ended them.
    `chosen` is "random" where the inputs were drawn, None where they are all or evenly spaced.
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
    n: int
    sampling: dict[str, Any] | None
    shard: str | None
    chosen: str | None
    alpha: float
    seed: int
    bound: str | None
    certificate: str | None
    run_alpha: float
    run_bound: str | None
    device: str
    device_name: str

    @property
    def recertified(self) -> bool:
        """Whether the report used another alpha or bound than the run did."""
        return (self.alpha, self.bound) != (self.run_alpha, self.run_bound)


def facts_of(records: Records, alpha: float | None, bound: str | None) -> dict[str, Any]:
    """The fields of `RunFacts`, read from the header; alpha and bound where given replace the run's."""
    header, path = records.header, records.path
    if header.kind not in KINDS:
        raise InputError(f"{path} holds {header.kind!r} records, reports know {' and '.join(KINDS)}; update sparsecert")
    certifies = header.kind == "certify"
    if bound is not None and not certifies:
        raise InputError(
            f"bound {bound} was asked of {path}, which holds predictions; leave it out or name certify records"
        )
    run, environment = header.run, header.environment
    try:
        method = method_named(run["bound"] if bound is None else bound) if certifies else None
        return {
            "path": path,
            "kind": header.kind,
            "expected_inputs": run["shard"]["inputs"] if "shard" in run else run["data"]["inputs"],
            "model_file": environment["model"],
            "model_sha256": run["model"]["sha256"],
            "data": run["data"]["name"],
            "split": run["data"]["split"],
            "scheme": run["scheme"],
            "encoding": run["encoding"]["kind"],
            "precision": run["precision"],
            "n0": run["n0"] if certifies else None,
            "n": run["n"],
            "sampling": run.get("sampling"),
            "shard": f"{run['shard']['index']}/{run['shard']['of']}" if "shard" in run else None,
            "chosen": run["chosen"]["kind"] if "chosen" in run else None,
            "alpha": run["alpha"] if alpha is None else alpha,
            "seed": run["seed"],
            "bound": method.name if method else None,
            "certificate": theorem_name(method.name, run["scheme"], run.get("sampling")) if method else None,
            "run_alpha": run["alpha"],
            "run_bound": run["bound"] if certifies else None,
            "device": run["device"],
            "device_name": environment["device_name"],
        }
    except (KeyError, TypeError) as error:
        raise InputError(f"{path} has a damaged header, {error} cannot be read; name another file") from error
