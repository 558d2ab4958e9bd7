"""The settings of the run behind a report."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar

from sparsecert.certificates import CERTIFICATES, theorem_name
from sparsecert.errors import InputError
from sparsecert.procedures.exact import FEATURES, Exact
from sparsecert.records import CERTIFY, PREDICT, AttackRecords, Records, election_rule
from sparsecert.reports.medians import confidence_interval

EXACT = "exact"  # the deterministic certificate of a fixed set of masks


@dataclass(frozen=True, kw_only=True)
class RunInfo:
    """What is known of every run, mostly from its header; `inputs` of `expected_inputs` are recorded.

    `label` is the name that a report gives to the run; None: one made of its settings. `all_inputs` is the size of the
    data set, `unit` what of an input is perturbed: "pixels" of images. `chosen` is "random" if the inputs were drawn,
    None if they are all or evenly spaced.
    """

    path: Path
    label: str | None = None
    kind: str
    inputs: int
    expected_inputs: int
    all_inputs: int
    unit: str
    model_file: str
    model_sha256: str
    data: str
    split: str
    scheme: dict[str, Any] | None
    precision: str
    n: int | None = None
    alpha: float | None = None
    masks: int | str | None = None
    seed: int | None = None
    chosen: str | None
    device: str
    device_name: str

    json_names: ClassVar[str] = ""  # the keys of `to_dict`, in order
    json_attributes: ClassVar[dict[str, str]] = {"records": "path", "model": "model_file"}  # of keys named otherwise

    @property
    def model_id(self) -> str:
        """The model's file and the start of its hash."""
        return f"{self.model_file} {self.model_sha256[:8]}"

    @property
    def source(self) -> str:
        """The records and the model that the numbers are from."""
        return f"{self.path}, model {self.model_id}"

    @property
    def units(self) -> int | None:
        return (self.scheme or {}).get("units")

    @property
    def keep(self) -> int | None:
        return (self.scheme or {}).get("keep")

    @property
    def incomplete(self) -> bool:
        """Whether some of the run's inputs are not recorded yet."""
        return self.inputs < self.expected_inputs

    def band(self, shares: Sequence[float], inputs: int | None = None) -> list[tuple[float, float]]:
        """The 95% confidence interval of each share of the inputs, or of `inputs` of them.

        Empty if they are the whole data set, of which the shares are exact.
        """
        count = self.inputs if inputs is None else inputs
        return [] if count >= self.all_inputs else [confidence_interval(share, count) for share in shares]

    def to_dict(self) -> dict[str, Any]:
        """JSON values, unrounded; infinity is null."""
        names = self.json_names.split()
        return {name: _to_json(attrgetter(self.json_attributes.get(name, name))(self)) for name in names}


def _to_json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Fraction):
        return float(value)
    if isinstance(value, float) and math.isinf(value):
        return None
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class VotesInfo(RunInfo):
    """The settings of a certify or predict run, except `alpha`, `bound` and `certificate`, which are the report's.

    `run_alpha` and `run_bound` are the header's. Bound and certificate are None for predictions; n0 too, but for
    pairwise ones, where n0 copies chose the class and n tested it. `rule` says how votes elect the class that is
    certified or predicted. `sampling` is None if every input got n0 + n samples; otherwise these are upper limits and
    it holds the stopping rule.

    With a fixed set of `masks` masks there is no n, alpha or seed; `bound` is the election rule, `against` says whether
    the radius is of perturbed pixels or patches, `seconds` is the time limit of the linear programs, and `independent`
    says that the radius holds for training values too (`training.independent`).
    """

    scheme: dict[str, Any]
    encoding: str
    n0: int | None = None
    sampling: dict[str, Any] | None = None
    shard: str | None
    rule: str
    bound: str | None = None
    certificate: str | None = None
    run_alpha: float | None = None
    run_bound: str | None = None
    against: str | None = None
    run_against: str | None = None
    seconds: float | None = None
    independent: bool = False

    @property
    def certifies(self) -> bool:
        return self.kind == CERTIFY

    @property
    def exact(self) -> bool:
        """Whether the masks are a fixed set, all of which vote."""
        return self.masks is not None

    @property
    def recertified(self) -> bool:
        """Whether the report uses another alpha, bound or threat model than the run."""
        used, own = (self.alpha, self.bound, self.against), (self.run_alpha, self.run_bound, self.run_against)
        return used != own


