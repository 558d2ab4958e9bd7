"""Networks of whole images behind a restorer: nothing hidden reaches them, and their certificates hold."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import sparsecert as sc
from sparsecert import models
from sparsecert.cli import cli
from sparsecert.models.restoring import Restorer, Restoring
from tests.helpers import Digits


def _whole(channels: int, height: int, width: int, classes: int = 3) -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, classes))


def _model(channels: int = 1, height: int = 4, width: int = 5) -> Restoring:
    torch.manual_seed(0)
    model = sc.restoring(Restorer(channels, width=4, depth=2), _whole(channels, height, width))
    assert isinstance(model, Restoring)
    return model.eval()


@pytest.mark.parametrize("encoding", [sc.NullChannels(), sc.NullChannels([0.4, 0.5, 0.6], [0.2, 0.3, 0.2])], ids=repr)
def test_hidden_pixels_leave_no_trace_in_the_scores(encoding: sc.NullChannels) -> None:
    """Bit for bit, whatever is hidden, NaN and infinity included."""
    model, scheme = _model(3), sc.Uniform(20, 6)
    masks = scheme.masks(0, 8, 1)[:, 0]
    inputs = torch.rand(8, 3, 4, 5)
    with torch.no_grad():
        expected = model(encoding(inputs, masks))
        for value in (-7.0, -0.0, 0.3, float("nan"), float("inf")):
            changed = torch.where(masks.view(8, 1, 4, 5), inputs, value)
            assert torch.equal(model(encoding(changed, masks)), expected)
        seen = torch.where(masks.view(8, 1, 4, 5), inputs + 0.5, inputs)
        assert (model(encoding(seen, masks)) != expected).any(dim=1).all()


def test_retained_pixels_are_shown_as_they_are_and_hidden_ones_restored() -> None:
    model, masks, encoding = _model(), sc.Uniform(20, 6).masks(0, 8, 1)[:, 0], sc.NullChannels()
    inputs = torch.rand(8, 1, 4, 5)
    inputs[0] = 0  # black is not NULL
    copies = encoding(inputs, masks)
    with torch.no_grad():
        filled, restored = model.fill(copies), model.restorer(copies)
    retained = masks.view(8, 1, 4, 5)
    assert torch.equal(filled[retained], inputs[retained])
    assert torch.equal(filled[~retained], restored[~retained])


def test_whole_images_score_as_the_network_scores_them() -> None:
    model, encoding = _model(3), sc.NullChannels()
    inputs = torch.rand(5, 3, 4, 5)
    shown = encoding(inputs, torch.ones(1, 20, dtype=torch.bool))
    with torch.no_grad():
        assert torch.equal(model(shown), model.net(inputs))


def test_no_perturbation_within_the_radius_changes_the_answer() -> None:
    """By enumeration: every change of up to `radius` pixels to 0, 1/2 or 1 of images certified by 6 fixed masks."""
    torch.manual_seed(0)
    scheme = sc.Lattice(2, 6, parts=6)
    g = sc.Smoothed(sc.restoring(Restorer(1, width=4, depth=1), _whole(1, 2, 6)), scheme, precision="fp32")
    inputs = torch.rand(12, 1, 2, 6).round()
    c = g.certify(inputs)
    assert (c.radii >= 1).sum() >= 3
    for image, label, radius in zip(inputs, c.labels, c.radii, strict=True):
        for places in combinations(range(12), min(int(radius), 2)):
            values = torch.tensor([*product((0.0, 0.5, 1.0), repeat=len(places))])
            changed = image.flatten().repeat(len(values), 1)
            changed[:, list(places)] = values
            assert (g.predict(changed.view(-1, 1, 2, 6)).labels == label).all()


def test_a_restorer_learns_what_is_hidden_without_labels() -> None:
    """Stripes: each pixel is that of its column, which a restorer can know and the mean cannot."""
    torch.manual_seed(0)
    images = torch.rand(256, 1, 1, 8).round().expand(-1, -1, 8, -1)
    scheme, encoding = sc.Uniform(64, 40), sc.NullChannels()
    net = nn.Sequential(nn.Dropout(0.5), _whole(1, 8, 8)).train()
    before = [weight.clone() for weight in net.parameters()]
    losses: list[float] = []
    restorer = sc.train_restorer(
        images, scheme, encoding, net, restorer=Restorer(1, width=8, depth=1), steps=60, batch=32,
        on_progress=lambda done, steps, loss: losses.append(loss),
    )  # fmt: skip
    assert len(losses) == 60
    assert net.training
    assert all(torch.equal(one, other) for one, other in zip(before, net.parameters(), strict=True))
    assert all(weight.grad is None for weight in net.parameters())
    masks = scheme.masks(1, 64, 1)[:, 0]
    hidden = ~masks.view(64, 1, 8, 8)
    with torch.no_grad():
        filled = Restoring(restorer, nn.Identity()).fill(encoding(images[:64], masks))
    error = (filled - images[:64])[hidden].square().mean()
    assert error < 0.5 * (images[:64][hidden] - images.mean()).square().mean()


def test_it_is_saved_with_both_networks_and_loaded(tmp_path: Path, digits: Digits) -> None:
    images, _ = digits
    g = sc.Smoothed(_model(1, 8, 8), sc.Uniform(64, 20), classes=3)
    g.save(tmp_path / "frozen.safetensors")
    torch.manual_seed(2)
    fresh = sc.restoring(Restorer(1, width=4, depth=2), _whole(1, 8, 8))
    again = sc.Smoothed.load(tmp_path / "frozen.safetensors", model=fresh)
    first, second = (one.certify(images[:3], n0=20, n=50) for one in (g, again))
    assert np.array_equal(first.p_lower, second.p_lower)


@pytest.mark.parametrize("name", ["digits-cnn", "whole_nets:small"])
def test_the_command_line_trains_a_restorer_and_leaves_the_network_as_it_is(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Digits
) -> None:
    (tmp_path / "whole_nets.py").write_text(
        "from torch import nn\ndef small(channels, classes):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64 * channels, classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    whole, out = models.build_named(name, 1, 10, seed=5).eval(), tmp_path / "frozen"
    torch.save(whole.state_dict(), tmp_path / "whole.pt")
    torch.save(models.build_named(name, 1, 7).state_dict(), tmp_path / "seven.pt")
    common = ["train", "--data", "digits", "--restore", "--model", name, "--batch", "32", "--out", str(out)]
    given = [*common, "--init", str(tmp_path / "whole.pt"), "--epochs", "1"]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 0, done.output
    written = (out / "model.safetensors").read_bytes()
    own = name if ":" in name else None
    assert (f"--model {name}" in done.stdout) == (own is not None)  # in the next command
    g = sc.Smoothed.load(out, model=own)
    images, shown = digits[0][:5], torch.ones(1, 64, dtype=torch.bool)
    assert isinstance(g.model, Restoring)
    with torch.no_grad():
        assert torch.equal(g.model.eval()(g.encoding(images, shown)), whole(images))
    fresh = models.build_named(name, 2, 10, restored=True)
    assert isinstance(fresh, Restoring)
    assert not torch.equal(g.model.restorer.last.weight, fresh.restorer.last.weight)  # type: ignore[union-attr]
    assert g.metadata["data"] == "digits"
    assert g.metadata["bound"] == "pairwise"

    again = CliRunner().invoke(cli, given)
    assert again.exit_code == 0
    assert (out / "model.safetensors").read_bytes() == written
    for changed, said in (
        ([*given, "--seed", "1"], "belongs to another run"),
        (common, "give its weights, --init"),
        ([*given, "--half"], "--half is for training the classifier"),
        ([*given, "--encoding", "mean-fill"], "restoring needs NullChannels"),
        ([*common, "--init", str(tmp_path / "seven.pt")], "does not fit the model"),  # it would never learn a new layer
    ):
        refused = CliRunner().invoke(cli, changed)
        assert said in f"{refused.output} {refused.exception}"


@pytest.mark.parametrize("height", [1, 5, 7, 8])
def test_images_of_any_size_are_restored(height: int) -> None:
    assert Restorer(3).eval()(torch.rand(2, 6, height, 9)).shape == (2, 3, height, 9)


def test_what_cannot_be_restored_is_refused() -> None:
    images, scheme = torch.rand(4, 1, 4, 5), sc.Uniform(20, 5)
    with pytest.raises(sc.InputError, match="net must be a torch"):
        sc.restoring(Restorer(1), "resnet")  # type: ignore[arg-type]
    with pytest.raises(sc.InputError, match="restoring needs NullChannels"):
        sc.train_restorer(images, scheme, sc.MeanFill(0.5))
    with pytest.raises(sc.InputError, match="images must be floats"):
        sc.train_restorer((images * 255).byte(), scheme)
    with pytest.raises(sc.InputError, match="encoded by NullChannels"):
        sc.Smoothed(_model(), scheme, sc.MeanFill(0.5)).certify(images)
