"""Training that starts from given weights, and the recipe for it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import sparsecert as sc
from sparsecert import modelfile, models
from sparsecert.datasets import Dataset
from sparsecert.plain import files
from sparsecert.training import TrainingRun, train
from sparsecert.training.recipes import RECIPES, Recipe, recipe_for
from tests.commands import sparsecert

SHORT = replace(RECIPES["digits"], name="short", epochs=1, rates=((1, 0.05),))


def _run(few: Dataset, init: Path | None, recipe: Recipe = SHORT) -> TrainingRun:
    encoding, scheme = sc.NullChannels(), sc.Uniform(64, 10)
    return TrainingRun(few, recipe, scheme, encoding, 0, torch.device("cpu"), init=init)


@pytest.fixture
def plain() -> nn.Module:
    """A network of whole digits."""
    return models.build("digits-cnn", 1, 10, seed=7).eval()


def _write(path: Path, plain: nn.Module) -> Path:
    if path.name.startswith("ours"):
        files.save(path, plain, {"network": "digits-cnn", "channels": 1, "classes": 10}, {})
    elif path.suffix == ".safetensors":
        save_file(plain.state_dict(), path)
    else:
        state: Any = plain.state_dict()
        torch.save({"state_dict": state} if path.suffix == ".pth" else state, path)
    return path


@pytest.mark.parametrize("name", ["net.safetensors", "net.pt", "net.pth", "ours.safetensors"])
def test_training_starts_from_a_plain_network(few: Dataset, tmp_path: Path, plain: nn.Module, name: str) -> None:
    run = _run(few, _write(tmp_path / name, plain))
    x = torch.rand(5, 1, 8, 8)
    whole = sc.NullChannels()(x, torch.ones(1, 64, dtype=torch.bool))
    assert torch.allclose(run.model.eval()(whole), plain(x), rtol=1e-5, atol=1e-6)
    assert run.settings()["init"] == modelfile.fingerprint(tmp_path / name)


def test_training_starts_from_a_model_file(few: Dataset, trained: Path) -> None:
    tensors, _ = modelfile.read(trained)
    state = _run(few, trained).model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in tensors.items())


def test_the_folder_of_a_run_may_have_any_name(few: Dataset, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "run.pt").symlink_to(trained)
    assert _run(few, tmp_path / "run.pt").settings()["init"] == modelfile.fingerprint(trained)


def test_weights_that_do_not_exist_are_named(few: Dataset, tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match=r"missing\.pt, whose weights .* does not exist; check the path$"):
        _run(few, tmp_path / "missing.pt")


def test_a_last_layer_of_other_classes_starts_afresh(few: Dataset, tmp_path: Path) -> None:
    many = models.build("digits-cnn", 1, 1000, seed=7)
    with pytest.warns(UserWarning, match=r"the last layer of .*net.pt has 1000 classes, not 10; it starts afresh"):
        run = _run(few, _write(tmp_path / "net.pt", many))
    state, fresh = run.model.state_dict(), _run(few, None).model.state_dict()
    assert torch.equal(state["7.weight"], fresh["7.weight"])
    assert torch.equal(state["5.weight"], many.state_dict()["5.weight"])


def test_what_does_not_fit_is_named(few: Dataset, tmp_path: Path, plain: nn.Module) -> None:
    state = plain.state_dict()
    state["5.bias"], state["extra"] = torch.zeros(3), torch.zeros(1)
    del state["2.bias"]
    torch.save(state, tmp_path / "net.pt")
    message = (
        r"does not fit the model: 5.bias is \(3,\), not \(128,\); 2.bias is missing; extra is not in the model; ch"
    )
    with pytest.raises(sc.InputError, match=message):
        _run(few, tmp_path / "net.pt")
    save_file({f"blocks.{i}": torch.zeros(1) for i in range(9)}, tmp_path / "other.safetensors")
    with pytest.raises(sc.InputError, match=r"0.weight is missing; .* and 14 more"):
        _run(few, tmp_path / "other.safetensors")


def test_files_that_hold_no_state_dict_are_refused(few: Dataset, tmp_path: Path, plain: nn.Module) -> None:
    torch.save(plain, tmp_path / "net.pt")  # the module itself: loading it would run code
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"epoch": 3}, tmp_path / "other.pt")
    (tmp_path / "cut.safetensors").write_bytes(b"123")
    for name, message in (
        ("net.pt", "must hold a state dict, tensors by name; save net.state_dict"),
        ("list.pth", "must hold a state dict"),
        ("other.pt", "must hold a state dict"),
        ("cut.safetensors", "is not a whole model file"),
        ("none.pt", "does not exist"),
    ):
        with pytest.raises(sc.InputError, match=message):
            _run(few, tmp_path / name)


def test_independent_parts_start_from_random_weights(few: Dataset, tmp_path: Path, plain: nn.Module) -> None:
    recipe = replace(SHORT, independent=True, masks="all")
    with pytest.raises(sc.InputError, match="independent training starts from random weights"):
        _run(few, _write(tmp_path / "net.pt", plain), recipe)


def test_a_folder_belongs_to_the_weights_it_was_begun_with(few: Dataset, tmp_path: Path, plain: nn.Module) -> None:
    init = _write(tmp_path / "net.pt", plain)
    other = _write(tmp_path / "other.pt", models.build("digits-cnn", 1, 10, seed=8))
    out = train(few, SHORT, tmp_path / "run", init=init)
    assert train(few, SHORT, tmp_path / "run", init=init) == out
    for wrong in (other, None):
        with pytest.raises(sc.InputError, match=r"belongs to another run \(init differs\)"):
            train(few, SHORT, tmp_path / "run", init=wrong)
    random = train(few, SHORT, tmp_path / "random")
    with pytest.raises(sc.InputError, match=r"belongs to another run \(init differs\)"):
        train(few, SHORT, random.parent, init=init)


def test_the_recipe_for_fine_tuning_takes_the_rest_from_that_of_the_data() -> None:
    for data in ("digits", "mnist", "cifar10", "some/folder"):
        own, recipe = recipe_for(data), recipe_for(data, "fine-tune")
        assert (recipe.model, recipe.keep, recipe.augment) == (own.model, own.keep, own.augment)
        assert (recipe.name, recipe.masks, recipe.schedule) == ("fine-tune", "sample", "one-cycle")
    with pytest.raises(sc.InputError, match="keep must be at least 1"):
        replace(recipe_for("digits", "fine-tune"), keep=0)


def test_the_command_fine_tunes(tmp_path: Path, plain: nn.Module) -> None:
    init, out = _write(tmp_path / "net.pt", plain), tmp_path / "run"
    command = "train", "--data", "digits", "--recipe", "fine-tune", "--init", init, "--device", "cpu", "--out", out
    standard = "--encoding", "null-channels", "--mean", "0.3", "--std", "0.4"
    done = sparsecert(*command, *standard, "--epochs", 1)
    assert done.returncode == 0, done.stderr
    header = modelfile.read_header(out)
    assert header["encoding"] == sc.NullChannels([0.3], [0.4]).config()
    assert header["architecture"]["name"] == "digits-cnn"
    assert header["facts"]["training"]["settings"]["init"] == modelfile.fingerprint(init)
    assert len((out / "training.jsonl").read_text().splitlines()) == 1
    assert json.loads(sparsecert("info", out).stdout)["scheme"]["keep"] == 10
    for wrong, message in ((("--mean", "x,y"), "mean must be numbers separated by"), ((), "mean and std go together")):
        refused = sparsecert(*command, *standard[:4], *wrong)
        assert (refused.returncode, message in refused.stderr) == (2, True), refused.stderr
    refused = sparsecert("train", "--data", "digits", "--plain", "cnn", "--init", init, "--out", tmp_path / "x")
    assert "--init is for training on ablated inputs" in refused.stderr
