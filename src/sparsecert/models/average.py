"""Several networks whose answers are averaged into one vote."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from sparsecert.errors import InputError, describe


class Averaged(nn.Module):
    """The mean of the members' probabilities for a copy and, where `mirrored`, for its mirror image.

    Scores depend on the copy alone, as those of every member do, so certificates hold as for any other model. Where
    each member's score of a mask's copy was learned from the units of that mask alone (`training.independent`), so was
    their mean. That is not so with `mirrored`: a mirrored copy retains other units, and meets what others taught.
    """

    def __init__(self, members: Sequence[nn.Module], mirrored: bool = False) -> None:
        super().__init__()
        self.members, self.mirrored = nn.ModuleList(members), mirrored

    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        """Probabilities of ablated copies: [rows, classes]."""
        if self.mirrored and copies.ndim != 4:
            raise InputError(f"only images can be mirrored, got copies of shape {tuple(copies.shape)}")
        views = [copies, copies.flip(3)] if self.mirrored else [copies]
        scores = [member(view) for member in self.members for view in views]
        exact = torch.promote_types(scores[0].dtype, torch.float32)  # in bf16 many classes would be equally probable
        return torch.stack([each.softmax(dim=1, dtype=exact) for each in scores]).mean(dim=0)


def averaged(networks: Sequence[nn.Module], mirrored: bool = False) -> nn.Module:
    """One network that answers with the mean of these networks' probabilities.

        net = averaged([first, second, third], mirrored=True)

    Networks of other seeds make other mistakes, so their mean votes better than each; a forward pass costs as much as
    theirs together. `mirrored` scores every copy of an image, and the same copy flipped left to right, at twice the
    cost: for networks trained on flipped images. Model files keep it where they keep each of the networks.
    """
    from sparsecert.models import ARCHITECTURE, architecture_of

    for network in networks:
        if not isinstance(network, nn.Module):
            raise InputError(f"averaged takes torch.nn.Modules, got {describe(network)}")
    if not networks:
        raise InputError("averaged takes at least one network, got none")
    net = Averaged(networks, mirrored)
    members = [found for network in networks if (found := architecture_of(network)) is not None]
    sizes = {(member["channels"], member["classes"]) for member in members}
    if len(sizes) > 1:
        raise InputError(f"networks of other channels or classes cannot be averaged: {sorted(sizes)}")
    if len(members) == len(networks):
        ((channels, classes),) = sizes
        parts = {"members": members, "mirrored": mirrored}
        setattr(net, ARCHITECTURE, {"name": "averaged", "channels": channels, "classes": classes, **parts})
    return net
