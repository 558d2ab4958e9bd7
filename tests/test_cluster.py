"""Runs over a Ray cluster: the counts of a run on one machine, to the last vote, whatever is killed on the way.

The cluster is on this machine, with room for two workers.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from sparsecert import datasets
from sparsecert.errors import InputError
from sparsecert.procedures import Exact, Fixed, Sequential
from sparsecert.records import Header, read
from sparsecert.runs import Cluster, DatasetRun, RandomSample, RunSpec, ray_pool, record_all, record_on_cluster
from sparsecert.runs import cluster as clusters
from sparsecert.runs.cluster import check_worker
from sparsecert.runs.connection import capacity, describe_resources, ray_connection
from sparsecert.runs.worker import WorkerInfo
from sparsecert.schemes import Lattice, Uniform
from sparsecert.smoothed import Smoothed
from tests.helpers import has_lines, wait_until
from tests.pages import ROOT, run_page

pytestmark = pytest.mark.check

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'sparsecert[ray]'")

FIXED = RunSpec("certify", Fixed(20, 200), 0.05, 0)
SEQUENTIAL = RunSpec("certify", Sequential(max_samples=1_000, n0=100), 0.05, 0)
QUESTIONS = {"fixed": FIXED, "sequential": SEQUENTIAL}
ROWS = 64  # so that there are many groups, of 2 and of 4 inputs
LIMIT = {"fixed": 48, "sequential": 80}


@pytest.fixture(scope="module", autouse=True)
def address() -> Iterator[str]:
    """A cluster with room for two workers, to which this process is connected."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not find the tests
        with _files_left_open():
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=80 << 20,
                log_to_driver=False,
                logging_level=logging.CRITICAL,
            )
        yield ray.get_runtime_context().gcs_address
        with _files_left_open():
            ray.shutdown()


@contextmanager
def _files_left_open() -> Iterator[None]:
    """Older releases of Ray leave log files and processes to the garbage collector, as they start and as they end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a worker takes a while to start, which is no warning here."""
    monkeypatch.setattr(ray_pool, "PATIENCE", (300, 600))


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As the workers have: rounding may depend on it."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _local(trained: Path, out: Path, kind: str = "fixed") -> Path:
    smoothed = Smoothed.load(trained, rows=ROWS)
    record_all(DatasetRun(QUESTIONS[kind], smoothed, trained, datasets.load("digits"), out, LIMIT[kind]))
    return out


def _on_cluster(
    trained: Path, out: Path, question: RunSpec, limit: int, cluster: Cluster | None = None, **more: Any
) -> Path:
    smoothed = Smoothed.load(trained, rows=ROWS)
    cluster = cluster or Cluster(workers=2)
    record_on_cluster(cluster, DatasetRun(question, smoothed, trained, datasets.load("digits"), out, limit, **more))
    return out


