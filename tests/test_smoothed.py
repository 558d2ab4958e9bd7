"""Smoothed: three lines for an engineer, and every way to misuse them."""

from __future__ import annotations

import re
import warnings
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

import sparsecert as sc
from sparsecert import modelfile, models
from sparsecert.bounds import corrected_alpha, predicted
from sparsecert.certificates import CERTIFICATES
from sparsecert.schemes import ATTACK, AUGMENTATION, ESTIMATION, MAX_DRAWS, PREDICTION, SELECTION, TRAINING
from tests.helpers import Digits
from tests.reference import Reference


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(128, 10))


@pytest.fixture(scope="module")
def g(trained: Path) -> sc.Smoothed:
    return sc.Smoothed.load(trained)


def test_three_lines_certify_digits(g: sc.Smoothed, digits: Digits) -> None:
    images, labels = digits
    c = g.certify(images, n0=100, n=1_000, alpha=0.05, seed=0)
    assert len(c) == 20
    right = c.labels == labels.numpy()
    assert right.mean() > 0.5
    assert (c.radii[right] >= 0).all()
    assert c.radii.max() >= 1
    assert (c.labels[c.abstained] == -1).all()
    assert (c.radii[c.abstained] == -1).all()
    assert ((c.p_lower > c.p_upper) | c.abstained).all()
    assert c.counts.dtype == np.int64
    assert (c.counts.sum(axis=1) == 1_000).all()
    assert (c.selection.votes.sum(axis=1) == 100).all()


def test_results_follow_from_the_counts_alone(g: sc.Smoothed, digits: Digits) -> None:
    images, _ = digits
    for name, method in CERTIFICATES.items():
        c = g.certify(images, sc.Fixed(50, 300, name), alpha=0.1, seed=4)
        for row, certificate in enumerate(c):
            assert certificate == method.certify(c.selection[row], c.estimation[row], g.scheme, 0.1)
    p = g.predict(images, n=300, alpha=0.1, seed=4)
    level = Fraction(0.1) - 300 * g.scheme.nonuniformity
    assert [None if label < 0 else label for label in p.labels] == [predicted(p.votes[i], level) for i in range(20)]
    assert (p.abstained == (p.labels == -1)).all()


def test_selection_estimation_and_prediction_use_masks_of_their_own(g: sc.Smoothed, digits: Digits) -> None:
    """The counts are those of exactly these draws: the guarantee needs selection and estimation to be independent."""
    images, _ = digits
    c, p = g.certify(images, n0=40, n=300, seed=6), g.predict(images, n=200, seed=6)
    reference = Reference(g.model, g.scheme, g.encoding, g.device, g.precision)
    for counts, purpose, n in (
        (c.selection, SELECTION, 40),
        (c.estimation, ESTIMATION, 300),
        (p.votes, PREDICTION, 200),
    ):
        expected = reference.count(images, range(20), range(purpose, purpose + n), seed=6)
        assert (counts.votes == expected.votes).all()
    purposes = SELECTION, ESTIMATION, PREDICTION, TRAINING, AUGMENTATION, ATTACK
    ranges = [range(purpose, purpose + MAX_DRAWS) for purpose in purposes]
    assert all(a.stop <= b.start for a, b in pairwise(ranges))


