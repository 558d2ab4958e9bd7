"""Other people's machines, by a fake of the one capability probe: the same votes, a clear line, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import sparsecert as sc
from sparsecert import datasets, devices, models
from sparsecert.cli import cli
from sparsecert.devices import Support
from sparsecert.modelfile import read, read_header, saved_precision, write
from sparsecert.runs import certify_dataset
from sparsecert.training import TrainingRun
from sparsecert.training.recipes import RECIPES
from tests.reference import Reference

CPU, BF16, FP32 = torch.device("cpu"), torch.bfloat16, torch.float32
MACHINES = {
    "nothing is supported": Support(),
    "AVX2 only": Support(fused=frozenset({FP32})),
    "arm64": Support(fused=frozenset({FP32})),
    "AVX-512 without bf16 instructions": Support(fused=frozenset({FP32, BF16})),
    "bf16 in hardware": Support(frozenset({BF16}), frozenset({FP32, BF16})),
}

Become = Callable[[str], None]


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Become:
    """Turns this machine into another one, as far as the probe tells."""
    return lambda name: monkeypatch.setattr(devices, "support", lambda device: MACHINES[name])


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest, become: Become) -> Iterator[str]:
    """Each of them; those that claim more than there is fall back with a warning, which is not looked at here."""
    become(request.param)
    return request.param


def _digit() -> torch.Tensor:
    return torch.from_numpy(datasets.load("mnist-sample").images.batch([0])).float() / 255


@pytest.mark.filterwarnings("ignore:the fused form of the model")
@pytest.mark.parametrize("precision", ["auto", "fp32", "bf16"])
def test_every_machine_votes_as_the_plain_model(machine: str, precision: str) -> None:
    """Copy by copy, but where two classes are as close as rounding."""
    g, image = sc.Smoothed.load("mnist-k45", precision=precision), _digit()
    which, draws = torch.zeros(64, dtype=torch.int64), torch.arange(64)
    reference = Reference(g.model, g.scheme, g.encoding, CPU, g.precision)
    with torch.no_grad():
        plain = reference.scores_of(image, which, 0, which, draws).float()
        found = (reference.fused(image) or reference.scores)(image, which, reference.masks(0, which, draws)).float()
    best, second = plain.topk(2, dim=1).values.unbind(1)
    sure = best - second > (0.1 if g.precision == "bf16" else 1e-3) * plain.abs().max()
    assert sure.sum() > 30
    assert torch.equal(found.argmax(1)[sure], plain.argmax(1)[sure])
    assert g.certify(image, n0=50, n=200).labels.tolist() == [7]


@pytest.mark.filterwarnings("ignore:the fused form of the model")
def test_auto_is_bf16_only_where_the_hardware_multiplies_it(machine: str) -> None:
    assert sc.Smoothed.load("mnist-k45").precision == ("bf16" if machine == "bf16 in hardware" else "fp32")
    assert devices.native_precision(CPU) == sc.Smoothed.load("mnist-k45").precision


def test_a_fused_path_is_taken_only_where_the_probe_allows_it(become: Become) -> None:
    model = models.build("digits-cnn", 2, 10).eval()
    half, single = (Reference(model, sc.Uniform(64, 9), sc.NullChannels(), CPU, name) for name in ("bf16", "fp32"))
    for name, machine in MACHINES.items():
        become(name)
        with torch.no_grad():
            for reference, dtype in ((half, BF16), (single, FP32)):
                if dtype not in machine.fused:
                    assert reference.fused(torch.rand(1, 1, 8, 8)) is None


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_one_line_says_that_a_precision_is_emulated(become: Become, precision: str, tmp_path: Path) -> None:
    become("AVX2 only")
    command = "certify mnist-k45 --data mnist-sample --limit 1 --n0 20 --n 60 --device cpu --precision"
    with pytest.warns(UserWarning, match=rf"^{precision} is emulated on this device \(cpu\): fp32 is faster$"):
        result = CliRunner().invoke(cli, [*command.split(), precision, "--out", str(tmp_path / "c.jsonl")])
    assert result.exit_code == 0, result.output
    assert f"certifying in {precision} on cpu" in result.output


def test_auto_needs_a_module_of_32_bit_weights(become: Become) -> None:
    become("bf16 in hardware")
    scheme = sc.Uniform(64, 9)
    net = models.build("digits-cnn", 2, 10)
    assert sc.Smoothed(net, scheme).precision == "bf16"
    assert sc.Smoothed(net, scheme, precision="fp32").precision == "fp32"
    assert sc.Smoothed(lambda copies: copies.flatten(1)[:, :2], scheme).precision == "fp32"
    assert sc.Smoothed(net.double(), scheme).precision == "fp32"


def test_a_model_that_cannot_be_computed_in_bf16_is_refused_with_the_remedy(become: Become) -> None:
    class Strict(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(128, 3)

        def forward(self, copies: torch.Tensor) -> torch.Tensor:
            return torch.from_numpy(self.layer(copies.flatten(1)).numpy())  # NumPy has no bf16

    become("bf16 in hardware")
    digits = torch.rand(1, 1, 8, 8)
    with pytest.raises(sc.InputError, match=r"computed in bf16 on this device \(cpu\): .*; use precision fp32"):
        sc.Smoothed(Strict(), sc.Uniform(64, 9)).predict(digits, n=20)
    assert sc.Smoothed(Strict(), sc.Uniform(64, 9), precision="fp32").predict(digits, n=20).counts.sum() == 20


@pytest.mark.filterwarnings("ignore:the fused form of the model")
@pytest.mark.parametrize(("started", "resumed"), [("bf16 in hardware", "AVX2 only"), ("AVX2 only", "bf16 in hardware")])
def test_a_resumed_run_keeps_the_precision_of_its_header(
    trained: Path, tmp_path: Path, become: Become, started: str, resumed: str
) -> None:
    data, out, settings = datasets.load("digits", "test"), tmp_path / "c.jsonl", {"n0": 20, "n": 60, "limit": 6}
    become(started)
    certify_dataset(sc.Smoothed.load(trained), trained, data, out, **settings)  # type: ignore[arg-type]
    header, *lines = out.read_text().splitlines(keepends=True)
    precision = "bf16" if started == "bf16 in hardware" else "fp32"
    assert json.loads(header)["run"]["precision"] == precision
    out.write_text("".join((header, *lines[:2])))
    become(resumed)
    certify_dataset(sc.Smoothed.load(trained), trained, data, out, **settings)  # type: ignore[arg-type]
    again, *rest = out.read_text().splitlines(keepends=True)
    assert (again, len(rest)) == (header, 6)
    other = "fp32" if precision == "bf16" else "bf16"
    with pytest.raises(sc.InputError, match="precision"):
        certify_dataset(sc.Smoothed.load(trained, precision=other), trained, data, out, **settings)  # type: ignore[arg-type]


def test_a_file_keeps_a_precision_that_was_chosen_and_an_old_default_is_auto(tmp_path: Path) -> None:
    path, net = tmp_path / "m.safetensors", models.build("digits-cnn", 2, 10)
    for precision in ("auto", "fp32", "bf16"):
        sc.Smoothed(net, sc.Uniform(64, 9), precision=precision).save(path)
        assert sc.Smoothed.load(path).requested_precision == precision
        assert sc.Smoothed.load(path, precision="fp16").requested_precision == "fp16"
    for saved, expected in (("fp32", "auto"), ("bf16", "bf16")):
        tensors, header = read(path)
        write(path, tensors, {**header, "format": 1, "precision": saved})
        assert saved_precision(read_header(path)) == expected
        assert sc.Smoothed.load(path).requested_precision == expected


@pytest.mark.parametrize(
    ("capability", "hardware"), [((6, 1), set()), ((7, 5), {torch.float16}), ((8, 0), {BF16, torch.float16})]
)
def test_a_gpu_is_asked_for_its_compute_capability(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], hardware: set[torch.dtype]
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: capability)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(devices, "_has_triton", lambda device: True)
    gpu, other = torch.device("cuda", 0), torch.device("mps")
    devices._cuda_support.cache_clear()
    assert devices.support(gpu) == Support(frozenset(hardware), frozenset(hardware), kernels=True)
    assert devices.native_precision(gpu) == ("bf16" if BF16 in hardware else "fp32")
    monkeypatch.setattr(torch.version, "cuda", None)  # ROCm: cuDNN's operations are not there
    devices._cuda_support.cache_clear()
    assert devices.support(gpu) == Support(kernels=True)
    assert devices.support(other) == Support()
    devices._cuda_support.cache_clear()


@pytest.mark.parametrize(
    ("has", "expected"),
    [
        ({}, Support(frozenset({BF16}), frozenset({FP32, BF16}))),
        ({"avx512_bf16": False}, Support(fused=frozenset({FP32, BF16}))),
        ({"avx512_bf16": False, "amx": True}, Support(frozenset({BF16}), frozenset({FP32, BF16}))),
        ({"onednn_bf16": False}, Support(fused=frozenset({FP32}))),
        ({"operations": False}, Support()),
        ({"enabled": False}, Support()),
    ],
)
def test_a_cpu_is_asked_through_onednn_and_torch(
    monkeypatch: pytest.MonkeyPatch, has: dict[str, bool], expected: Support
) -> None:
    there: dict[str, Any] = {"_is_mkldnn_bf16_supported": lambda: has.get("onednn_bf16", True)}
    if has.get("operations", True):
        there |= dict.fromkeys(devices.FUSED_BY_ONEDNN)
    monkeypatch.setattr(torch._C, "_has_mkldnn", True)
    monkeypatch.setattr(devices.torch.ops, "mkldnn", SimpleNamespace(**there))
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has.get("avx512_bf16", True), raising=False)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: has.get("amx", False), raising=False)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", has.get("enabled", True))
    assert devices.support(CPU) == expected


def test_triton_that_cannot_compile_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine it is not there, or has no GPU to compile for."""
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices._has_triton(CPU) is False
    if not torch.cuda.is_available():
        monkeypatch.setattr(devices, "find_spec", lambda name: object())
        with pytest.warns(UserWarning, match="Triton cannot compile kernels here"):
            assert devices._has_triton(CPU) is False


