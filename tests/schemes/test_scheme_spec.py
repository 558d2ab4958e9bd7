"""Fixed sets of masks by name: each name is one choice, each choice a scheme, and what does not fit is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sparsecert.errors import InputError
from sparsecert.schemes import AllSubsets, Bands, Blocks, Lattice, Partition, RandomValues, Scheme, SchemeSpec

CHOICES: list[tuple[SchemeSpec, str, Scheme]] = [
    (SchemeSpec("lattice", parts=8), "lattice-8x1", Lattice(6, 8, 8)),
    (SchemeSpec("lattice", parts=8, rounds=2), "lattice-8x2", Lattice(6, 8, 8, 2)),
    (SchemeSpec("partition", parts=5), "partition-5x1", Partition(48, 5)),
    (SchemeSpec("partition", parts=5, rounds=3, seed=2), "partition-5x3-seed2", Partition(48, 5, 3, 2)),
    (SchemeSpec("blocks", size=3), "blocks-3", Blocks(6, 8, 3)),
    (SchemeSpec("bands", size=3), "bands-3", Bands(6, 8, 3)),
    (SchemeSpec("all-subsets", keep=2), "all-subsets-keep2", AllSubsets(48, 2)),
    (SchemeSpec("random-values", kappa="0.3"), "random-values-kappa0.3-values256", RandomValues(48, "0.3")),
    (SchemeSpec("bands", size=3, rows=True), "bands-3-rows", Bands(6, 8, 3, rows=True)),
]


@pytest.mark.parametrize(("choice", "name", "scheme"), CHOICES, ids=[name for _, name, _ in CHOICES])
def test_a_choice_has_a_name_and_makes_a_scheme(choice: SchemeSpec, name: str, scheme: Scheme) -> None:
    assert str(choice) == name
    assert choice.of(6, 8) == scheme
    assert SchemeSpec.parse(name).of(6, 8) == scheme
    assert str(SchemeSpec.parse(name)) == name


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        ("spiral", {"parts": 3}, "scheme must be one of all-subsets, bands, .*got 'spiral'"),
        ("uniform", {"parts": 3}, "parts is no setting of scheme uniform, which has keep; leave it out"),
        ("lattice", {}, "scheme lattice needs parts \\(--parts\\)"),
        ("blocks", {}, "scheme blocks needs size"),
        ("blocks", {"size": 3, "rounds": 1}, "rounds is no setting of scheme blocks, which has size"),
        ("lattice", {"parts": 3, "seed": 0}, "seed is no setting of scheme lattice, which has parts and rounds"),
        ("blocks", {"size": 3, "rows": True}, "rows is no setting of scheme blocks"),
        ("lattice", {"parts": 0}, "parts must be a whole number between 1 and .*, got 0"),
        ("partition", {"parts": 3, "seed": -1}, "seed must be a whole number between 0"),
    ],
)
def test_what_does_not_fit_is_refused(kind: str, numbers: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SchemeSpec(kind, **numbers)


@pytest.mark.parametrize("name", ["", "lattice", "lattice-28", "blocks-3x1", "bands--rows", "k45"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="masks must be named as in lattice-28x1"):
        SchemeSpec.parse(name)


def test_a_choice_is_of_the_kinds_that_an_attack_asks_for() -> None:
    choice = SchemeSpec("blocks", size=3)
    assert choice.one_of(("blocks", "bands"), "patches") is choice
    with pytest.raises(InputError, match="against perturbed pixels masks must be lattice or partition, got blocks-3"):
        choice.one_of(("lattice", "partition"), "perturbed pixels")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SchemeSpec("uniform", keep=12), "--keep 12"),
        (SchemeSpec.parse("lattice-28x1"), "--scheme lattice --parts 28"),
        (SchemeSpec.parse("lattice-28x3"), "--scheme lattice --parts 28 --partitions 3"),
        (SchemeSpec("bands", size=4, rows=False), "--scheme bands --size 4"),
        (SchemeSpec("bands", size=4, rows=True), "--scheme bands --size 4 --horizontal"),
    ],
)
def test_the_options_of_train_that_choose_it(spec: SchemeSpec, words: str) -> None:
    assert " ".join(spec.words()) == words
