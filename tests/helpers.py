"""What tests of several topics share: when errors are too many, files without their times, photographs, processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from scipy.stats import binom

from sparsecert import modelfile
from sparsecert.certificates.adversary import Adversary
from sparsecert.certificates.plurality import ExactCertificate, Ranks, plurality
from sparsecert.certificates.run_off import run_off
from sparsecert.counts import Int64

Digits = tuple[torch.Tensor, torch.Tensor]  # the fixture `digits`: images and labels
ONCE_IN_A_MILLION = 1e-6  # seeds are fixed: a right generator fails a test at this level for no seed we could have met


def acceptable(errors: int, runs: int, alpha: float) -> bool:
    """Whether so many errors are believable if each run errs with probability alpha at most."""
    return bool(binom.sf(errors - 1, runs, alpha) > ONCE_IN_A_MILLION)


def untimed(path: Path) -> list[dict[str, Any]]:
    """The header and lines of a records file without their times."""
    header, *lines = (json.loads(line) for line in path.read_text().splitlines())
    header["environment"].pop("started")
    return [header, *({k: v for k, v in line.items() if k != "seconds"} for line in lines)]


def same_weights(one: Path, other: Path) -> bool:
    """Whether two model files hold the same tensors."""
    first, second = (modelfile.read(path)[0] for path in (one, other))
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def write_photographs(folder: Path, count: int, size: tuple[int, int], suffix: str = "png") -> None:
    """Random photographs of two classes, as `folder`/class0/0.png, `folder`/class1/1.png, ..."""
    for i in range(count):
        path = folder / f"class{i % 2}" / f"{i}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.random.default_rng(i).integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)


def modules_after(program: str, *arguments: object) -> set[str]:
    """The modules that are imported once a program has run, in a process of its own."""
    command = [sys.executable, "-c", f"import sys\n{program}\nprint(*sys.modules)", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {*done.stdout.split()}


def wait_until(ready: Callable[[], bool], seconds: float = 120) -> None:
    """Returns once it is ready, or after so long: the test asserts what it waited for."""
    deadline = time.monotonic() + seconds
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.005)


def has_lines(path: Path, count: int) -> bool:
    """Whether so many lines are written."""
    return path.exists() and path.read_bytes().count(b"\n") >= count


def one_plurality(labels: Int64, classes: int, adversary: Adversary) -> ExactCertificate:
    """The plurality of one election."""
    (label,), (radius,) = plurality(labels[None], classes, adversary)
    return ExactCertificate(int(label), int(radius))


def one_run_off(ranks: Ranks, adversary: Adversary) -> ExactCertificate:
    """The run-off of one election."""
    (label,), (radius,) = run_off(ranks[None], adversary)
    return ExactCertificate(int(label), int(radius))
