"""The fused engine computes what the model computes: on the CPU by its twin, on a GPU where there is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from sparsecert import datasets, devices, models
from sparsecert.devices import Support, native_precision
from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.models.resnet import Residual
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.votes import engine
from sparsecert.votes.engine import FusedScorer, fuse_on_cuda
from sparsecert.votes.engine import encode as shown
from sparsecert.votes.engine.fused import fuse
from sparsecert.votes.engine.layers import Features
from sparsecert.votes.engine.layout import layout_of
from tests.reference import Reference

CPU, FLOAT64, HALF = torch.device("cpu"), torch.float64, torch.bfloat16
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


def _stack(channels: int, kernel: int, stride: int, padding: int, size: int) -> nn.Sequential:
    """A convolution, another, and two linear layers, for square images."""
    first = (size + 2 * padding - kernel) // stride + 1
    second = (first - 3) + 1
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(channels, 5, kernel, stride, padding), nn.ReLU(),
            nn.Conv2d(5, 7, 3), nn.Flatten(), nn.Linear(7 * second**2, 11), nn.ReLU(), nn.Linear(11, 4),
        )  # fmt: skip


ENCODINGS = [NullChannels(), MeanFill(0.3), NullChannels(mean=0.1, std=0.4)]
COLOUR = [
    NullChannels((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)),
    MeanFill((0.2, 0.3, 0.4)),
    MeanFill((0.2, 0.3, 0.4), centred=True),
    NullChannels(),
]
STEMS = [(4, 2, 1, 12), (4, 4, 0, 16), (3, 1, 1, 9), (6, 3, 3, 12), (5, 2, 2, 12), (4, 2, 0, 13)]


@pytest.mark.parametrize(("kernel", "stride", "padding", "size"), STEMS)
@pytest.mark.parametrize("encoding", [*ENCODINGS, *COLOUR], ids=str)
def test_fused_networks_and_layouts_are_the_model_and_the_encoding(
    encoding: Encoding, kernel: int, stride: int, padding: int, size: int
) -> None:
    channels = 3 if encoding in COLOUR else 1
    model = _stack(encoding.channels(channels), kernel, stride, padding, size).double()
    reference = Reference(model, Uniform(size * size, size), encoding, CPU)
    inputs = torch.rand(3, channels, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    which, draws = torch.tensor([0, 2, 1, 1, 0, 2]), torch.arange(6)
    quick, network = reference.fused_as_on_cuda(inputs.shape[1:], FLOAT64), fuse(model, inputs.shape[1:], FLOAT64)
    assert quick is not None
    assert network is not None
    assert network.block == (stride if (size + 2 * padding) % stride == 0 else 1)
    with torch.no_grad():
        expected = reference.scores_of(inputs, which, 5, which, draws)
        torch.testing.assert_close(
            quick(inputs, which, reference.masks(5, which, draws)), expected, rtol=1e-5, atol=1e-6
        )


def test_the_papers_network_folds() -> None:
    """Its first convolution over 2 channels becomes one over 8, its 500 and 100 features 512 and 128."""
    model = models.build("mnist-cnn", 2, 10)
    network = fuse(model, (1, 28, 28), torch.float32)
    assert network is not None
    assert (network.block, network.padding, network.channels) == (2, 1, 8)
    features = [tuple(part.weight.shape) for part in network.layers if isinstance(part, Features)]
    assert features == [(512, 6272), (128, 512), (64, 128)]


def _settled(model: nn.Module) -> nn.Module:
    """With running statistics as after training, none of them 0 or 1."""
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(3)
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                assert module.running_mean is not None
                assert module.running_var is not None
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
                module.weight.uniform_(0.5, 1.5)
                module.bias.normal_(0, 0.2)
    return model.eval()


@pytest.mark.parametrize(
    ("name", "size", "block"), [("resnet18-cifar", 16, 1), ("resnet50-cifar", 16, 1), ("resnet50", 64, 2)]
)
@pytest.mark.parametrize("encoding", [COLOUR[0], COLOUR[1]], ids=str)
def test_residual_networks_fold(name: str, size: int, block: int, encoding: Encoding) -> None:
    """Batch norm, shortcuts and sums, the 7 x 7 stem of stride 2 over blocks, pooling: exactly the model."""
    model = _settled(models.build(name, encoding.channels(3), 7).double())
    reference = Reference(model, Uniform(size * size, size), encoding, CPU)
    inputs = torch.rand(2, 3, size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    which, draws = torch.tensor([0, 1, 1]), torch.arange(3)
    quick, network = reference.fused_as_on_cuda(inputs.shape[1:], FLOAT64), fuse(model, inputs.shape[1:], FLOAT64)
    assert quick is not None
    assert network is not None
    assert network.block == block
    with torch.no_grad():
        expected = reference.scores_of(inputs, which, 5, which, draws)
        torch.testing.assert_close(
            quick(inputs, which, reference.masks(5, which, draws)), expected, rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(("precision", "dtype", "rounding"), [("fp32", torch.float32, 1e-5), ("bf16", HALF, 0.03)])
@pytest.mark.parametrize(
    ("name", "channels", "size"),
    [
        ("mnist-cnn", 1, 28),
        ("digits-cnn", 1, 8),
        ("resnet18-cifar", 3, 16),
        ("resnet50-cifar", 3, 8),
        ("resnet50", 3, 64),
    ],
)
def test_the_cpu_form_scores_as_the_model(
    name: str, channels: int, size: int, precision: str, dtype: torch.dtype, rounding: float
) -> None:
    if dtype not in devices.support(CPU).fused:
        pytest.skip(f"this torch has no fused operations in {precision} for this CPU")
    for encoding in (NullChannels(), *([MeanFill(0.3)] if channels > 1 else [])):
        model = _settled(models.build(name, encoding.channels(channels), 7))
        reference = Reference(model, Uniform(size * size, size), encoding, CPU, precision)
        inputs = torch.rand(3, channels, size, size, generator=torch.Generator().manual_seed(1))
        which, draws = torch.tensor([1, 1, 2, 2, 2]), torch.arange(5)
        with torch.no_grad():
            quick = reference.fused(inputs[:1])
            assert isinstance(quick, FusedScorer)
            expected = reference.scores_of(inputs, which, 5, which, draws).float()
            found = quick(inputs, which, reference.masks(5, which, draws)).float()
        assert (found - expected).abs().max() <= rounding * expected.abs().max()


@pytest.mark.parametrize("encoding", [*ENCODINGS, *COLOUR], ids=str)
def test_chosen_copies_are_encoded_copies(encoding: Encoding) -> None:
    channels = 3 if encoding in COLOUR else 1
    inputs, which = torch.rand(4, channels, 6, 5), torch.tensor([1, 1, 3])
    masks = Uniform(30, 7).masks(0, [0], range(3))[0]
    assert shown.is_unitwise(encoding, channels)
    chosen = shown.copies(encoding, inputs, which, masks, torch.float32)
    assert torch.equal(chosen.permute(0, 3, 1, 2), encoding(inputs[which], masks))


@pytest.mark.parametrize(
    ("branch", "inside", "outside"),
    [
        ([nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 8, 1)], 4, 4),
        ([nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 1)], 4, 4),
        ([nn.Conv2d(4, 4, 3, padding=1, stride=2), nn.ReLU(), nn.Conv2d(4, 4, 1)], 4, 4),
        ([nn.Conv2d(4, 4, 2, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 2)], 4, 4),
        ([nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 1)], 4, 4),
        ([nn.Conv2d(4, 1, 3, padding=1), nn.ReLU(), nn.Conv2d(1, 4, 1)], 4, 4),
    ],
)
def test_blocks_whose_sum_might_be_broadcast_are_left_as_they_are(
    branch: list[nn.Module], inside: int, outside: int
) -> None:
    """Also those with a single channel somewhere, whose layout in memory is ambiguous."""
    block = Residual(nn.Sequential(*branch), inside, outside, 1)
    model = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    assert fuse(model, (1, 6, 6), torch.float32) is None
    assert fuse(model, (1, 6, 6), torch.float32, tensor_cores=False) is None


def test_images_of_one_channel_inside_are_left_as_they_are() -> None:
    model = nn.Sequential(
        nn.Conv2d(2, 1, 2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(1, 4, 2, stride=(1, 2)), nn.ReLU(),
        nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    assert fuse(model, (1, 5, 5), torch.float32) is None
    assert fuse(model, (1, 5, 5), torch.float32, tensor_cores=False) is None


def test_a_block_whose_branch_is_one_convolution_is_left_as_it_is() -> None:
    """Its sum could not be taken in the memory of the input that the convolution still reads."""
    branch = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1))
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), Residual(branch, 4, 4, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    )
    assert fuse(model, (1, 6, 6), torch.float32) is None


@pytest.mark.parametrize("encoding", [*ENCODINGS], ids=str)
def test_nothing_of_an_ablated_unit_reaches_a_layout(encoding: Encoding) -> None:
    layout = layout_of(encoding, (1, 6, 6), 2, 1, 8)
    assert layout is not None
    mask = Uniform(36, 5).masks(0, [0], [0])[0]
    input = torch.rand(1, 1, 6, 6)
    other = torch.where(mask.view(1, 1, 6, 6), input, -torch.rand(1, 1, 6, 6))
    which = torch.zeros(1, dtype=torch.int64)
    copies = [layout.copies(x, which, mask, torch.float32) for x in (input, other)]
    assert torch.equal(copies[0].view(torch.int32), copies[1].view(torch.int32))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(models.build("resnet18-cifar", 2, 10), nn.Softmax(1)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.BatchNorm2d(3, track_running_stats=False), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.ReLU(), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(3, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.MaxPool2d(2, ceil_mode=True), nn.Flatten(), nn.Linear(3, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(8, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2, groups=1, padding="same"), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2, dilation=2), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 2, bias=False)),
        nn.Sequential(nn.Conv2d(2, 3, 2, padding_mode="circular", padding=1), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.Dropout(), nn.Flatten(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(2), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.ReLU(), nn.Linear(12, 2)),
        nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 2), nn.ReLU()),
        nn.Sequential(nn.Conv2d(2, 4, 2), nn.Flatten(), nn.utils.parametrizations.weight_norm(nn.Linear(12, 2))),
        lambda x: x,
    ],
)
def test_models_that_are_not_plain_stacks_are_left_as_they_are(model: Any) -> None:
    assert fuse(model, (1, 3, 3), torch.float32) is None


def test_hooks_are_respected() -> None:
    model = models.build("mnist-cnn", 2, 10)
    model[0].register_forward_hook(lambda module, inputs, output: output * 2)
    assert fuse(model, (1, 28, 28), torch.float32) is None


def test_a_layer_whose_forward_was_replaced_is_respected() -> None:
    model = models.build("mnist-cnn", 2, 10)
    model[0].forward = lambda x: x  # type: ignore[method-assign]
    assert fuse(model, (1, 28, 28), torch.float32) is None


def test_an_encoding_that_changes_its_parents_is_respected() -> None:
    class Halved(NullChannels):
        def encode(self, inputs: torch.Tensor, retained: torch.Tensor) -> torch.Tensor:
            return super().encode(inputs, retained) / 2

    class Called(MeanFill):
        def __call__(self, inputs: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
            return super().__call__(inputs, masks) / 2

    class Same(NullChannels):
        """Changes nothing."""

    assert layout_of(Halved(), (1, 6, 6), 2, 1, 8) is None
    assert layout_of(Called(0.3), (1, 6, 6), 2, 1, 8) is None
    assert layout_of(Same(), (1, 6, 6), 2, 1, 8) is not None


def test_numbers_without_fused_operations_take_the_model_itself() -> None:
    single = models.build("mnist-cnn", 2, 10)
    for model, precision in ((single, "fp16"), (models.build("mnist-cnn", 2, 10).double(), "fp32")):
        reference = Reference(model, Uniform(784, 45), NullChannels(), CPU, precision)
        assert reference.fused(torch.rand(1, 1, 28, 28)) is None


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the engine fuse on the CPU as on a GPU, by the kernels' twins."""
    tensor_cores = frozenset({HALF, torch.float16})
    monkeypatch.setattr(devices, "support", lambda device: Support(tensor_cores, tensor_cores))
    monkeypatch.setattr(engine, "fuse_on_cpu", fuse_on_cuda)


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_the_fused_form_votes_as_the_plain_one_but_for_rounding(encoding: Encoding) -> None:
    untrained = models.build("mnist-cnn", encoding.channels(1), 10)
    model = Smoothed.load("mnist-k45").model if encoding is ENCODINGS[0] else untrained
    images = torch.from_numpy(datasets.load("mnist-sample").images.batch(range(4))).float() / 255
    smoothed = Smoothed(model, Uniform(784, 45), encoding, precision="bf16")
    assert isinstance(smoothed.voter(images)._scores, FusedScorer)
    fused_votes = smoothed.count(images, 0, 150).votes
    plain = Smoothed(model, Uniform(784, 45), encoding, precision="fp32").count(images, 0, 150).votes
    assert (fused_votes.sum(axis=1) == 150).all()
    assert abs(plain - fused_votes).sum() / 2 <= 0.05 * plain.sum()


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("broken", ["other scores", "not finite", "refused"])
def test_a_fused_form_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def wrong(self: Features, x: torch.Tensor) -> torch.Tensor:
        if broken == "refused":
            raise RuntimeError("unsupported operation")
        return torch.full((len(x), 10), float("nan") if broken == "not finite" else 0.0)

    monkeypatch.setattr(Features, "__call__", wrong)
    smoothed = Smoothed.load("mnist-k45", precision="bf16")
    image = torch.from_numpy(datasets.load("mnist-sample").images.batch([0])).float() / 255
    with pytest.warns(UserWarning, match="does not give the model's scores on this device; the model itself is used"):
        counts = smoothed.count(image, 0, 50)
    assert counts.votes[0].argmax() == 7
    assert counts.invalid.sum() == 0


