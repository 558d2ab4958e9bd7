"""Pretrained networks, adapted to an encoding with more channels than they were trained on."""

from __future__ import annotations

import copy

import torch
from torch import nn

from sparsecert.encodings import Encoding
from sparsecert.errors import InputError, describe
from sparsecert.models import ARCHITECTURE, architecture_of

WIDENED = nn.Conv2d, nn.Linear


def adapt(net: nn.Module, encoding: Encoding) -> nn.Module:
    """A copy of a network of whole inputs that takes the encoding's channels; whole inputs score as before.

        net = adapt(torchvision.models.resnet50(weights="DEFAULT"), NullChannels(mean, std))

    The network must have been trained on values as the encoding shows them: `NullChannels()` and `MeanFill(mean)` show
    them as they are, `NullChannels(mean, std)` standardised, `MeanFill(mean, centred=True)` less the mean. So `mean`
    and `std` are those of the network's own training.

    The first layer, a Conv2d (of a patch embedding, too) or a Linear behind a Flatten, is widened: its weights W stay
    on the c channels v of values, and those for the further channels u are zero. Where the encoding adds no channel,
    the copy is the network as it is.

    Exactness. An encoding shows the values v in its first c channels. A convolution pads every channel by itself,
    whatever its padding_mode, and is linear in its channels: conv(v, u) = W v + 0 u + bias = W v + bias, the sum it
    computed before, also at the borders. A Linear behind a Flatten sees v, then u, and is the case of a kernel as large
    as the image. A grouped convolution becomes one without groups, whose weights are zero between groups: again the
    same sum. The terms added are products of zeros and finite numbers, so a floating-point result differs at most by
    the order in which its terms are added.

    NULL, zeros in all channels of `NullChannels`, looks at first like the value 0; training teaches the new weights.

    The first layer is the first with parameters, in the order of definition; where another one comes first in the
    forward pass, that one refuses the new channels. Refuses layers of other types: a subclass of Conv2d may rescale its
    weights, and then zeros would change them.
    """
    if not isinstance(net, nn.Module):
        raise InputError(f"adapt takes a torch.nn.Module, got {describe(net)}")
    adapted = copy.deepcopy(net)
    layer = _first_layer(adapted)
    if layer is None or type(layer) not in WIDENED or "weight" not in layer._parameters:
        found = "there is no layer with parameters" if layer is None else f"it is a {describe(layer)}"
        raise InputError(
            f"the first layer must be a plain Conv2d or Linear to be widened for {encoding}, {found}; build the "
            f"network for the encoding's channels instead, and copy the weights that fit"
        )
    assert isinstance(layer, WIDENED)
    before = layer.in_channels if isinstance(layer, nn.Conv2d) else layer.in_features
    after = encoding.channels(before)
    if after < before or (isinstance(layer, nn.Linear) and after % before):
        raise InputError(f"{encoding} makes {after} channels of {before}; a {describe(layer)} cannot be widened for it")
    if after > before:
        _widen(layer, after)
        architecture = architecture_of(adapted)
        if architecture is not None:
            setattr(adapted, ARCHITECTURE, {**architecture, "channels": encoding.channels(architecture["channels"])})
    return adapted


def _first_layer(net: nn.Module) -> nn.Module | None:
    """The first module with parameters that is no container: class tokens of a transformer are not a layer."""
    for module in net.modules():
        is_layer = isinstance(module, WIDENED) or not any(module.children())
        if is_layer and any(True for _ in module.parameters()):
            return module
    return None


def _widen(layer: nn.Conv2d | nn.Linear, inputs: int) -> None:
    """Makes the layer take so many inputs, with zero weights for those after its own."""
    old = layer.weight.detach()
    outputs, columns = old.shape[:2]
    weight = torch.zeros(outputs, inputs, *old.shape[2:], dtype=old.dtype, device=old.device)
    if isinstance(layer, nn.Linear):
        weight[:, :columns] = old
        layer.in_features = inputs
    else:
        rows = outputs // layer.groups
        for group in range(layer.groups):
            own = slice(group * rows, (group + 1) * rows)
            weight[own, group * columns : (group + 1) * columns] = old[own]
        layer.in_channels, layer.groups = inputs, 1
    layer.weight = nn.Parameter(weight, requires_grad=layer.weight.requires_grad)
