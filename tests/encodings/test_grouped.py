"""Groups of entries as units: what is shown of them, and certificates that count groups, by enumeration."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert.attacks import Pointwise, SmoothedDefender, SurrogateDefender
from sparsecert.encodings import (
    PROTECTED,
    Encoding,
    Grouped,
    MeanFill,
    NullChannels,
    ReplacedValues,
    blocks_of,
    from_config,
)
from sparsecert.errors import InputError
from sparsecert.procedures import Exact
from sparsecert.schemes import Lattice, Partition, Scheme, Uniform
from sparsecert.smoothed import Smoothed

PLACES = np.array([[0, 0, 1], [2, PROTECTED, 1]])  # of a 2 x 3 image
ENTRIES = np.array([[[0, 0, 1], [2, PROTECTED, 1]], [[3, 3, 3], [3, 2, PROTECTED]]])  # of two channels of it
INSIDE = [NullChannels(), NullChannels(mean=[0.3], std=[0.2]), MeanFill(0.25), MeanFill(0.25, centred=True)]


@pytest.mark.parametrize("inside", INSIDE, ids=repr)
@pytest.mark.parametrize("groups", [PLACES, ENTRIES], ids=["places", "entries"])
def test_groups_are_shown_or_not_as_a_whole_and_protected_entries_always(inside: Encoding, groups: Any) -> None:
    """Entry by entry, against the inner encoding, given what each channel shows; the rest leaves no trace."""
    encoding = Grouped(inside, groups)
    inputs = torch.rand(1, 2, 2, 3)
    for bits in product((False, True), repeat=encoding.count):
        masks = torch.tensor([bits])
        shown = torch.tensor([[group == PROTECTED or bits[group] for group in groups.reshape(-1).tolist()]])
        shown = shown.view(1, -1, 2, 3).expand(1, 2, 2, 3)
        found = encoding(inputs, masks)
        each = [inside.encode(inputs[:, c : c + 1], shown[:, c : c + 1]) for c in range(2)]
        assert torch.equal(
            found, torch.cat([one[:, part : part + 1] for part in range(each[0].shape[1]) for one in each], 1)
        )
        for value in (-7.0, -0.0, float("nan")):
            changed = encoding(torch.where(shown, inputs, value), masks)
            assert torch.equal(changed.view(torch.int32), found.view(torch.int32))


@pytest.mark.parametrize(
    ("height", "width", "rows", "columns"), [(5, 7, 2, 2), (4, 6, 1, 1), (6, 4, 3, 2), (5, 5, 4, 1)]
)
def test_patches_of_pixels_lie_within_as_many_units(height: int, width: int, rows: int, columns: int) -> None:
    groups = blocks_of(height, width, rows, columns)
    sides = Grouped(NullChannels(), groups).units((3, height, width)).sides
    assert sides == (-(-height // rows), -(-width // columns))
    for side in range(1, min(height, width) + 1):
        for top, left in product(range(height - side + 1), range(width - side + 1)):
            y, x = np.divmod(np.unique(groups[top : top + side, left : left + side]), sides[1])
            assert max(np.ptp(y), np.ptp(x)) < side


def test_what_is_no_image_has_no_sides() -> None:
    shape, blocks = (1, 4, 6), blocks_of(4, 6, 2)
    assert NullChannels().units(shape).sides == (4, 6)
    assert NullChannels().units((24,)).sides is None
    assert ReplacedValues().units(shape).sides == (4, 6)
    assert ReplacedValues().units((3, 4, 6)).sides is None
    assert Grouped(NullChannels(), blocks).units(shape).sides == (2, 3)
    for other in (
        blocks.T.reshape(4, 6),
        5 - blocks,
        blocks[::-1],
        blocks[None],
        np.where(blocks == 5, PROTECTED, blocks),
    ):
        assert Grouped(NullChannels(), other.copy()).units(shape).sides is None


@pytest.mark.parametrize("groups", [PLACES, ENTRIES], ids=["places", "entries"])
def test_perturbed_are_the_groups_with_an_entry_that_differs(groups: Any) -> None:
    encoding = Grouped(NullChannels(), groups)
    random = np.random.default_rng(0)
    differs = random.random((40, 2, 2, 3)) < 0.15
    entries = differs.reshape(40, -1) if groups.ndim == 3 else differs.any(axis=1).reshape(40, -1)
    flat = groups.reshape(-1)
    wanted = [[bool(row[flat == group].any()) for group in range(encoding.count)] for row in entries]
    assert encoding.perturbed(torch.from_numpy(differs)).tolist() == wanted


def test_blocks_are_numbered_row_by_row() -> None:
    assert blocks_of(3, 5, 2).tolist() == [[0, 0, 1, 1, 2], [0, 0, 1, 1, 2], [3, 3, 4, 4, 5]]
    assert blocks_of(2, 4, 1, 3).tolist() == [[0, 0, 0, 1], [2, 2, 2, 3]]
    with pytest.raises(InputError, match="at least 1"):
        blocks_of(3, 5, 0)


@pytest.mark.parametrize("encoding", [Grouped(MeanFill(0.5), PLACES), Grouped(NullChannels(), ENTRIES)], ids=repr)
def test_the_config_survives(encoding: Grouped) -> None:
    inputs, masks = torch.rand(3, 2, 2, 3), torch.rand(3, encoding.count) < 0.5
    again = from_config(encoding.config())
    assert torch.equal(again(inputs, masks), encoding(inputs, masks))
    assert again.config() == encoding.config()


def test_columns_of_a_table() -> None:
    """Rows of five features, the last of them protected: the model sees (s, 1 - s) of each."""
    encoding = Grouped(NullChannels(), [0, 0, 1, 2, PROTECTED])
    found = encoding(torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.5]]), torch.tensor([[True, False, False]]))
    torch.testing.assert_close(found, torch.tensor([[[0.1, 0.2, 0, 0, 0.5], [0.9, 0.8, 0, 0, 0.5]]]))
    assert encoding.units((5,)).count == 3


def _votes(smoothed: Smoothed, inputs: torch.Tensor, masks: torch.Tensor) -> list[int]:
    """How many of all these masks vote for each of two classes."""
    copies = smoothed.encoding(inputs.expand(len(masks), *inputs.shape[1:]), masks)
    return torch.bincount(smoothed.model(copies).argmax(dim=1), minlength=2).tolist()


def _all_perturbed(inputs: torch.Tensor, groups: Any, chosen: tuple[int, ...]) -> list[torch.Tensor]:
    """The input with each entry of these groups at 0 or at 1, in every way."""
    places = np.flatnonzero(np.isin(groups.reshape(-1), chosen))
    found = []
    for values in product((0.0, 1.0), repeat=len(places)):
        changed = inputs.clone()
        changed.view(-1)[places] = torch.tensor(values)
        found.append(changed)
    return found


@pytest.mark.parametrize("seed", range(4))
def test_delta_speaks_of_groups(seed: int) -> None:
    """Over all masks of 2 of 5 groups: no change of rho groups moves a share of the votes by more than delta(rho)."""
    generator = torch.Generator().manual_seed(seed)
    groups = np.array([0, 0, 1, 2, 2, 3, 4, PROTECTED])
    weights = torch.randn(2, 16, generator=generator)
    smoothed = Smoothed(lambda copies: copies.flatten(1) @ weights.T, Uniform(5, 2), Grouped(NullChannels(), groups))
    masks = torch.zeros(10, 5, dtype=torch.bool)
    for row, kept in enumerate(combinations(range(5), 2)):
        masks[row, list(kept)] = True
    inputs = (torch.rand(1, 8, generator=generator) < 0.5).float()
    before = _votes(smoothed, inputs, masks)
    most = 0
    for rho in (1, 2):
        for chosen in combinations(range(5), rho):
            for changed in _all_perturbed(inputs, groups, chosen):
                after = _votes(smoothed, changed, masks)
                moved = abs(after[0] - before[0])
                assert Fraction(moved, 10) <= smoothed.scheme.delta(rho)
                most = max(most, moved)
    assert most > 0


@pytest.mark.parametrize("rule", ["plurality", "run-off", "pairwise"])
@pytest.mark.parametrize("scheme", [Partition(6, 6), Partition(6, 3, 2), Lattice(2, 3, 3)], ids=repr)
def test_exact_certificates_count_groups(scheme: Scheme, rule: str) -> None:
    """Perturbing `radius` blocks of 1 x 2 pixels never changes the winner; perturbing more sometimes does."""
    groups = blocks_of(2, 6, 1, 2)
    inputs, tight = (torch.rand(6, 1, 2, 6, generator=torch.Generator().manual_seed(1)) < 0.5).float(), 0
    weights = torch.randn(3, 24, generator=torch.Generator().manual_seed(2))
    smoothed = Smoothed(lambda copies: copies.flatten(1) @ weights.T, scheme, Grouped(NullChannels(), groups))
    certified = smoothed.certify(inputs, Exact(rule))
    for row, certificate in enumerate(certified):
        for rho in range(1, 4):
            changed = [
                each
                for chosen in combinations(range(6), rho)
                for each in _all_perturbed(inputs[row : row + 1], groups, chosen)
            ]
            labels = smoothed.certify(torch.cat(changed), Exact(rule)).labels
            if rho <= certificate.radius:
                assert (labels == certificate.label).all()
            else:
                tight += int((labels != certificate.label).any())
    assert tight > 0


def test_a_grouped_classifier_is_certified_saved_and_attacked(tmp_path: Any) -> None:
    groups = blocks_of(8, 8, 2)
    linear = torch.nn.Linear(128, 2, bias=False)
    linear.weight.data = torch.cat((torch.full((1, 64), 1.0), torch.full((1, 64), -1.0)), 1) * torch.tensor(
        [[1.0], [-1.0]]
    )
    model = torch.nn.Sequential(torch.nn.Flatten(), linear)
    smoothed = Smoothed(model, Uniform(16, 4), Grouped(NullChannels(), groups), classes=2)
    images = torch.full((1, 1, 8, 8), 0.9)
    certified = smoothed.certify(images, n0=100, n=2_000)
    assert certified.labels.tolist() == [0]
    assert certified.radii[0] > 0
    smoothed.save(tmp_path / "model.safetensors")
    again = Smoothed.load(tmp_path / "model.safetensors", model=model)
    assert again.certify(images, n0=100, n=2_000).counts.tolist() == certified.counts.tolist()
    found = Pointwise(restarts=1, rounds=1)(SurrogateDefender(smoothed, n=100), images, torch.tensor([0]))
    assert found.succeeded.all()
    perturbed = smoothed.encoding.perturbed(found.adversarial != images).sum()
    assert certified.radii[0] < perturbed <= found.distances[0]


def test_attackers_do_not_get_protected_entries() -> None:
    smoothed = Smoothed(lambda copies: copies[:, :, 0], Uniform(3, 1), Grouped(MeanFill(0), [0, 1, 2, PROTECTED]))
    with pytest.raises(InputError, match="1 entries of this classifier's inputs are protected"):
        SmoothedDefender(smoothed, n=10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grouped(NullChannels(), [0.5, 1]), "array of whole numbers"),
        (lambda: Grouped(NullChannels(), []), "array of whole numbers"),
        (lambda: Grouped(NullChannels(), [[0], [1, 2]]), "array of whole numbers"),
        (lambda: Grouped(NullChannels(), [0, 2]), "without a gap"),
        (lambda: Grouped(NullChannels(), [-2, 0]), "without a gap"),
        (lambda: Grouped(NullChannels(), [PROTECTED]), "without a gap"),
        (lambda: Grouped(Grouped(NullChannels(), [0]), [0]), "not grouped itself"),
        (lambda: Grouped(NullChannels, [0]), "not grouped itself"),  # type: ignore[arg-type]
        (lambda: Grouped(ReplacedValues(256), [0]), "an encoding of NULL"),
        (lambda: Grouped(NullChannels(), [0, 1]).units((3,)), r"groups of shape \(2,\) do not fit"),
        (lambda: from_config({"kind": "grouped", "encoding": {"kind": "braille"}, "groups": [0]}), "encoding kind"),
        (lambda: from_config({"kind": "grouped", "groups": [0]}), "cannot be understood"),
    ],
)
def test_refusals(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