def test_the_native_precision_is_one_that_the_device_has() -> None:
    assert native_precision(torch.device("mps")) == "fp32"
    precision = native_precision(CPU)
    smoothed = Smoothed(models.build("mnist-cnn", 2, 10), Uniform(784, 45), precision=precision)
    assert smoothed.count(torch.rand(1, 1, 28, 28), 0, 10).votes.sum() == 10


@needs_cuda
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("encoding", ENCODINGS, ids=str)
def test_the_engine_votes_as_the_plain_model_but_for_rounding(encoding: Encoding, precision: str) -> None:
    model = models.build("mnist-cnn", encoding.channels(1), 10).cuda()
    for parameter in model.parameters():
        parameter.data *= 2  # untrained scores are all alike; larger weights spread them
    images = torch.rand(5, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    plain = Smoothed(model, Uniform(784, 200), encoding, precision="fp32").count(images, 0, 3_000)
    quick = Smoothed(model, Uniform(784, 200), encoding, precision=precision).count(images, 0, 3_000)
    assert (quick.votes.sum(axis=1) == 3_000).all()
    assert abs(plain.votes - quick.votes).sum() / 2 <= 0.02 * plain.votes.sum()


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_kernel_fills_what_the_tensor_operations_fill(dtype: torch.dtype) -> None:
    from sparsecert.votes.engine import layout_triton

    layout = layout_of(NullChannels((0.1, 0.2, 0.3), (0.5, 0.6, 0.7)), (3, 13, 11), 2, 1, 24)
    assert layout is not None
    layout = layout.to(torch.device("cuda"))
    masks = Uniform(143, 20).masks(0, [0], range(1_001), "cuda")[0]
    flat, which = torch.rand(7, 429, device="cuda"), torch.arange(1_001, device="cuda") % 7
    expected = layout.gather(flat, which, masks)
    torch.testing.assert_close(
        layout_triton.gather(layout, flat, which, masks, dtype), expected.to(dtype), rtol=1e-2, atol=1e-6
    )


@needs_cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("channels", "out", "kernel", "size"),
    [(8, 64, 2, 15), (8, 64, 3, 18), (24, 64, 4, 30), (32, 16, 1, 5), (8, 128, 5, 9)],
)
def test_the_stem_kernel_is_the_convolution(
    dtype: torch.dtype, channels: int, out: int, kernel: int, size: int
) -> None:
    from sparsecert.votes.engine.stem_triton import Stem

    with torch.random.fork_rng(["cuda"]):
        torch.manual_seed(0)
        x = torch.randn(37, size, size, channels, device="cuda", dtype=dtype).permute(0, 3, 1, 2)
        weight, bias = torch.randn(out, channels, kernel, kernel, device="cuda"), torch.randn(out, device="cuda")
    expected = torch.relu(nn.functional.conv2d(x.float(), weight.to(dtype).float(), bias.to(dtype).float()))
    found = Stem(weight.to(dtype), bias.to(dtype))(x)
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02 * float(expected.max()))