def test_alpha_pays_for_masks_that_are_not_quite_uniform(digits: Digits) -> None:
    """With a scheme that owns up to a large distance, intervals widen and predictions abstain."""

    class Rough(sc.Uniform):
        nonuniformity = Fraction(1, 10_000)  # times n = 400: 0.04 of alpha = 0.05

    exact, rough = (sc.Smoothed(_net(), scheme) for scheme in (sc.Uniform(64, 12), Rough(64, 12)))
    before, after = (g.certify(digits[0], n0=50, n=400) for g in (exact, rough))
    assert (before.counts == after.counts).all()
    assert (after.p_lower < before.p_lower).all()
    charged_alpha = corrected_alpha(0.05, Rough(64, 12), 400)
    exactly = Fraction(0.05) - 400 * Rough.nonuniformity
    assert exactly * (1 - Fraction(1, 1 << 28)) < charged_alpha <= exactly
    for row in range(20):
        interval = CERTIFICATES["two-sided"].bound(after.selection[row], after.estimation[row], charged_alpha)
        assert after[row].interval == interval
    answers = [
        predicted(tally, charged_alpha) for tally in (rough.predict(digits[0], n=400).votes[i] for i in range(20))
    ]
    assert list(rough.predict(digits[0], n=400).answers) == answers
    with pytest.raises(sc.InputError, match="too small for 1000 draws"):
        rough.certify(digits[0], n0=5, n=1_000)


def test_a_run_is_repeated_by_its_seed_and_by_the_examples_numbers(g: sc.Smoothed, digits: Digits) -> None:
    images, _ = digits
    whole = g.certify(images, n0=20, n=200, seed=3)
    again = g.certify(images, n0=20, n=200, seed=3)
    other = g.certify(images, n0=20, n=200, seed=4)
    part = g.certify(images[7:12], n0=20, n=200, seed=3, examples=range(7, 12))
    assert (whole.counts == again.counts).all()
    assert (whole.counts != other.counts).any()
    assert (whole.counts[7:12] == part.counts).all()
    assert (whole.selection.votes[7:12] == part.selection.votes).all()


def test_more_draws_extend_fewer(g: sc.Smoothed, digits: Digits) -> None:
    images, _ = digits
    few, many = (g.certify(images, n0=n0, n=n, seed=3) for n0, n in ((20, 100), (40, 200)))
    assert (few.counts <= many.counts).all()
    assert (few.selection.votes <= many.selection.votes).all()


def test_the_callers_tensor_is_never_edited(g: sc.Smoothed, digits: Digits) -> None:
    images = digits[0].clone().requires_grad_()
    before = images.detach().clone()
    g.certify(images, n0=5, n=20)
    g.predict(images, n=20)
    assert torch.equal(images.detach(), before)
    assert images.requires_grad
    assert images.grad is None


def test_float64_inputs_and_models_are_taken_as_they_are(digits: Digits) -> None:
    images, _ = digits
    net = _net()
    single = sc.Smoothed(net, sc.Uniform(64, 12)).certify(images.double(), n0=5, n=50)
    double = sc.Smoothed(net.double(), sc.Uniform(64, 12)).certify(images, n0=5, n=50)
    assert single.counts.shape == double.counts.shape == (20, 10)


def test_any_callable_can_be_certified(digits: Digits) -> None:
    def darker(copies: torch.Tensor) -> torch.Tensor:
        return torch.stack((copies[:, 0].sum(dim=(1, 2)), copies[:, 1].sum(dim=(1, 2))), dim=1)

    c = sc.Smoothed(darker, sc.Uniform(units=64, keep=12)).certify(digits[0], n0=20, n=500)
    assert set(c.labels.tolist()) <= {-1, 0, 1}
    assert not c.abstained.all()


