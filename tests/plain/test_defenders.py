"""Plain networks under attack: asked about any number of images, they answer as the network itself does."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sparsecert.plain import defenders
from sparsecert.plain.defenders import PlainNetwork
from sparsecert.votes.batches import few_batch_sizes


@pytest.mark.parametrize("count", [0, 1, 5, 63, 64, 65, 200])
@pytest.mark.parametrize("gpu", [False, True], ids=["as on a CPU", "in the pieces of a GPU"])
def test_answers_are_the_networks_own_in_whatever_pieces(
    monkeypatch: pytest.MonkeyPatch, count: int, gpu: bool
) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
    images = torch.rand(count, 1, 3, 4)
    with torch.no_grad():
        expected = network(images)
    monkeypatch.setattr(defenders, "ROWS", 64)
    monkeypatch.setattr("sparsecert.votes.batches.FEW", 2)
    device = torch.device("cuda" if gpu else "cpu")
    monkeypatch.setattr(defenders, "few_batch_sizes", lambda left, most, _: few_batch_sizes(left, most, device))
    defender = PlainNetwork(network)
    torch.testing.assert_close(defender.scores(images), expected)
    answers = defender.answers(images)
    assert torch.equal(answers.labels, expected.argmax(dim=1))
    assert answers.evaluations.tolist() == [1] * count
