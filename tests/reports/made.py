"""Hand-made records: chosen votes for each input, and a header like the one a run writes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sparsecert.counts import Tally
from sparsecert.records import Header, Record, Records

N0, N = 60, 400
CHOOSE_0 = Tally((50, 10, 0))  # selection votes that choose class 0

# Estimation votes and, by tests/reports/test_summary.py's own arithmetic, their two-sided radius at alpha = 0.05 under
# Uniform(units=100, keep=5).
AT_12 = Tally((400, 0, 0))
AT_6 = Tally((330, 70, 0))
AT_4 = Tally((300, 100, 0))
AT_0 = Tally((230, 170, 0))
ABSTAINED = Tally((205, 195, 0))


def header(kind: str = "certify", *, inputs: int = 5, **changes: Any) -> Header:
    run: dict[str, Any] = {
        "model": {"sha256": "0123456789abcdef" * 4},
        "scheme": {"kind": "uniform", "units": 100, "keep": 5},
        "encoding": {"kind": "null-channels", "mean": None, "std": None},
        "classes": 3,
        "precision": "fp32",
        "device": "cpu",
        "n": N,
        "alpha": 0.05,
        "seed": 7,
        "data": {"name": "made_up", "split": "test", "fingerprint": "f" * 64, "inputs": inputs, "of": 1000},
    }
    if kind == "certify":
        run |= {"n0": N0, "bound": "two-sided", "certificate": "corollary-2"}
    environment = {"model": "model.safetensors", "device_name": "a_small & slow one"}
    return Header(kind, run | changes, environment)


def certified(
    votes: Sequence[Tally],
    true: Sequence[int] | None = None,
    *,
    path: str = "runs/made/certify.jsonl",
    selection: Tally = CHOOSE_0,
    inputs: int | None = None,
    **changes: Any,
) -> Records:
    """Certify records whose stored answers are nonsense: reports must not look at them."""
    lines = tuple(
        Record(
            example=3 * i,
            true=0 if true is None else true[i],
            votes=tally,
            label=2,
            seconds=0.5 + i,
            selection=selection,
            p_lower=0.123,
            p_upper=0.456,
            radius=77,
        )
        for i, tally in enumerate(votes)
    )
    return Records(Path(path), header(inputs=len(votes) if inputs is None else inputs, **changes), lines)


def predicted(
    votes: Sequence[Tally], true: Sequence[int] | None = None, *, path: str = "runs/made/predict.jsonl", **changes: Any
) -> Records:
    lines = tuple(
        Record(example=i, true=0 if true is None else true[i], votes=tally, label=2, seconds=0.25)
        for i, tally in enumerate(votes)
    )
    return Records(Path(path), header("predict", inputs=len(votes), **changes), lines)
