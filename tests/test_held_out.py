"""What is held out of the training images, and which masks are tried on them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.held_out import apart_from_seed, changed
from sparsecert import datasets
from sparsecert.datasets import ArrayImages, Dataset
from sparsecert.errors import InputError
from sparsecert.schemes import FixedMasks, SchemeSpec, Uniform
from sparsecert.training import held_out
from sparsecert.training.candidates import brief, candidates
from sparsecert.training.recipes import RECIPES, recipe_for
from tests.pages import understand


def _numbered(count: int, name: str) -> Dataset:
    """Images that hold their own number, sorted by class."""
    pixels = np.arange(count, dtype=np.uint8).reshape(count, 1, 1, 1).repeat(2, axis=3)
    labels = np.arange(count) * 4 // count
    return Dataset(name, "train", ArrayImages(pixels), labels, ("a", "b", "c", "d"), (0.5,), (0.5,))


@pytest.mark.parametrize("name", ["mine.npz", "mnist"])
def test_each_image_is_trained_on_or_held_out(name: str) -> None:
    fit, held = (part.images.batch(range(len(part)))[:, 0, 0, 0] for part in held_out.split(_numbered(50, name)))
    assert sorted([*fit, *held]) == [*range(50)]
    assert [*held] == ([*range(40, 50)] if name == "mnist" else [*range(0, 50, 5)])


def test_images_sorted_by_class_are_held_out_of_each() -> None:
    fit, held = held_out.split(_numbered(40, "mine.npz"))
    assert set(held.labels) == set(fit.labels) == {0, 1, 2, 3}
    assert [*held.labels] == [number * 4 // 40 for number in range(0, 40, 5)]


def test_no_more_than_5000_are_held_out_of_a_known_set() -> None:
    data = _numbered(4, "mnist")
    many = replace(data, images=ArrayImages(np.zeros((30_000, 1, 1, 2), np.uint8)), labels=np.zeros(30_000, np.int64))
    assert [len(part) for part in held_out.split(many)] == [25_000, 5_000]
    with pytest.raises(InputError, match="at least 5 training images"):
        held_out.split(data)


@pytest.mark.parametrize(("shape", "radius"), [((1, 8, 8), 1), ((1, 8, 8), 4), ((3, 7, 9), 3), ((1, 28, 28), 8)])
def test_all_candidates_can_certify_the_radius_up_to_the_largest_k(shape: tuple[int, ...], radius: int) -> None:
    units = shape[1] * shape[2]
    certifying = [k for k in range(1, units + 1) if Uniform(units, k).delta(radius) < Fraction(1, 2)]
    found = candidates(shape, radius)
    schemes = [spec.of(*shape[1:]) for spec in found]
    assert all(scheme.delta(radius) < Fraction(1, 2) for scheme in schemes)
    keeps = [spec.settings["keep"] for spec in found if spec.kind == "uniform"]
    assert keeps == sorted({max(1, round(share * certifying[-1])) for share in (0.2, 0.4, 0.6, 0.8)})
    assert any(isinstance(scheme, FixedMasks) for scheme in schemes)
    assert len(set(found)) == len(found)


def test_a_radius_of_half_the_pixels_is_refused() -> None:
    assert candidates((1, 8, 8), 31) == [SchemeSpec("uniform", keep=1)]
    with pytest.raises(InputError, match="radius must be below half of the 64 pixels"):
        candidates((1, 8, 8), 32)


def test_a_brief_run_has_about_so_many_steps() -> None:
    data, recipe = datasets.load("digits", "train"), recipe_for("digits")
    for steps in (5, 21, 100, 1_000, 10**6):
        images, short = brief(data, recipe, steps)
        taken = short.epochs * -(-len(images) // recipe.batch)
        whole = recipe.epochs * -(-len(data) // recipe.batch)
        assert abs(taken - min(steps, whole)) <= 0.5 * -(-len(images) // recipe.batch)
    assert len(set(brief(data, recipe, 5)[0].labels)) == 10


@pytest.mark.parametrize("name", ["uniform-keep25", "lattice-28x1", "partition-28x3", "bands-4-rows", "blocks-10"])
def test_the_words_of_masks_choose_the_same_masks(name: str) -> None:
    spec = SchemeSpec.parse(name)
    words = spec.words()
    understand(["train", "--data", "mnist", *words, "--out", "run"])
    kind = words[words.index("--scheme") + 1] if "--scheme" in words else "uniform"
    assert kind == spec.kind
    assert all(str(value) in words for value in spec.settings.values() if value not in (1, True))


def test_a_change_names_settings_rates_and_a_seed() -> None:
    settings, seed = apart_from_seed("epochs=100,seed=3,rates=0.1/0.01")
    recipe = changed(RECIPES["paper-cifar10"], settings)
    assert (recipe.epochs, recipe.rates, seed) == (100, ((1, 0.1), (51, 0.01)), 3)
    assert apart_from_seed("masks=sample") == ("masks=sample", 0)
    assert changed(RECIPES["modern-cifar10"], "rate=0.4").rates == ((1, 0.4),)
    with pytest.raises(ValueError, match="shorter"):
        changed(RECIPES["paper-cifar10"], "rates=0.1")
