"""Networks averaged into one vote: its scores, its files, its certificates, its command."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import nn

import sparsecert as sc
from sparsecert import models
from sparsecert.cli import cli


def _linear(seed: int, channels: int = 2, units: int = 6, classes: int = 3) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * units, classes))


def _trained(out: Path, seed: int, *more: str) -> Path:
    done = _invoke("train", "--data", "digits", "--epochs", "1", "--seed", seed, "--out", out, *more)
    assert done.exit_code == 0, done.output
    return out


def _invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_scores_are_the_mean_of_the_members_probabilities(dtype: torch.dtype) -> None:
    nets = [_linear(seed).to(dtype) for seed in range(3)]
    copies = torch.rand(5, 2, 2, 3).to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    single = [net(copies).to(wide).softmax(dim=1) for net in nets]
    mirror = [net(copies.flip(3)).to(wide).softmax(dim=1) for net in nets]
    plain, mirrored = (sc.averaged(nets, mirrored)(copies) for mirrored in (False, True))
    assert plain.dtype == wide
    torch.testing.assert_close(plain, sum(single) / 3)
    torch.testing.assert_close(mirrored, (sum(single) + sum(mirror)) / 6)
    assert not torch.allclose(plain, mirrored)


def test_a_member_without_a_finite_score_leaves_no_opinion() -> None:
    broken = _linear(1)
    broken[1].bias.data[0] = torch.nan  # type: ignore[index,union-attr]
    assert sc.averaged([_linear(0), broken])(torch.rand(2, 2, 2, 3)).isnan().all()


def test_certificates_hold_for_every_perturbation() -> None:
    """All images of 2 x 3 binary pixels: none of those within the radius gets another class."""
    nets = [_linear(seed) for seed in range(3)]
    for net in nets:
        net[1].weight.data *= 20  # type: ignore[index,operator]
    g = sc.Smoothed(sc.averaged(nets, mirrored=True), sc.Grid(2, 3, 2), classes=3, precision="fp32")
    images = torch.tensor(list(product([0.0, 1.0], repeat=6))).view(-1, 1, 2, 3)
    found = g.certify(images, sc.Exact("pairwise"))
    of = {tuple(image.flatten().tolist()): label for image, label in zip(images, found.labels, strict=True)}
    checked = 0
    for image, label, radius in zip(images, found.labels, found.radii, strict=True):
        for changed in (some for size in range(1, int(radius) + 1) for some in combinations(range(6), size)):
            other = image.flatten().clone()
            other[list(changed)] = 1 - other[list(changed)]
            assert of[tuple(other.tolist())] == label
            checked += 1
    assert checked > 0
    assert len(set(found.labels.tolist())) > 1


def test_refusals() -> None:
    with pytest.raises(sc.InputError, match="at least one network"):
        sc.averaged([])
    with pytest.raises(sc.InputError, match=r"takes torch\.nn\.Modules, got"):
        sc.averaged([_linear(0), "net"])  # type: ignore[list-item]
    with pytest.raises(sc.InputError, match="other channels or classes"):
        sc.averaged([models.build("digits-cnn", 2, 10), models.build("digits-cnn", 2, 9)])
    with pytest.raises(sc.InputError, match="only images can be mirrored"):
        sc.averaged([_linear(0)], mirrored=True)(torch.rand(4, 12))


@pytest.mark.parametrize("half", [False, True])
def test_a_model_file_keeps_every_member(tmp_path: Path, half: bool) -> None:
    nets = [models.build("digits-cnn", 2, 10, seed=seed) for seed in range(3)]
    g = sc.Smoothed(sc.averaged([sc.averaged(nets[:2]), nets[2]], mirrored=True), sc.Uniform(64, 9), classes=10)
    g.save(tmp_path / "m.safetensors", half=half)
    again = sc.Smoothed.load(tmp_path / "m.safetensors")
    copies = torch.rand(4, 2, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(again.model(copies), g.model(copies), atol=1e-3 if half else 0, rtol=0)
    by_name = sc.Smoothed.load(tmp_path / "m.safetensors", model="averaged")
    with torch.no_grad():
        assert torch.equal(by_name.model(copies), again.model(copies))
    with pytest.warns(UserWarning, match="they go into digits-cnn"), pytest.raises(sc.InputError, match="does not fit"):
        sc.Smoothed.load(tmp_path / "m.safetensors", model="digits-cnn")


def test_networks_of_ones_own_are_averaged_and_handed_to_load(tmp_path: Path) -> None:
    g = sc.Smoothed(sc.averaged([_linear(0), _linear(1)]), sc.Uniform(6, 2), classes=3)
    g.save(tmp_path / "m.safetensors")
    with pytest.raises(sc.InputError, match="a module of yours"):
        sc.Smoothed.load(tmp_path / "m.safetensors")
    again = sc.Smoothed.load(tmp_path / "m.safetensors", model=sc.averaged([_linear(2), _linear(3)]))
    copies = torch.rand(4, 2, 2, 3)
    assert torch.equal(again.model(copies), g.model(copies))


@pytest.mark.filterwarnings("ignore::sparsecert.errors.OneClassWarning")  # after one epoch
def test_the_command_averages_what_train_wrote(tmp_path: Path) -> None:
    runs = [_trained(tmp_path / str(seed), seed) for seed in (0, 1)]
    done = _invoke("average", *runs, "--mirrored", "--out", tmp_path / "both")
    assert done.exit_code == 0, done.output
    assert f"next: sparsecert certify {tmp_path / 'both'} --data digits" in done.output
    both, *single = (sc.Smoothed.load(folder) for folder in (tmp_path / "both", *runs))
    copies = torch.rand(4, 2, 8, 8)
    with torch.no_grad():
        scores = [one.model(view).softmax(dim=1) for one in single for view in (copies, copies.flip(3))]
        torch.testing.assert_close(both.model(copies), sum(scores) / 4)
    settings = both.metadata["training"]["settings"]
    assert "seed" not in settings  # in which the two differ
    assert settings["data"] == single[0].metadata["training"]["settings"]["data"]
    assert both.metadata["bound"] == "pairwise"
    found = _invoke("certify", tmp_path / "both", "--data", "digits", "--limit", 20, "--n0", 50, "--n", 200)
    assert found.exit_code == 0, found.output
    assert np.isfinite(both.certify(torch.rand(2, 1, 8, 8), n0=50, n=200).radii).all()


def test_the_command_refuses_what_does_not_belong_together(tmp_path: Path) -> None:
    first, other = _trained(tmp_path / "a", 0), _trained(tmp_path / "b", 0, "--keep", "7")
    same = sc.Smoothed.load(first)
    sc.Smoothed(_linear(0, units=64, classes=10), same.scheme, same.encoding).save(tmp_path / "own.safetensors")
    refused = {
        (first, "--out", tmp_path / "c"): "there is nothing to average",
        (first, other, "--out", tmp_path / "c"): "has another scheme than",
        (first, first, "--out", tmp_path / "a"): "exists already",
        (first, tmp_path / "own.safetensors", "--out", tmp_path / "c"): "a module of yours",
    }
    for arguments, message in refused.items():
        done = _invoke("average", *arguments)
        assert isinstance(done.exception, sc.InputError)
        assert message in str(done.exception)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("mirrored", [False, True])
def test_parts_stay_independent_unless_mirrored(tmp_path: Path, mirrored: bool) -> None:
    """A mirrored copy shows a mask's network the pixels of another mask, from which others have learned."""
    scheme = sc.Lattice(8, 8, 4)
    for seed in (0, 1):
        net = models.build("per-mask", 2, 10, seed=seed, scheme=scheme)
        g = sc.Smoothed(net, scheme, classes=10, metadata={"independent": True, "shape": [1, 8, 8]})
        g.save(tmp_path / f"{seed}.safetensors")
    files = [tmp_path / f"{seed}.safetensors" for seed in (0, 1)]
    done = _invoke("average", *files, "--out", tmp_path / "both", *(["--mirrored"] if mirrored else []))
    assert done.exit_code == 0, done.output
    both = sc.Smoothed.load(tmp_path / "both")
    assert both.metadata == {"shape": [1, 8, 8], **({} if mirrored else {"independent": True})}
    assert (both.certify(torch.rand(3, 1, 8, 8)).radii >= 0).all()
