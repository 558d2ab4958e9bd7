"""Promises about the package as a whole."""

from __future__ import annotations

import ast
import re
import resource
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tests.helpers import modules_after

SOURCES = sorted((Path(__file__).parent.parent / "src").rglob("*.py"))


@pytest.mark.parametrize(
    "module",
    [
        "sparsecert",
        "sparsecert.bounds",
        "sparsecert.certificates",
        "sparsecert.records.merging",
        "sparsecert.records",
        "sparsecert.reports",
    ],
)
def test_the_mathematics_needs_no_torch(module: str) -> None:
    assert not modules_after(f"import {module}") & {"torch", "matplotlib", "jinja2"}


ABOVE = ["smoothed", "procedures", "votes", "training", "attacks", "runs", "service", "cli"]  # of the flow's ends


@pytest.mark.parametrize(
    ("folders", "forbidden"),
    [
        (["bounds", "certificates", "records", "reports"], ["torch"]),
        (["inputs", "datasets"], ["torch", "sparsecert.models", *(f"sparsecert.{name}" for name in ABOVE)]),
    ],
    ids=["results", "inputs"],
)
def test_imports_point_down_the_flow(folders: list[str], forbidden: list[str]) -> None:
    """Importing every file of these folders imports nothing of what is forbidden there."""
    root = Path(__file__).parent.parent / "src"
    files = [path for path in SOURCES if path.relative_to(root / "sparsecert").parts[0] in folders]
    names = [".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__") for path in files]
    loaded = modules_after(f"import {', '.join(names)}")
    assert {*names} <= loaded
    assert not {name for name in loaded for prefix in forbidden if f"{name}.".startswith(f"{prefix}.")}


def test_other_libraries_are_imported_where_they_are_used() -> None:
    """Certifying and training need torch, numpy, scipy, safetensors, click and rich alone."""
    modules = modules_after("import sparsecert.cli, sparsecert.datasets.own, sparsecert.runs, sparsecert.training")
    assert {"torch", "numpy", "safetensors"} <= modules
    assert not modules & {"ray", "PIL", "matplotlib", "jinja2", "sklearn", "pandas", "fastapi", "prometheus_client"}


def test_certifying_old_votes_again_needs_no_torch() -> None:
    code = (
        "from sparsecert.certificates import CERTIFICATES\n"
        "from sparsecert.counts import Tally\n"
        "from sparsecert.schemes import Uniform\n"
        "tally = Tally((990, 10))\n"
        "assert CERTIFICATES['two-sided'].certify(tally, tally, Uniform(784, 45), 0.001).radius == 10\n"
    )
    assert "torch" not in modules_after(code)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["certify", "--help"],
        ["attack", "--help"],
        ["train", "--help"],
        ["train", "--scheme", "lattice", "--encoding", "null-channels", "--help"],
        ["attack", "--attack", "pointwise", "--help"],
        ["serve", "--help"],
        ["data", "get", "--help"],
        ["records", "merge", "--help"],
        ["--version"],
    ],
)
def test_help_imports_neither_torch_nor_anything_slow(arguments: list[str]) -> None:
    code = ["from sparsecert.cli import main", "try:", f"    main({arguments!r})", "except SystemExit as end:"]
    modules = modules_after("\n".join([*code, "    assert not end.code"]))
    assert "click" in modules
    heavy = {"torch", "scipy", "matplotlib", "rich", "PIL", "safetensors", "ray", "fastapi", "jinja2"}
    assert not modules & {*heavy, "prometheus_client"}


def test_class_names_are_unique() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path.name)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["attack", "--help"], ["certify", "--help"]])
def test_help_takes_less_than_a_third_of_a_second(arguments: list[str]) -> None:
    """Of computing time, at best: other processes on the machine do not count."""
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "sparsecert", *arguments], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    assert min(seconds) < 0.3


def test_no_pickle_is_ever_loaded() -> None:
    loads = r"torch\.load\(|np\.load\((?!.*allow_pickle=False)"
    unsafe = re.compile(rf"\bpickle\b(?! is ever loaded)|{loads}|joblib|dill|marshal|\beval\(|\bexec\(")
    found = [
        f"{path.name}: {line}" for path in SOURCES for line in path.read_text().splitlines() if unsafe.search(line)
    ]
    harmless = "No pickle", "model.eval()", "weights_only=True"  # the last refuses whatever is not a tensor
    assert [line for line in found if not any(words in line for words in harmless)] == []


def test_the_package_imports_nothing_of_the_studies() -> None:
    outside = re.compile(r"^\s*(from|import) (studies|benchmarks|results|tests)\b")
    assert [path.name for path in SOURCES for line in path.read_text().splitlines() if outside.search(line)] == []


def test_nothing_reads_a_global_generator() -> None:
    """Chance is always seeded by an argument: no bare torch.rand, np.random.seed or random module."""
    bare = re.compile(r"np\.random\.(seed|rand|randint|choice)\b|^import random|from random import")
    assert [path.name for path in SOURCES for line in path.read_text().splitlines() if bare.search(line)] == []