def read_run_info(records: Records, alpha: float | None, bound: str | None) -> VotesInfo:
    """The settings of a run with random masks; alpha and bound, if given, replace the run's."""
    _check_kind(records)
    run, certifies = records.header.run, records.header.certifies
    if bound is not None and not certifies:
        raise InputError(
            f"bound {bound} was asked of {records.path}, which holds predictions; leave it out or name certify records"
        )
    with damaged_header_refused(records.path):
        method = _method(records, bound) if certifies else None
        return VotesInfo(
            **_votes_settings(records),
            n0=run["n0"] if certifies else run.get("n0"),
            n=run["n"],
            sampling=run.get("sampling"),
            alpha=run["alpha"] if alpha is None else alpha,
            seed=run["seed"],
            rule=CERTIFICATES[method].rule if method else election_rule(records.header),
            bound=method,
            certificate=theorem_name(method, run["scheme"], run.get("sampling")) if method else None,
            run_alpha=run["alpha"],
            run_bound=run["bound"] if certifies else None,
        )


def _method(records: Records, bound: str | None) -> str:
    """The bound to certify by: the run's own, or the one asked for, if the votes allow it."""
    own = CERTIFICATES[records.header.run["bound"]]
    method = own if bound is None else CERTIFICATES[bound]
    if method.by_pairs and not own.by_pairs:
        raise InputError(
            f"bound {bound} was asked of {records.path}, whose copies did not rank the classes (its bound is "
            f"{own.name}); certify again with --bound {bound}"
        )
    return method.name


def read_exact_run_info(records: Records, procedure: Exact) -> VotesInfo:
    """The settings of a run with a fixed set of masks, certified by `procedure`."""
    _check_kind(records)
    run = records.header.run
    with damaged_header_refused(records.path):
        certified: dict[str, Any] = (
            {
                "certificate": EXACT,
                "against": procedure.against,
                "run_against": run["against"],
                "seconds": procedure.seconds,
                "independent": bool(run.get("independent", False)),
            }
            if records.header.certifies
            else {}
        )
        return VotesInfo(
            **_votes_settings(records),
            rule=procedure.rule or run["rule"],
            bound=procedure.rule,
            run_bound=run["rule"],
            masks=run["masks"],
            **certified,
        )


def _check_kind(records: Records) -> None:
    if records.header.kind not in (CERTIFY, PREDICT):
        held = f"{records.path} holds {records.header.kind!r} records"
        raise InputError(f"{held}, reports know {CERTIFY} and {PREDICT}; update sparsecert")
    if not records.header.labelled:
        raise InputError(
            f"{records.path} holds rows without a target, so there is no accuracy to report; for the answers run the "
            "same command again with --out answers.csv"
        )


def common_settings(records: Records | AttackRecords) -> dict[str, Any]:
    """The fields of `RunInfo` without a default."""
    header, run, environment = records.header, records.header.run, records.header.environment
    return {
        "path": records.path,
        "kind": header.kind,
        "inputs": len(records.lines),
        "expected_inputs": header.expected_inputs,
        "all_inputs": run["data"]["of"],
        "unit": _unit(run),
        "model_file": environment["model"],
        "model_sha256": run["model"]["sha256"],
        "data": run["data"]["name"],
        "split": run["data"]["split"],
        "scheme": run.get("scheme"),
        "precision": run["precision"],
        "chosen": run["chosen"]["kind"] if "chosen" in run else None,
        "device": run["device"],
        "device_name": environment["device_name"],
    }


def _unit(run: dict[str, Any]) -> str:
    """What of an input is perturbed. Headers name it for tables; from Python, only exact runs of features do."""
    if run.get("against") == FEATURES:
        return FEATURES
    return str(run["data"].get("unit", "pixels" if "fingerprint" in run["data"] else "units"))


def _votes_settings(records: Records) -> dict[str, Any]:
    run = records.header.run
    return {
        **common_settings(records),
        **({"unit": "units"} if "values" in run["scheme"] else {}),  # each channel of a pixel is one
        "scheme": run["scheme"],
        "encoding": run["encoding"]["kind"],
        "shard": f"{run['shard']['index']}/{run['shard']['of']}" if "shard" in run else None,
    }


@contextmanager
def damaged_header_refused(path: Path) -> Iterator[None]:
    """Refuses a header in which something is missing or of the wrong type."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} has a damaged header, {error} cannot be read; name another file") from error