@needs_cuda
def test_a_nan_passes_through_the_kernels() -> None:
    from sparsecert.votes.engine.pool_triton import pool
    from sparsecert.votes.engine.stem_triton import Stem

    x = torch.zeros(2, 6, 6, 8, device="cuda", dtype=torch.bfloat16).permute(0, 3, 1, 2)
    x[1, 3, 2, 2] = float("nan")
    stem = Stem(torch.ones(16, 8, 3, 3, device="cuda", dtype=torch.bfloat16), torch.zeros(16, device="cuda"))
    assert not torch.isnan(stem(x)[0]).any()
    assert torch.isnan(stem(x)[1, :, 2, 2]).all()
    assert torch.isnan(pool(x, 3, 2, 1)[1, 3, 1, 1])


@needs_cuda
@pytest.mark.parametrize(("size", "stride", "padding"), [(3, 2, 1), (2, 2, 0), (3, 1, 1)])
def test_the_pool_kernel_is_max_pooling(size: int, stride: int, padding: int) -> None:
    from sparsecert.votes.engine.pool_triton import pool

    x = torch.randn(5, 17, 14, 64, device="cuda", dtype=torch.bfloat16).permute(0, 3, 1, 2)
    assert torch.equal(pool(x, size, stride, padding), nn.functional.max_pool2d(x, size, stride, padding))


