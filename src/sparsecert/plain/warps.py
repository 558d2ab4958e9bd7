"""Light random distortions of images, to train generative models on."""

from __future__ import annotations

import torch
from torch.nn.functional import grid_sample, interpolate

CHANCE = 0.1  # of each kind of distortion
ZOOM, SHEAR, SKEW, ELASTIC = 0.1, 0.15, 0.1, 0.1  # the most of each; 1 is half of the image's side
KNOTS = 4  # a side, of the coarse grid of elastic displacements
UNIFORMS = 4 + 2 + 2 + 2 + 2 * KNOTS * KNOTS  # the random numbers that an image takes


def warp(images: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """Images [b, 1, h, w], each zoomed, sheared, skewed and elastically distorted with a chance of 0.1 for each kind.

    `uniforms`: float[b, UNIFORMS] from [0, 1), which decide everything. An image that none of them hits is returned as
    it is, bit for bit. Zoom is by a factor of its own for each axis; skew is a change of perspective; elastic
    displacements are drawn for 4 x 4 knots and interpolated. What comes from outside the image is black.
    """
    hit = (uniforms[:, :4] < CHANCE).float()
    zoom, shear, skew, elastic = torch.split(2 * uniforms[:, 4:] - 1, [2, 2, 2, 2 * KNOTS * KNOTS], dim=1)
    height, width = images.shape[2:]
    y = torch.linspace(-1, 1, height, device=images.device)[None, :, None]
    x = torch.linspace(-1, 1, width, device=images.device)[None, None, :]

    def each(amounts: torch.Tensor, kind: int, most: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The amounts along x and y, zero where this kind does not hit."""
        across, down = (most * hit[:, kind, None] * amounts)[..., None].unbind(dim=1)
        return across[..., None], down[..., None]

    (zoom_x, zoom_y), (shear_x, shear_y) = each(zoom, 0, ZOOM), each(shear, 1, SHEAR)
    skew_x, skew_y = each(skew, 2, SKEW)
    depth = 1 + skew_x * x + skew_y * y
    from_x = ((1 + zoom_x) * x + shear_x * y) / depth
    from_y = ((1 + zoom_y) * y + shear_y * x) / depth
    knots = (ELASTIC * hit[:, 3, None] * elastic).view(-1, 2, KNOTS, KNOTS)
    moved = interpolate(knots, size=(height, width), mode="bilinear", align_corners=True)
    places = torch.stack((from_x + moved[:, 0], from_y + moved[:, 1]), dim=3)
    warped = grid_sample(images, places, mode="bilinear", padding_mode="zeros", align_corners=True)
    return torch.where(hit.any(dim=1)[:, None, None, None], warped, images)
