"""Networks of one's own, named as module:factory: imported where the user names them, never because a file does."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from sparsecert import InputError, NullChannels, Smoothed, Uniform, modelfile, models
from sparsecert.models.own import import_factory
from sparsecert.plain import files
from sparsecert.runs.cluster import Cluster, _job
from sparsecert.runs.local import DatasetRun
from sparsecert.runs.run_spec import RunSpec
from tests.commands import sparsecert

NETS = """
from torch import nn

imported = True

def small(channels, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 64, classes))

def alone(channels):
    return nn.Identity()

def number(channels, classes):
    return channels + classes

def failing(channels, classes):
    return nn.Linear(channels / 0, classes)
"""


@pytest.fixture
def own_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the user's module `own_nets`, on the path."""
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "own_nets.py").write_text(NETS)
    (folder / "broken_nets.py").write_text("1 / 0")
    (folder / "needy_nets.py").write_text("import nowhere_to_be_found")
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in ("own_nets", "broken_nets", "needy_nets"):
        sys.modules.pop(name, None)


@pytest.fixture
def saved(own_nets: Path, tmp_path: Path) -> Path:
    """The file of such a network, written in a process that has imported it; here it is not imported yet."""
    net = models.build_named("own_nets:small", 2, 10, seed=3)
    path = tmp_path / "own.safetensors"
    Smoothed(net, Uniform(64, 8), NullChannels(), classes=10, metadata={"shape": [1, 8, 8]}).save(path)
    del sys.modules["own_nets"]
    return path


def test_the_factory_is_called_with_channels_and_classes(own_nets: Path) -> None:
    before = torch.get_rng_state()
    net, again = (models.build_named("own_nets:small", 2, 10, seed=5) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert net[1].weight.shape == (10, 128)  # type: ignore[index,union-attr]
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), again.parameters(), strict=True))
    assert models.architecture_of(net) == {"name": "own_nets:small", "channels": 2, "classes": 10}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_nets:", "is module:factory, for example my_nets:small"),
        ("os.path;x:y", "is module:factory"),
        ("nowhere:small", "no module nowhere; add the folder that holds nowhere to PYTHONPATH"),
        ("nowhere.nets:small", "no module nowhere; add the folder that holds nowhere to PYTHONPATH"),
        ("own_nets.deeper:small", "cannot be imported"),
        ("own_nets:large", "own_nets has no function or class large"),
        ("own_nets:imported", "own_nets has no function or class imported"),
        ("own_nets:alone", r"is called as alone\(channels, classes\), which it does not take"),
        ("own_nets:number", "must return a torch.nn.Module, got int"),
        (
            "own_nets:failing",
            r"2 channels and 10 classes, failed: ZeroDivisionError.* at .*own_nets\.py:\d+",
        ),
        ("broken_nets:small", "cannot be imported: ZeroDivisionError"),
        ("needy_nets:small", "needy_nets needs nowhere_to_be_found, which is not installed"),
    ],
)
def test_what_is_no_network_is_refused(own_nets: Path, name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build_named(name, 2, 10)


def test_a_file_alone_imports_nothing(saved: Path, tmp_path: Path) -> None:
    assert modelfile.read_header(saved)["architecture"]["name"] == "own_nets:small"
    with pytest.raises(InputError, match=r"weights of own_nets:small, a network of yours.*add --model own_nets:small"):
        Smoothed.load(saved)
    plain = tmp_path / "plain.safetensors"
    files.save(plain, nn.Linear(1, 1), {"network": "own_nets:small", "channels": 1, "classes": 10}, {})
    with pytest.raises(InputError, match="model must be one of"):
        files.load(plain)
    assert "own_nets" not in sys.modules


def test_a_file_gets_its_weights_where_the_network_is_named(saved: Path, tmp_path: Path) -> None:
    tensors, header = modelfile.read(saved)
    loaded = Smoothed.load(saved, "own_nets:small")
    assert isinstance(loaded.model, nn.Module)
    assert all(torch.equal(tensor, tensors[name]) for name, tensor in loaded.model.state_dict().items())
    nameless = tmp_path / "nameless.safetensors"
    modelfile.write(nameless, tensors, {**header, "architecture": None})
    assert Smoothed.load(nameless, "own_nets:small").model[1].weight.shape == (10, 128)  # type: ignore[index]
    modelfile.write(nameless, tensors, {**header, "architecture": None, "facts": {}})
    with pytest.raises(InputError, match="does not say for which shape and how many classes to call own_nets:small"):
        Smoothed.load(nameless, "own_nets:small")
    (tmp_path / "code" / "moved_nets.py").write_text(NETS)
    with pytest.warns(UserWarning, match="holds the weights of own_nets:small; they go into moved_nets:small"):
        Smoothed.load(saved, "moved_nets:small")


def test_workers_are_sent_the_name(saved: Path) -> None:
    from sparsecert import datasets
    from sparsecert.procedures import Fixed

    loaded = Smoothed.load(saved, "own_nets:small")
    spec = RunSpec("certify", Fixed(10, 20), 0.05, 0)
    run = DatasetRun(spec, loaded, saved, datasets.load("digits"), saved.with_name("records.jsonl"))
    job = _job(Cluster(), {"CPU": 1}, run, modelfile.fingerprint(saved))
    assert job.module == "own_nets:small"
    again = Smoothed.load_bytes(job.file, job.model, job.module)
    assert repr(again.model) == repr(loaded.model)


def test_the_commands_take_it(own_nets: Path, tmp_path: Path) -> None:
    run, data = tmp_path / "run", ("--data", "digits", "--device", "cpu")
    named = ("--model", "own_nets:small")
    done = sparsecert("train", *data, *named, "--epochs", 1, "--out", run)
    assert done.returncode == 0, done.stderr
    assert "--model own_nets:small" in done.stdout
    del sys.modules["own_nets"]
    few = ("--limit", 2, "--n", 30)
    asked = {"certify": (*few, "--n0", 10), "predict": few, "attack": (*few, "--attack", "noise")}
    for verb, settings in asked.items():
        refused = sparsecert(verb, run, *data, *settings)
        assert refused.returncode == 2
        assert refused.stderr.count("\n") == 1
        assert "add --model own_nets:small" in refused.stderr
        assert "own_nets" not in sys.modules
    refused = sparsecert("serve", run)
    assert (refused.returncode, "add --model own_nets:small" in refused.stderr) == (2, True)
    assert json.loads(sparsecert("info", run).stdout)["architecture"]["name"] == "own_nets:small"
    assert "own_nets" not in sys.modules
    for verb, settings in asked.items():
        done = sparsecert(verb, run, *data, *settings, *named)
        assert done.returncode == 0, done.stderr


def test_a_class_is_a_factory_too(own_nets: Path) -> None:
    (own_nets / "class_nets.py").write_text(
        "from torch import nn\nclass Net(nn.Linear):\n    def __init__(self, channels, classes, bias=True):\n"
        "        super().__init__(channels, classes, bias)\n"
    )
    assert callable(import_factory("class_nets:Net"))
    assert models.build_named("class_nets:Net", 3, 4).weight.shape == (4, 3)