def test_training_says_that_its_precision_is_emulated(become: Become) -> None:
    data, recipe = datasets.load("digits", "train"), replace(RECIPES["digits"], precision="bf16")
    become("AVX2 only")
    with pytest.warns(UserWarning, match=r"^bf16 is emulated on this device \(cpu\): fp32 is faster$"):
        run = TrainingRun(data, recipe, sc.Uniform(64, 9), sc.NullChannels(), 0, CPU)
    assert run.recipe.precision == "bf16"  # it is trained as asked all the same


def test_a_precision_that_cannot_even_be_emulated_is_refused(become: Become, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: Any) -> torch.Tensor:
        raise RuntimeError("convolution is not implemented for BFloat16")

    become("nothing is supported")
    monkeypatch.setattr(devices, "conv2d", lacking)
    with pytest.raises(sc.InputError, match=r"bf16 cannot be computed on this device \(cpu\): .* BFloat16; use fp32"):
        sc.Smoothed.load("mnist-k45", precision="bf16").predict(_digit(), n=20)
    assert sc.Smoothed.load("mnist-k45").predict(_digit(), n=20).counts.sum() == 20


def test_every_command_that_computes_takes_auto() -> None:
    for name in ("certify", "predict", "attack", "serve", "demo"):
        (option,) = (parameter for parameter in cli.commands[name].params if parameter.name == "precision")
        assert "auto" in option.type.choices  # type: ignore[attr-defined]