def test_not_finite_scores_are_reported(digits: Digits) -> None:
    def model(copies: torch.Tensor) -> torch.Tensor:
        scores = torch.tensor([[1.0, 0.0]]).repeat(len(copies), 1)
        scores[copies[:, :, 0, 0].sum(dim=1) > 0] = float("nan")
        return scores

    g = sc.Smoothed(model, sc.Uniform(64, 12))
    with pytest.warns(UserWarning, match="not finite; they count against the leader"):
        c = g.certify(digits[0], n0=50, n=400)
    share = 12 / 64
    assert (c.invalid > 0).all()
    assert c.p_lower.max() < 1 - share * 0.7
    assert (c.p_upper > share * 0.7).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n0": 0}, "n0 must be a whole number between 1 and 2\\*\\*40 - 1, got 0"),
        ({"n": 0}, "n must be a whole number between 1 and 2\\*\\*40 - 1, got 0"),
        ({"n": -5}, "n must be a whole number between 1 and 2\\*\\*40 - 1, got -5"),
        ({"n": 10.5}, "n must be"),
        ({"alpha": 0.0}, "alpha must be between 0 and 1, both excluded, got 0"),
        ({"alpha": 1.0}, "alpha must be between 0 and 1"),
        ({"seed": -1}, "seed must be a whole number between 0"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"alpha": "0.1"}, "alpha must be between 0 and 1"),
        ({"n": 1 << 40}, "n must be a whole number between 1 and"),
        ({"procedure": sc.Fixed(), "n": 10}, "n are short for Fixed"),
        ({"procedure": sc.Fixed(bound="both"), "n0": None, "n": None}, "bound must be one of"),
        ({"procedure": 100}, r"procedure must be Fixed\(...\), Sequential\(...\) or Exact"),
        ({"procedure": sc.Exact(), "n0": None, "n": None, "alpha": 0.1}, "alpha is for masks drawn at random"),
        ({"examples": [1, 2]}, "examples must number each of the 20 inputs, got 2"),
    ],
)
def test_certify_refuses(g: sc.Smoothed, digits: Digits, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        g.certify(digits[0], **{"n0": 5, "n": 10, **arguments})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:, :, :7], r"inputs have 56 units each, the scheme has units=64; .*, got \(20, 1, 7, 8\)"),
        (lambda x: x[0, 0, 0], "inputs must be a tensor of shape"),
        (lambda x: x[:0], "batch >= 1"),
        (lambda x: x.numpy(), "got ndarray"),
        (lambda x: (x * 255).to(torch.uint8), r"pass x.float\(\) / 255"),
        (lambda x: x.index_fill(0, torch.tensor([3]), float("nan")), "input 3 holds NaN or infinity"),
        (lambda x: x.index_fill(0, torch.tensor([5]), float("inf")), "input 5 holds NaN or infinity"),
    ],
)
def test_inputs_are_checked(g: sc.Smoothed, digits: Digits, change: Any, message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        g.predict(change(digits[0]), n=10)


def test_images_of_8_bits_that_were_not_divided_get_a_warning(g: sc.Smoothed, digits: Digits) -> None:
    with pytest.warns(UserWarning, match=r"whole numbers up to 255.*pass x / 255"):
        reported = g.predict((digits[0] * 255).round(), n=10)
    assert (reported.counts.sum(axis=1) == 10).all()  # it is a warning: the copies vote all the same
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = g.predict((digits[0] > 0.5).float(), n=10)
    assert (quiet.counts.sum(axis=1) == 10).all()


@pytest.mark.parametrize(
    "encoding",
    [
        sc.NullChannels(),
        sc.NullChannels(0.3, 0.37),
        sc.MeanFill(0.3),
        sc.Grouped(sc.MeanFill(0.3), sc.blocks_of(8, 8, 1)),
    ],
)
def test_so_are_resized_ones_whatever_shows_them(digits: Digits, encoding: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64 * encoding.channels(1), 10))
    g = sc.Smoothed(net, sc.Uniform(64, 12), encoding)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reported = g.predict(digits[0] * 254.9, n=10)
    (warning,) = caught
    assert re.match(r"inputs are numbers up to 254.9, and .* values in \[0, 1\].*pass x / 255", str(warning.message))
    assert (reported.counts.sum(axis=1) == 10).all()


def test_values_of_another_range_are_as_meant(digits: Digits) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bytes_ = sc.Smoothed(net, sc.Uniform(64, 12), sc.MeanFill(77.5)).predict((digits[0] * 255).round(), n=10)
        scaled = sc.Smoothed(net, sc.Uniform(64, 12), sc.MeanFill(0)).predict((digits[0] - 0.3) / 0.1, n=10)
        resized = sc.Smoothed(_net(), sc.Uniform(64, 12)).predict(digits[0] * 1.1 - 0.05, n=10)
    for found in (bytes_, scaled, resized):
        assert (found.counts.sum(axis=1) == 10).all()


