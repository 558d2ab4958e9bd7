"""Batch norm over the batches of all processes, or over parts of one."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import batch_norm


def synchronise_batch_norm(model: nn.Module) -> nn.Module:
    """The same model, with its parameters and buffers, whose batch norms span all processes."""
    if any(weight.is_cuda for weight in model.parameters()):
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call,no-any-return]
    for name, part in model.named_children():
        if isinstance(part, nn.BatchNorm2d):
            setattr(model, name, SyncBatchNorm.convert(part))
        else:
            synchronise_batch_norm(part)
    return model


class SyncBatchNorm(nn.BatchNorm2d):
    """SyncBatchNorm for any device; torch's own needs a GPU."""

    @classmethod
    def convert(cls, norm: nn.BatchNorm2d) -> SyncBatchNorm:
        """Shares the parameters and buffers of `norm`."""
        synced = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        synced._parameters, synced._buffers = norm._parameters, norm._buffers
        synced.training = norm.training
        return synced

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(x)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.momentum is not None
        y, mean, variance, count = _SyncNormalise.apply(x, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_var.lerp_(variance * count / (count - 1), self.momentum)
            if self.num_batches_tracked is not None:
                self.num_batches_tracked.add_(1)
        return y  # type: ignore[no-any-return]


def split_batch_norm(model: nn.Module, rows: int) -> nn.Module:
    """The same model, with its parameters and buffers, whose batch norms span `rows` rows each."""
    for name, part in model.named_children():
        if type(part) is nn.BatchNorm2d:
            setattr(model, name, SplitBatchNorm.of(part, rows))
        else:
            split_batch_norm(part, rows)
    return model


class SplitBatchNorm(nn.BatchNorm2d):
    """Normalises every `rows` rows of a training batch by themselves, as `nn.DataParallel` does on several GPUs.

    There each GPU normalises its part of the batch, and the first one's running statistics are kept.
    """

    rows: int

    @classmethod
    def of(cls, norm: nn.BatchNorm2d, rows: int) -> SplitBatchNorm:
        """Shares the parameters and buffers of `norm`."""
        split = cls(norm.num_features, norm.eps, norm.momentum, norm.affine, norm.track_running_stats)
        split._parameters, split._buffers = norm._parameters, norm._buffers
        split.training, split.rows = norm.training, rows
        return split

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return super().forward(x)
        first, *others = torch.split(x, self.rows)
        normal = [batch_norm(part, None, None, self.weight, self.bias, training=True, eps=self.eps) for part in others]
        return torch.cat([super().forward(first), *normal])


class _SyncNormalise(torch.autograd.Function):
    """(x, weight, bias, eps) -> normalised x, and the mean, variance and count over all processes.

    Means and sums of squared deviations are combined as in Chan, Golub & LeVeque (1979), without the cancellation of
    subtracting large sums. Backward, with h = (x - mean) / deviation and g = dy * weight:
    dx = (g - mean(g) - h mean(g h)) / deviation, the means over all processes.
    """

    @staticmethod
    def forward(
        context: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        wide = _at_least_fp32(x)
        mean = wide.mean(dim=(0, 2, 3))
        count = torch.full_like(mean, x.numel() / x.shape[1])
        squares = (wide - _per_channel(mean)).square().sum(dim=(0, 2, 3))
        mean, squares, count = _combine(mean, squares, count)
        variance = squares / count
        scale = torch.rsqrt(variance + eps)
        normal = (wide - _per_channel(mean)) * _per_channel(scale)
        context.save_for_backward(normal, scale, weight, count)
        context.mark_non_differentiable(mean, variance, count)
        return (normal * _per_channel(weight) + _per_channel(bias)).to(x.dtype), mean, variance, count

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        normal, scale, weight, count = context.saved_tensors
        dy = _at_least_fp32(gradients[0])
        of_bias, of_weight = dy.sum(dim=(0, 2, 3)), (dy * normal).sum(dim=(0, 2, 3))
        sums = torch.stack((of_bias, of_weight))
        dist.all_reduce(sums)
        of_all = sums / count
        dx = (dy - _per_channel(of_all[0]) - normal * _per_channel(of_all[1])) * _per_channel(weight * scale)
        return dx.to(gradients[0].dtype), of_weight, of_bias, None


def _combine(
    mean: torch.Tensor, squares: torch.Tensor, count: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean, sum of squared deviations and count over all processes, from those of each."""
    mine = torch.stack((mean, squares, count))
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, mine)
    means, sums, counts = torch.stack(parts, dim=1)
    number = counts.sum(0)
    whole = (means * counts).sum(0) / number
    return whole, (sums + counts * (means - whole).square()).sum(0), number


def _at_least_fp32(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _per_channel(values: torch.Tensor) -> torch.Tensor:
    return values[None, :, None, None]
