"""Several processes that train together: the weights of one process, killed or not."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from sparsecert import modelfile
from sparsecert.errors import InputError
from sparsecert.models.resnet import resnet18_cifar
from sparsecert.training import ProcessGroup, join_process_group
from sparsecert.training.batch_norm import SyncBatchNorm, synchronise_batch_norm
from tests.helpers import same_weights, wait_until

pytestmark = pytest.mark.check

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}  # sums depend on the number of threads
TRAIN = ["train", "--data", "digits", "--device", "cpu", "--checkpoint-seconds", "0"]
PLACE = {"RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


def _processes(count: int, *command: str) -> list[str]:
    """By torchrun, on a port that is free."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(count)]
    return [*launcher, "--master-addr", "127.0.0.1", "--master-port", str(port), *command]


def _run(count: int, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_processes(count, *command), env=ENVIRONMENT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("batch", "size"), [(1, 1), (7, 2), (256, 8), (1000, 3)])
def test_the_parts_of_a_batch_are_the_batch(batch: int, size: int) -> None:
    parts = [ProcessGroup(rank, size).shard(batch) for rank in range(size)]
    assert [place for part in parts for place in part] == list(range(batch))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_two_processes_end_in_the_weights_of_one(tmp_path: Path) -> None:
    done = [
        _run(
            count, "-m", "sparsecert", *TRAIN, "--epochs", "2", "--mask-per", "minibatch", "--out", str(tmp_path / name)
        )
        for count, name in ((1, "one"), (2, "two"))
    ]
    assert [run.stdout.count("wrote") for run in done] == [1, 1], done[1].stderr
    one, two = (modelfile.read(tmp_path / name)[0] for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-3, atol=1e-4)
    headers = [modelfile.read_header(tmp_path / name)["facts"]["training"] for name in ("one", "two")]
    assert headers[0]["settings"] == headers[1]["settings"]
    assert headers[0]["last_epoch"] == pytest.approx(headers[1]["last_epoch"], rel=0.01)


def test_two_processes_train_a_residual_network_as_one_does(tmp_path: Path) -> None:
    """In doubles, so that nothing hides behind rounding: batch norm over the whole batch, odd batches, crops, momentum.

    Untrained, such a network multiplies differences by ten with every step.
    """
    script = tmp_path / "train.py"
    script.write_text(
        """
import sys, torch
from dataclasses import replace
from sparsecert import datasets
from sparsecert.datasets import ArrayImages
from sparsecert.encodings import NullChannels
from sparsecert.training.recipes import RECIPES
from sparsecert.schemes import Uniform
from sparsecert.training import TrainingRun, join_process_group, exit_process, train_many

torch.set_default_dtype(torch.float64)
as_trained = TrainingRun._copies
TrainingRun._copies = lambda run, chosen: as_trained(run, chosen).double()
data = datasets.load("digits", "train")
data = replace(data, images=ArrayImages(data.images.pixels[:115]), labels=data.labels[:115])
recipe = replace(RECIPES["digits"].shortened(2), model="resnet18-cifar", batch=50, augment="crop-flip", nesterov=True)
with join_process_group("cpu") as (processes, device):
    run = TrainingRun(data, recipe, Uniform(64, 20), NullChannels(), 0, torch.device(device), processes=processes)
    train_many([(run, sys.argv[1])])
exit_process()
"""
    )
    for count, name in ((1, "one"), (2, "two")):
        done = _run(count, str(script), str(tmp_path / name))
        assert done.returncode == 0, done.stderr
    one, two = (modelfile.read(tmp_path / name)[0] for name in ("one", "two"))
    assert one["0.0.weight"].dtype == torch.float64
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=1e-6, atol=1e-8)