@needs_cuda
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize(("name", "size"), [("resnet18-cifar", 32), ("resnet50-cifar", 32), ("resnet50", 64)])
def test_residual_networks_score_as_the_model_on_a_gpu(name: str, size: int, precision: str) -> None:
    model = _settled(models.build(name, 6, 10)).cuda()
    inputs = torch.rand(3, 3, size, size, generator=torch.Generator().manual_seed(1)).cuda()
    which, draws = torch.tensor([0, 1, 2, 2], device="cuda"), torch.arange(4, device="cuda")
    exact, half = (
        Reference(model, Uniform(size * size, size), COLOUR[0], inputs.device, kind) for kind in ("fp32", precision)
    )
    with torch.no_grad():
        quick = half.fused(inputs[:1])
        assert isinstance(quick, FusedScorer)
        expected = exact.scores_of(inputs, which, 5, which, draws)
        found = quick(inputs, which, half.masks(5, which, draws)).float()
    assert (found - expected).abs().max() <= 0.03 * expected.abs().max()


@needs_cuda
@pytest.mark.parametrize(("channels", "out"), [(64, 256), (16, 64), (32, 128)])
def test_the_pointwise_kernel_is_convolution_sum_and_relu(channels: int, out: int) -> None:
    from sparsecert.votes.engine.pointwise_triton import PointwiseConv

    with torch.random.fork_rng(["cuda"]):
        torch.manual_seed(0)
        x, summand = (torch.randn(7, 9, 5, c, device="cuda").bfloat16().permute(0, 3, 1, 2) for c in (channels, out))
        weight = torch.randn(out, channels, 1, 1, device="cuda").bfloat16()
        bias = torch.randn(out, device="cuda").bfloat16()
    expected = torch.relu(nn.functional.conv2d(x.float(), weight.float(), bias.float()) + summand.float())
    found = PointwiseConv(weight, bias)(x, summand)
    torch.testing.assert_close(found.float(), expected, rtol=0.02, atol=0.02 * float(expected.max()))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("part", ["convolution", "block", "linear"])
def test_a_nan_inside_the_network_votes_for_nobody_on_the_cpu(precision: str, part: str) -> None:
    """A library's fused ReLU would make it 0, and the copy a vote."""
    branch = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1))
    model = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1), nn.ReLU(), Residual(branch, 4, 4, 1),
        nn.Flatten(), nn.Linear(4 * 36, 8), nn.ReLU(), nn.Linear(8, 3),
    )  # fmt: skip
    layer = {"convolution": model[0], "block": branch[2], "linear": model[4]}[part]
    layer.weight.data[0] = float("nan")  # type: ignore[union-attr,operator]
    smoothed = Smoothed(model, Uniform(36, 9), precision=precision)
    with pytest.warns(UserWarning, match="gave scores that are not finite"):
        counts = smoothed.count(torch.rand(2, 1, 6, 6), 0, 40)
    assert counts.invalid.tolist() == [40, 40]


def test_modules_set_up_in_another_way_are_left_as_they_are() -> None:
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 2))
    model[0].padding = 1  # type: ignore[assignment]
    assert fuse(model, (1, 4, 4), torch.float32) is None
