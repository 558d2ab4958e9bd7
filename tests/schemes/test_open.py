"""Schemes for inputs of any number of units: bound to a number, each is the scheme of that number."""

from __future__ import annotations

import pytest
import torch

from sparsecert.errors import InputError
from sparsecert.schemes import Partition, SchemeSpec, Share, Uniform


@pytest.mark.parametrize(
    ("share", "units", "keep"),
    [
        ("0.1", 40, 4),
        ("0.1", 45, 5),
        ("0.1", 44, 4),
        ("0.1", 1, 1),
        ("0.001", 9, 1),
        ("1", 7, 7),
        ("1/3", 5, 2),
        (0.5, 3, 2),
    ],
)
def test_a_share_is_rounded_half_up_and_at_least_one(share: str, units: int, keep: int) -> None:
    bound, uniform = Share(share).for_units(units), Uniform(units, keep)
    assert isinstance(bound, Share)
    assert bound.retained == bound.uniform.keep == keep
    assert bound.deltas == uniform.deltas
    assert [bound.delta(rho) for rho in range(units + 1)] == [uniform.delta(rho) for rho in range(units + 1)]
    assert bound.nonuniformity == uniform.nonuniformity
    assert torch.equal(bound.masks(3, range(2), range(20)), uniform.masks(3, range(2), range(20)))


def test_open_schemes_have_names() -> None:
    for spec, name in (
        (SchemeSpec("share", share="0.1"), "share-0.1"),
        (SchemeSpec("partition", parts=5, contiguous=True), "partition-5x1-contiguous"),
    ):
        assert str(spec) == name
        assert SchemeSpec.parse(name) == spec
    assert SchemeSpec("partition", parts=5, contiguous=True).words() == [
        "--scheme",
        "partition",
        "--parts",
        "5",
        "--contiguous",
    ]


def test_the_largest_numbers_are_taken() -> None:
    most = (1 << 31) - 1
    assert Share("0.1", most).units == most
    assert Partition(None, most).count == most
    for make in (lambda: Share("0.1", most + 1), lambda: Share("0.1", 0), lambda: Partition(None, most + 1),
                 lambda: Partition(None, 0), lambda: Partition(3, 4)):  # fmt: skip
        with pytest.raises(InputError, match="must be a whole number between 1 and"):
            make()


def test_an_open_scheme_must_be_bound_before_it_is_asked() -> None:
    for ask in (lambda: Share("0.1").delta(1), lambda: Partition(None, 3).table, lambda: Share("0.1").nonuniformity):
        with pytest.raises(InputError, match="any number of units; bind it first"):
            ask()
    for wrong in ("0", "1.1", "-1", "x", "1/0", ""):
        with pytest.raises(InputError, match="share must be a number above 0, at most 1"):
            Share(wrong)
    with pytest.raises(InputError, match="contiguous parts have no seed"):
        Partition(None, 3, 2, contiguous=True)


def test_an_open_scheme_counts_the_most_masks_of_an_input() -> None:
    for open_scheme, most in ((Partition(None, 5), 5), (Partition(None, 2, 3), 6), (Partition(9, 4, 2), 8)):
        bound = open_scheme.for_units(9)
        assert isinstance(bound, Partition)
        assert open_scheme.count == most == bound.count == len(bound.table)
    assert Partition(None, 5).for_units(3) == Partition(3, 3)
    assert (Share("0.1").is_open, Share("0.1").for_units(3).is_open) == (True, False)
    assert Share("0.1").some_bound() == Share("0.1", 1)
    assert Partition(9, 4).some_bound() == Partition(9, 4)


def test_what_describes_an_open_scheme() -> None:
    assert Share("0.1").describe() == "share, 0.1 of the units retained"
    assert Partition(None, 9).describe() == "partition, 9 parts"
    assert "contiguous" not in Partition(9, 3).config()  # files from before there was this setting
    assert Partition(None, 3, contiguous=True).describe() == "partition, 3 parts, contiguous"