@pytest.mark.parametrize("encoding", [sc.NullChannels(), sc.NullChannels(0.3, 0.37), sc.MeanFill(0.3)])
def test_standardised_images_get_a_warning_where_the_encoding_is_for_others(digits: Digits, encoding: Any) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64 * encoding.channels(1), 10))
    with pytest.warns(
        UserWarning, match=r"inputs hold values below 0 or above 1, .*leave normalisation to the enc"
    ) as c:
        sc.Smoothed(net, sc.Uniform(64, 12), encoding).predict(2 * digits[0] - 1, n=10)
    assert len(c) == 1


def test_a_mean_of_bytes_is_refused_for_values_up_to_one(digits: Digits) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    with pytest.raises(sc.InputError, match=r"mean must be one of values in \[0, 1\], .* got \(127.5,\).*mean / 255"):
        sc.Smoothed(net, sc.Uniform(64, 12), sc.MeanFill(127.5)).certify(digits[0], n0=5, n=10)


def test_a_std_is_no_flag() -> None:
    for std in ((0.2, 0.2, 0.2), 0.3081, 1):
        with pytest.raises(sc.InputError, match="MeanFill takes no std: its second argument, centred, must be True or"):
            sc.MeanFill((0.5, 0.5, 0.5), std)  # type: ignore[arg-type]
        with pytest.raises(sc.InputError, match="MeanFill takes no std"):
            sc.MeanFill((0.5, 0.5, 0.5), std=std)  # type: ignore[arg-type]
    assert sc.MeanFill(0.5, np.bool_(True)).centred is True  # type: ignore[arg-type]