ADAMW = ["--recipe", "vote-mnist", "--scheme", "lattice", "--parts", "8", "--precision", "fp32", "--batch", "64"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc")
@pytest.mark.parametrize("recipe", [[], ADAMW], ids=["sgd", "adamw"])
def test_processes_that_are_killed_go_on_from_the_checkpoint(tmp_path: Path, recipe: list[str]) -> None:
    """To the weights of a run that was not: the second process learns everything from the first."""
    arguments = ["-m", "sparsecert", *TRAIN, *recipe, "--epochs", "10", "--out"]
    killed, straight = tmp_path / "killed", tmp_path / "straight"
    process = subprocess.Popen(
        _processes(2, *arguments, str(killed)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )
    wait_until((killed / "checkpoint.safetensors").exists)
    for worker in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
        os.kill(int(worker), signal.SIGKILL)
    process.kill()
    process.wait()
    assert 0 < modelfile.read_header(killed / "checkpoint.safetensors")["step"] < 10 * 21
    assert not (killed / "model.safetensors").exists()
    for folder in (killed, straight):
        done = _run(2, *arguments, str(folder))
        assert done.returncode == 0, done.stderr
    assert same_weights(killed, straight)
    assert [len((folder / "training.jsonl").read_text().splitlines()) for folder in (killed, straight)] == [10, 10]


def test_processes_with_other_settings_or_nothing_to_do_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "differ.py"
    script.write_text(
        "import os\n"
        "from sparsecert.cli import main\n"
        "main(['train', '--data', 'digits', '--device', 'cpu', '--epochs', '1', '--seed', os.environ['RANK'],\n"
        f"      '--out', {str(tmp_path / 'differ')!r}])\n"
    )
    done = _run(2, str(script))
    assert done.returncode != 0
    assert "seed of process 1 differs from that of process 0" in done.stderr
    done = _run(2, "-m", "sparsecert", *TRAIN, "--batch", "1", "--epochs", "1", "--out", str(tmp_path / "few"))
    assert done.returncode != 0
    assert "the smallest batch has 1 inputs, fewer than the 2 processes" in done.stderr


@pytest.mark.parametrize(
    ("environment", "device", "message"),
    [
        ({}, "cpu", "WORLD_SIZE is 2 but RANK is not set; start by torchrun, or unset WORLD_SIZE"),
        ({"WORLD_SIZE": "two"}, "cpu", "WORLD_SIZE must be a whole number, as torchrun sets it, got 'two'; unset it"),
        ({"RANK": "1", "MASTER_ADDR": "127.0.0.1"}, "cpu", "MASTER_PORT is not set"),
        ({**PLACE, "LOCAL_WORLD_SIZE": "2"}, "cuda:0", "device must be cuda for 2 processes .*, got cuda:0"),
        ({**PLACE, "LOCAL_WORLD_SIZE": "2"}, "cuda", "2 processes need a GPU each, there are 1; start fewer"),
    ],
)
def test_a_place_that_a_process_cannot_take_is_refused(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], device: str, message: str
) -> None:
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "2", **environment}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(InputError, match=message), join_process_group(device):
        pass


def test_a_synchronised_model_keeps_its_parameters_and_answers() -> None:
    model = resnet18_cifar(6, 10).eval()
    names, images = list(model.state_dict()), torch.rand(2, 6, 8, 8)
    expected, parameters = model(images), list(model.parameters())
    same = synchronise_batch_norm(model)
    assert list(same.state_dict()) == names
    assert all(one is other for one, other in zip(parameters, same.parameters(), strict=True))
    norms = [part for part in same.modules() if isinstance(part, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert all(isinstance(norm, SyncBatchNorm) for norm in norms)
    assert torch.equal(same(images), expected)


def test_batch_norm_over_two_processes_is_batch_norm_over_the_whole_batch(tmp_path: Path) -> None:
    """Outputs, gradients and running statistics, for parts of different sizes and a mean far from zero."""
    script = tmp_path / "norm.py"
    script.write_text(
        """
import json, sys, torch, torch.distributed as dist
from torch import nn
from sparsecert.training.batch_norm import synchronise_batch_norm
dist.init_process_group("gloo")
torch.manual_seed(0)
x, weights = torch.randn(7, 3, 4, 5).double().float() * 2 + 30, torch.randn(7, 3, 4, 5)
def made():
    norm = nn.Sequential(nn.BatchNorm2d(3))
    with torch.no_grad():
        norm[0].weight.copy_(torch.tensor([0.5, 1.0, -2.0]))
        norm[0].bias.copy_(torch.tensor([0.1, 0.0, 3.0]))
    return norm
def outcome(norm, part):
    inputs = x[part].clone().requires_grad_()
    outputs = norm(inputs)
    (outputs * weights[part]).sum().backward()
    norm = norm[0]
    return outputs.detach(), inputs.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var
whole = outcome(made(), slice(0, 7))
part = slice(0, 3) if dist.get_rank() == 0 else slice(3, 7)
mine = outcome(synchronise_batch_norm(made()), part)
for grad in mine[2:4]:
    dist.all_reduce(grad)
wanted = (whole[0][part], whole[1][part], *whole[2:])
sys.stdout.write(json.dumps([float((a - b).abs().max()) for a, b in zip(mine, wanted)]) + "\\n")  # one line, at once
dist.barrier()
dist.destroy_process_group()
"""
    )
    done = _run(2, str(script))
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == 2
    assert all(max(line) < 1e-4 for line in lines), lines