def _content(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What decides the run, and its lines in the order of the inputs, without their times."""
    header, *lines = (json.loads(line) for line in path.read_text().splitlines())
    assert header.pop("environment")["rows"] == ROWS
    for line in lines:
        del line["seconds"]
    return header, sorted(lines, key=lambda line: line["example"])


@dataclass(frozen=True)
class Watched:
    """A question that does something in its worker before it computes a group; its records are those of `inner`."""

    inner: Any
    act: Callable[[list[int]], None]

    def __getattr__(self, name: str) -> Any:
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def steps(self, voter: Any, group: Any, on_progress: Any) -> Any:
        self.act(group.examples)
        return (yield from self.inner.steps(voter, group, on_progress))


def _sign(folder: Path, examples: list[int]) -> None:
    (folder / str(os.getpid())).touch()


def _die_over(example: int, examples: list[int]) -> None:
    if example in examples:
        os.kill(os.getpid(), signal.SIGKILL)


def _raise(error: Exception, examples: list[int]) -> None:
    raise error


def _warn(examples: list[int]) -> None:
    warnings.warn("the weather is odd", stacklevel=1)


@pytest.mark.parametrize("kind", list(QUESTIONS))
def test_a_worker_killed_in_the_middle_costs_no_vote(trained: Path, tmp_path: Path, kind: str) -> None:
    pids, reported = tmp_path / "pids", []
    pids.mkdir()

    def tell(inputs: int, copies: int) -> None:
        reported.append((inputs, copies))
        if copies and sum(1 for _, taken in reported if taken) == 1:
            os.kill(int(next(pids.iterdir()).name), signal.SIGKILL)

    watched = Watched(QUESTIONS[kind], partial(_sign, pids))
    with pytest.warns(UserWarning, match=r"a worker died over inputs? \d+.*; another computes them again"):
        _on_cluster(trained, tmp_path / "c.jsonl", watched, LIMIT[kind], on_progress=tell)
    assert len(list(pids.iterdir())) >= 2
    assert _content(tmp_path / "c.jsonl") == _content(_local(trained, tmp_path / "local.jsonl", kind))
    found = read(tmp_path / "c.jsonl")
    assert sum(inputs for inputs, _ in reported) == LIMIT[kind]
    assert sum(copies for _, copies in reported) == sum(line.copies for line in found.lines)
    assert found.header.environment["workers"] == 2
    assert found.header.environment["threads"] == 1


def test_a_run_begun_on_one_is_continued_on_the_other(trained: Path, tmp_path: Path) -> None:
    """It keeps the rows it was started with; they need not be given again."""
    whole = _content(_local(trained, tmp_path / "whole.jsonl"))
    lines = (tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "c.jsonl").write_bytes(b"".join(lines[:10]) + lines[10][:20])
    digits, reported = datasets.load("digits"), []
    smoothed = Smoothed.load(trained)
    run = DatasetRun(
        FIXED, smoothed, trained, digits, tmp_path / "c.jsonl", 48, on_progress=lambda *now: reported.append(now)
    )
    record_on_cluster(Cluster(), run)
    assert _content(tmp_path / "c.jsonl") == whole
    assert reported[0] == (9, 0)
    assert sum(inputs for inputs, _ in reported) == 48
    lines = (tmp_path / "c.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "d.jsonl").write_bytes(b"".join([lines[0], *lines[7:]]))
    record_all(DatasetRun(FIXED, smoothed, trained, digits, tmp_path / "d.jsonl", 48))
    assert _content(tmp_path / "d.jsonl") == whole


def test_a_random_subset_is_the_same_on_both(trained: Path, tmp_path: Path) -> None:
    digits, smoothed = datasets.load("digits"), Smoothed.load(trained, rows=ROWS)
    record_all(DatasetRun(FIXED, smoothed, trained, digits, tmp_path / "local.jsonl", RandomSample(6, 1)))
    record_on_cluster(
        Cluster(), DatasetRun(FIXED, smoothed, trained, digits, tmp_path / "cluster.jsonl", RandomSample(6, 1))
    )
    assert [line.example for line in read(tmp_path / "local.jsonl").lines] == digits.random_indices(6, 1).tolist()
    assert _content(tmp_path / "cluster.jsonl") == _content(tmp_path / "local.jsonl")


def test_inputs_that_kill_their_workers_end_the_run_and_are_named(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "DEATHS", 2)
    first, last = datasets.load("digits").spaced_indices(48)[40:42].tolist()  # a group
    poisoned = Watched(FIXED, partial(_die_over, last))
    out = tmp_path / "c.jsonl"
    with (
        pytest.warns(UserWarning, match=f"a worker died over .*inputs {first} to {last}"),
        pytest.raises(InputError, match=f"^2 workers died over inputs {first} to {last}: .*; finished inputs are kept"),
    ):
        _on_cluster(trained, out, poisoned, 48)
    assert 0 < len(read(out).lines) < 48
    whole = _content(_local(trained, tmp_path / "local.jsonl"))
    assert _content(_local(trained, out)) == whole


def test_a_worker_that_dies_at_its_start_ends_the_run(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deadly(torch.nn.Flatten):
        def forward(self, _: torch.Tensor) -> torch.Tensor:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    monkeypatch.setattr(ray_pool, "DEATHS", 2)
    smoothed = Smoothed(torch.nn.Sequential(Deadly(), torch.nn.Linear(128, 10)), Uniform(64, 16))
    smoothed.save(tmp_path / "m.safetensors")
    with pytest.raises(InputError, match=r"^2 workers in a row died as they started: "):
        record_on_cluster(
            Cluster(workers=2),
            DatasetRun(FIXED, smoothed, tmp_path / "m.safetensors", datasets.load("digits"), tmp_path / "c.jsonl"),
        )
    assert not (tmp_path / "c.jsonl").exists()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("alpha is odd; choose another"), "^alpha is odd; choose another$"),
        (
            ZeroDivisionError("by\nnought"),
            r"^a worker failed computing inputs? \d+.*: ZeroDivisionError: nought; finished inputs",
        ),
    ],
)
def test_what_a_worker_raises_reaches_the_user_in_one_line(
    trained: Path, tmp_path: Path, error: Exception, message: str
) -> None:
    with pytest.raises(InputError, match=message) as refusal:
        _on_cluster(trained, tmp_path / "c.jsonl", Watched(FIXED, partial(_raise, error)), 48, Cluster(workers=1))
    assert "\n" not in str(refusal.value)


def test_a_module_of_ones_own_is_sent_and_warnings_come_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(128, 10))
    Smoothed(network, Uniform(64, 16)).save(tmp_path / "m.safetensors")
    smoothed = Smoothed.load(tmp_path / "m.safetensors", torch.nn.Sequential(*network), rows=ROWS)
    predict, digits = RunSpec("predict", Fixed(n=100), 0.05, 3), datasets.load("digits")
    model, watched = tmp_path / "m.safetensors", Watched(predict, _warn)
    with pytest.warns(UserWarning, match="the weather is odd"):
        record_on_cluster(Cluster(workers=1), DatasetRun(watched, smoothed, model, digits, tmp_path / "p.jsonl", 10))
    record_all(DatasetRun(predict, smoothed, model, digits, tmp_path / "local.jsonl", 10))
    assert _content(tmp_path / "p.jsonl") == _content(tmp_path / "local.jsonl")


def test_too_little_room_is_said_and_not_waited_for_for_ever(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_pool, "PATIENCE", (0.1, 0.2))
    with (
        pytest.warns(UserWarning, match="room for 0 of 1 workers, each of 1 CPU and 1 GPU"),
        pytest.warns(UserWarning, match="no worker has started: the cluster has no room yet for one of 1 CPU and"),
        pytest.raises(InputError, match=r"no worker of 1 CPU and 1 GPU started in 0.2 seconds; ask for less"),
    ):
        _on_cluster(trained, tmp_path / "c.jsonl", FIXED, 48, Cluster(workers=1, device="cuda"))
    assert not (tmp_path / "c.jsonl").exists()


def test_a_run_goes_on_with_the_workers_that_start(trained: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="room for 2 of 3 workers, each of 1 CPU; the others start if it grows"):
        _on_cluster(trained, tmp_path / "c.jsonl", FIXED, 48, Cluster(workers=3))
    assert _content(tmp_path / "c.jsonl") == _content(_local(trained, tmp_path / "local.jsonl"))


def test_another_run_is_refused_and_untouched(trained: Path, tmp_path: Path) -> None:
    before = _local(trained, tmp_path / "c.jsonl").read_bytes()
    with pytest.raises(InputError, match="holds another run: seed is 0 there, 1 here"):
        _on_cluster(trained, tmp_path / "c.jsonl", replace(FIXED, seed=1), 48, Cluster(workers=1))
    assert (tmp_path / "c.jsonl").read_bytes() == before


def test_the_command_killed_by_sigkill_ends_with_the_same_content(trained: Path, tmp_path: Path, address: str) -> None:
    out, certify = tmp_path / "c.jsonl", RunSpec("certify", Fixed(50, 1_000), 0.05, 0)
    settings = ["--data", "digits", "--limit", 40, "--n0", 50, "--n", 1_000, "--rows", ROWS, "--out", out]
    cluster = ["--ray", "auto", "--workers", 2, "--device", "cpu"]
    command = list(map(str, [sys.executable, "-m", "sparsecert", "certify", trained, *settings, *cluster]))
    environment = {**os.environ, "RAY_ADDRESS": address}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as process:
        wait_until(lambda: has_lines(out, 5))
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert 5 <= out.read_bytes().count(b"\n") < 41
    again = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert again.stdout.startswith("accuracy (abstained)"), again.stdout
    record_all(
        DatasetRun(
            certify, Smoothed.load(trained, rows=ROWS), trained, datasets.load("digits"), tmp_path / "d.jsonl", 40
        )
    )
    assert _content(out) == _content(tmp_path / "d.jsonl")


MADE = {"sparsecert": "0.1.0", "torch": "2.9", "device_name": "x86_64", "threads": 1}


def test_a_worker_that_does_not_fit_the_run_is_refused() -> None:
    header = Header("certify", {"device": "cpu", "precision": "fp32"}, MADE)
    check_worker(header, WorkerInfo("cpu", "fp32", MADE, ()))
    with pytest.raises(InputError, match="a worker computes on cuda, the run on cpu; set one device"):
        check_worker(header, WorkerInfo("cuda", "fp32", MADE, ()))
    with pytest.raises(InputError, match="a worker computes in bf16, the run in fp32; set one precision"):
        check_worker(header, WorkerInfo("cpu", "bf16", MADE, ()))
    with pytest.raises(InputError, match=r"a worker has sparsecert 0.0.9, this is .*; install the same there"):
        check_worker(header, WorkerInfo("cpu", "fp32", {**MADE, "sparsecert": "0.0.9"}, ()))
    with pytest.warns(UserWarning, match=r"a worker has torch 2.8, not 2.9; threads 4, not 1 as the run was started"):
        check_worker(header, WorkerInfo("cpu", "fp32", {**MADE, "torch": "2.8", "threads": 4}, ()))


def test_room_is_counted_node_by_node() -> None:
    nodes = [
        {"Alive": True, "Resources": {"CPU": 3.0, "GPU": 1.0}},
        {"Alive": True, "Resources": {"CPU": 4.0}},
        {"Alive": False, "Resources": {"CPU": 64.0}},
    ]
    assert capacity(nodes, {"CPU": 2}) == 3
    assert capacity(nodes, {"CPU": 1, "GPU": 0.1}) == 3
    assert capacity(nodes, {"CPU": 0.1, "GPU": 0.1}) == 10
    assert capacity(nodes, {"CPU": 8}) == 0
    assert describe_resources({"CPU": 0.5, "GPU": 1.0}) == "0.5 CPU and 1 GPU"


def test_a_worker_takes_a_gpu_where_there_is_one_and_it_is_not_forbidden() -> None:
    assert Cluster().need({"CPU": 8}) == {"CPU": 1}
    assert Cluster().need({"CPU": 8, "GPU": 2}) == {"CPU": 1, "GPU": 1}
    assert Cluster(device="cpu").need({"CPU": 8, "GPU": 2}) == {"CPU": 1}
    assert Cluster(device="cuda").need({"CPU": 8}) == {"CPU": 1, "GPU": 1}
    assert Cluster(gpus_per_worker=0).need({"GPU": 2}) == {"CPU": 1}
    assert Cluster(gpus_per_worker=0.5, cpus_per_worker=2).need({}) == {"CPU": 2, "GPU": 0.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers must be a whole number between 1 and"),
        ({"cpus_per_worker": 0}, "cpus_per_worker must be above 0, got 0"),
        ({"cpus_per_worker": float("nan")}, "cpus_per_worker must be above 0"),
        ({"gpus_per_worker": 1.5}, "gpus_per_worker must be a whole number, or a share between 0 and 1, got 1.5"),
        ({"gpus_per_worker": -1}, "gpus_per_worker must be"),
        ({"device": "cuda:1"}, "device must be one of auto, cpu, cuda, mps on a cluster, got 'cuda:1'"),
        ({"device": "cuda", "gpus_per_worker": 0}, "device cuda and 0 gpus_per_worker do not go together"),
        ({"device": "cpu", "gpus_per_worker": 1}, "device cpu and 1 gpus_per_worker do not go together"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cluster(**settings)


def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAY_ADDRESS", address)
    run_page((ROOT / "docs" / "machines.md").read_text(), has=("a cluster",))
    by_ray, by_shards = (read(tmp_path / "runs" / f"{name}.jsonl") for name in ("by-ray", "certify"))
    assert {line.example: line.true for line in by_ray.lines} == {line.example: line.true for line in by_shards.lines}


def test_without_ray_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    message = r"Ray is not installed; pip install 'sparsecert\[ray\]'"
    with pytest.raises(InputError, match=message), ray_connection("auto"):
        pass


def test_a_classifier_that_is_not_the_files_is_refused(trained: Path) -> None:
    """The workers build what the file says; the records would name what this process has."""
    loaded = Smoothed.load(trained)
    other = Smoothed(loaded.model, Uniform(64, 3), loaded.encoding, classes=10)
    with pytest.raises(InputError, match="was saved with another scheme than"):
        clusters._job(Cluster(), {"CPU": 1}, DatasetRun(FIXED, other, trained, datasets.load("digits"), "unused"), "")


def test_fixed_masks_are_certified_as_on_one_machine(trained: Path, tmp_path: Path) -> None:
    """The same network, shown every mask of a lattice."""
    lattice, network = Lattice(8, 8, 8), Smoothed.load(trained)
    model = tmp_path / "lattice.safetensors"
    Smoothed(network.model, lattice, network.encoding, classes=10, metadata=network.metadata).save(model)
    question, local = RunSpec("certify", Exact(), None, 0), tmp_path / "local.jsonl"
    record_all(DatasetRun(question, Smoothed.load(model, rows=ROWS), model, datasets.load("digits"), local, 80))
    spread = _on_cluster(model, tmp_path / "spread.jsonl", question, 80)
    assert _content(spread) == _content(local)