@pytest.mark.parametrize("flat", [False, True])
def test_one_logit_is_refused_with_what_to_return(digits: Digits, flat: bool) -> None:
    one = nn.Sequential(nn.Flatten(), nn.Linear(128, 1), *([nn.Flatten(0)] if flat else []))
    with pytest.raises(sc.InputError, match=r"one logit z for two classes is the scores \(0, z\).*functional.pad"):
        sc.Smoothed(one, sc.Uniform(64, 12)).predict(digits[0], n=10)

    def scores(copies: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(one(copies).reshape(-1, 1), (1, 0))

    assert sc.Smoothed(scores, sc.Uniform(64, 12)).predict(digits[0], n=10).counts.shape == (20, 2)


def test_a_model_of_plain_images_hears_which_encoding_it_takes() -> None:
    net = nn.Sequential(nn.Conv2d(3, 2, 1), nn.Flatten(), nn.Linear(32, 2))
    images = torch.rand(2, 3, 4, 4)
    message = r"shape \(6, 4, 4\): .*; it takes 3 channels, and NullChannels\(\) shows it 6: .*MeanFill\(mean\)"
    with pytest.raises(sc.InputError, match=message):
        sc.Smoothed(net, sc.Uniform(16, 4)).certify(images, n0=5, n=10)
    assert len(sc.Smoothed(net, sc.Uniform(16, 4), sc.MeanFill(0.5)).certify(images, n0=5, n=10)) == 2
    with pytest.raises(sc.InputError, match=r"shape \(2, 4, 4\): [^;]*$"):
        sc.Smoothed(net, sc.Uniform(16, 4)).certify(images[:, :1], n0=5, n=10)


def test_a_class_in_place_of_an_object_is_named_so() -> None:
    encoding: Any = sc.NullChannels
    with pytest.raises(sc.InputError, match=r"got \(Sequential, Uniform, the class NullChannels\)"):
        sc.Smoothed(_net(), sc.Uniform(64, 12), encoding)


def test_a_function_cannot_take_saved_weights(tmp_path: Path) -> None:
    sc.Smoothed(_net(), sc.Uniform(64, 12)).save(tmp_path / "model.safetensors")
    function: Any = _net().forward
    with pytest.raises(sc.InputError, match=r"model must be a torch.nn.Module .* got forward"):
        sc.Smoothed.load(tmp_path, model=function)


def test_a_model_with_the_wrong_number_of_classes_is_refused(digits: Digits) -> None:
    g = sc.Smoothed(_net(), sc.Uniform(64, 12), classes=7)
    with pytest.raises(sc.InputError, match="model returns scores for 10 classes, expected classes=7"):
        g.predict(digits[0], n=10)


@pytest.mark.parametrize(
    ("arguments", "message"), [({"precision": "int4"}, "precision must be"), ({"rows": 0}, "rows must be")]
)
def test_construction_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(sc.InputError, match=message):
        sc.Smoothed(_net(), sc.Uniform(64, 12), **arguments)


@pytest.mark.parametrize(
    "encoding", [sc.NullChannels(), sc.NullChannels(0.3, 0.37), sc.MeanFill(0.306)], ids=["null", "normalised", "mean"]
)
def test_a_saved_classifier_votes_as_before(tmp_path: Path, digits: Digits, encoding: Any) -> None:
    model = models.build("digits-cnn", encoding.channels(1), 10)
    g = sc.Smoothed(model, sc.Uniform(64, 9), encoding, classes=10, metadata={"data": "digits"})
    g.save(tmp_path / "model.safetensors")
    for path in (tmp_path, tmp_path / "model.safetensors"):
        loaded = sc.Smoothed.load(path)
        assert loaded.scheme == g.scheme
        assert loaded.classes == 10
        assert loaded.metadata == {"data": "digits"}
        assert (loaded.predict(digits[0], n=60).counts == g.predict(digits[0], n=60).counts).all()
    with safe_open(tmp_path / "model.safetensors", framework="np") as file:
        assert '"scheme": {"kind": "uniform", "units": 64, "keep": 9}' in file.metadata()["sparsecert"]


def test_your_own_module_is_saved_and_handed_back(tmp_path: Path, digits: Digits) -> None:
    g = sc.Smoothed(_net(), sc.Uniform(64, 9))
    g.save(tmp_path / "own.safetensors")
    other = nn.Sequential(nn.Flatten(), nn.Linear(128, 10))
    loaded = sc.Smoothed.load(tmp_path / "own.safetensors", model=other)
    assert (loaded.predict(digits[0], n=60).counts == g.predict(digits[0], n=60).counts).all()
    with pytest.raises(sc.InputError, match=r"load\(path, model=YourModule\(\)\)"):
        sc.Smoothed.load(tmp_path / "own.safetensors")
    with pytest.raises(sc.InputError, match="does not fit the model"):
        sc.Smoothed.load(tmp_path / "own.safetensors", model=nn.Linear(3, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_saved_classifier_keeps_its_precision(tmp_path: Path, digits: Digits, dtype: torch.dtype) -> None:
    g = sc.Smoothed(models.build("digits-cnn", 2, 10).to(dtype), sc.Uniform(64, 9))
    g.save(tmp_path / "m.safetensors")
    images, n = digits[0][:10], 100
    expected = g.predict(images, n=n).counts
    for loaded in (
        sc.Smoothed.load(tmp_path / "m.safetensors"),
        sc.Smoothed.load(tmp_path / "m.safetensors", model=models.build("digits-cnn", 2, 10)),
    ):
        assert {p.dtype for p in loaded.model.parameters()} == {dtype}  # type: ignore[attr-defined]
        assert (loaded.predict(images, n=n).counts == expected).all()


@pytest.mark.parametrize(
    "parts",
    [
        (sc.Uniform(64, 9), _net(), None),
        (_net(), sc.Uniform, None),
        (_net(), sc.Uniform(64, 9), sc.NullChannels),
        ("net", sc.Uniform(64, 9), None),
    ],
    ids=["swapped", "scheme class", "encoding class", "no model"],
)
def test_parts_that_are_not_what_they_should_be_are_refused(parts: tuple[Any, Any, Any]) -> None:
    with pytest.raises(sc.InputError, match=r"Smoothed takes \(model, scheme, encoding\)"):
        sc.Smoothed(*parts)


def test_half_size_files_hold_the_rounded_model(trained: Path, tmp_path: Path, digits: Digits) -> None:
    images, _ = digits
    g = sc.Smoothed.load(trained)
    g.save(tmp_path / "whole.safetensors")
    g.save(tmp_path / "half.safetensors", half=True)
    sizes = [(tmp_path / f"{name}.safetensors").stat().st_size for name in ("half", "whole")]
    assert sizes[0] < 0.6 * sizes[1]
    loaded = sc.Smoothed.load(tmp_path / "half.safetensors")
    assert isinstance(g.model, torch.nn.Module)
    assert isinstance(loaded.model, torch.nn.Module)
    for one, other in zip(g.model.parameters(), loaded.model.parameters(), strict=True):
        assert other.dtype == torch.float32
        assert torch.equal(one.half().float(), other)
    loaded.save(tmp_path / "again.safetensors", half=True)
    again = sc.Smoothed.load(tmp_path / "again.safetensors")
    assert (again.count(images, 0, 200).votes == loaded.count(images, 0, 200).votes).all()


def test_weights_too_large_for_half_precision_are_refused(trained: Path, tmp_path: Path) -> None:
    g = sc.Smoothed.load(trained)
    assert isinstance(g.model, torch.nn.Module)
    next(g.model.parameters()).data[0] = 1e5
    with pytest.raises(sc.InputError, match="too large for half precision; save it without half"):
        g.save(tmp_path / "half.safetensors", half=True)
    assert not (tmp_path / "half.safetensors").exists()


def test_shipped_models_are_loaded_by_name_and_paths_come_first(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sc.Smoothed.load("mnist-k45").scheme == sc.Uniform(784, 45)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist-k45").symlink_to(trained)
    assert sc.Smoothed.load("mnist-k45").scheme == sc.Uniform(64, 16)
    names = ", ".join(modelfile.shipped_models())
    with pytest.raises(sc.InputError, match=f"or name one that ships with the package: {names}"):
        sc.Smoothed.load("mnist-k46")


def test_what_cannot_be_saved_is_said(tmp_path: Path) -> None:
    class Extra(nn.Linear):
        def get_extra_state(self) -> dict[str, int]:
            return {"a": 1}

    with pytest.raises(sc.InputError, match="_extra_state of the model is not a plain tensor"):
        sc.Smoothed(Extra(3, 3), sc.Uniform(64, 9)).save(tmp_path / "m.safetensors")
    with pytest.raises(sc.InputError, match="metadata must be plain JSON values"):
        sc.Smoothed(_net(), sc.Uniform(64, 9), metadata={"n": np.int64(3)}).save(tmp_path / "m.safetensors")
    assert not any(tmp_path.iterdir())


def test_inputs_too_large_for_the_models_precision_are_refused(g: sc.Smoothed) -> None:
    with pytest.raises(sc.InputError, match=r"inputs must be finite in the model's torch.float32; input 0"):
        g.predict(torch.full((1, 1, 8, 8), 1e300, dtype=torch.float64), n=10)


def test_results_show_themselves_briefly(g: sc.Smoothed, digits: Digits) -> None:
    assert len(repr(g.certify(digits[0], n0=5, n=10))) < 400
    assert len(repr(g.predict(digits[0], n=10))) < 300
    assert g.predict(digits[0], n=10, alpha=np.float32(0.05)).n == 10


def test_tied_weights_are_saved(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    model[1].weight = model[0].weight
    sc.Smoothed(model, sc.Uniform(8, 2)).save(tmp_path / "tied.safetensors")
    fresh = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    sc.Smoothed.load(tmp_path / "tied.safetensors", model=fresh)
    assert torch.equal(fresh[1].weight, model[0].weight)


def test_damaged_and_foreign_files_are_refused_by_name(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    with pytest.raises(sc.InputError, match="does not exist; train a model first"):
        sc.Smoothed.load(path)
    sc.Smoothed(models.build("digits-cnn", 2, 10), sc.Uniform(64, 9)).save(path)
    whole = path.read_bytes()
    for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(sc.InputError, match=r"model.safetensors is not a whole model file"):
            sc.Smoothed.load(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(sc.InputError, match="was not written by sparsecert"):
        sc.Smoothed.load(path)
    modelfile.write(path, {}, {})
    header = path.read_bytes().replace(b'\\"format\\": 2', b'\\"format\\": 9')
    path.write_bytes(header)
    with pytest.raises(sc.InputError, match="has format 9, this version reads 1 and 2"):
        modelfile.read_header(path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    g = sc.Smoothed(_net(), sc.Uniform(64, 9))
    path = tmp_path / "model.safetensors"
    g.save(path)
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(sc.InputError, match="cannot be written: No space left on device; nothing was overwritten"):
        g.save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_a_module_with_an_architecture_of_its_own_is_saved(tmp_path: Path) -> None:
    model = _net()
    model.architecture = "mine"  # type: ignore[assignment]
    sc.Smoothed(model, sc.Uniform(64, 9)).save(tmp_path / "own.safetensors")
    assert modelfile.read_header(tmp_path / "own.safetensors")["architecture"] is None
    sc.Smoothed.load(tmp_path / "own.safetensors", model=_net())


@pytest.mark.parametrize(
    "header",
    [
        {"settings": {}, "step": 3},
        {"scheme": {"kind": "uniform", "units": 64, "keeps": 9}},
        {"scheme": {"kind": "uniform", "units": 64, "keep": 65}},
        {"architecture": {"name": "digits-cnn", "depth": 3}},
        {"architecture": "digits-cnn"},
        {"encoding": None},
        {"facts": 3},
    ],
    ids=str,
)
def test_a_header_that_cannot_be_understood_is_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    g = sc.Smoothed(models.build("digits-cnn", 2, 10), sc.Uniform(64, 9))
    g.save(tmp_path / "m.safetensors")
    tensors, good = modelfile.read(tmp_path / "m.safetensors")
    modelfile.write(tmp_path / "m.safetensors", tensors, header if "step" in header else {**good, **header})
    with pytest.raises(sc.InputError, match="is not the file of a classifier, or its header is damaged"):
        sc.Smoothed.load(tmp_path / "m.safetensors")


def test_a_model_that_does_not_take_the_channels_is_refused(digits: Digits) -> None:
    g = sc.Smoothed(models.build("digits-cnn", 2, 10), sc.Uniform(64, 9))
    with pytest.raises(sc.InputError, match=r"the model does not take ablated copies of shape \(6, 8, 8\)"):
        g.predict(digits[0].expand(-1, 3, -1, -1), n=10)


def test_numpy_integers_are_whole_numbers(digits: Digits) -> None:
    g = sc.Smoothed(_net(), sc.Uniform(np.int64(64), np.int32(9)), rows=np.int64(7))
    assert g.scheme == sc.Uniform(64, 9)
    assert g.predict(digits[0], n=np.int64(10), seed=np.int64(1)).counts.sum() == 200


def test_only_modules_can_be_saved(tmp_path: Path) -> None:
    with pytest.raises(sc.InputError, match=r"only a torch.nn.Module can be saved, the model is a function"):
        sc.Smoothed(lambda x: x, sc.Uniform(64, 9)).save(tmp_path / "x.safetensors")


def test_the_package_shows_its_names() -> None:
    assert set(sc.__all__) <= set(dir(sc))
    assert all(getattr(sc, name) is not None for name in sc.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = sc.Nothing
