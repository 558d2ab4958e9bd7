"""The vote loop: against a plain loop written out, whatever the batch size."""

from __future__ import annotations

from functools import partial
from threading import Event, Thread, current_thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from sparsecert.encodings import Encoding, MeanFill, NullChannels
from sparsecert.errors import InputError
from sparsecert.schemes import ESTIMATION, Uniform
from sparsecert.votes import memory
from sparsecert.votes.batches import FEW, few_batch_sizes
from sparsecert.votes.copies import Copies
from tests.reference import Reference

CPU = torch.device("cpu")
SCHEME = Uniform(12, 4)


def _model(channels: int = 2, classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * 12, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, classes))


def _inputs(count: int = 5, channels: int = 1) -> torch.Tensor:
    return torch.rand(count, channels, 3, 4, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("encoding", [NullChannels(), MeanFill(0.5)], ids=repr)
@pytest.mark.parametrize("rows", [1, 3, 7, 64, 10_000, None])
def test_counts_are_those_of_a_plain_loop(encoding: Encoding, rows: int | None) -> None:
    model = _model(encoding.channels(1)).double()
    inputs, examples, n = _inputs().double(), [4, 0, 17, 3, 99], 40
    expected = np.zeros((5, 4), dtype=np.int64)
    model.eval()
    with torch.no_grad():
        for row, example in enumerate(examples):
            for draw in range(n):
                mask = SCHEME.masks(7, [example], [ESTIMATION + draw])[0]
                expected[row, model(encoding(inputs[row : row + 1], mask)).argmax().item()] += 1
    model.train()
    reference = Reference(model, SCHEME, encoding, CPU)
    counts = reference.count(inputs, examples, range(ESTIMATION, ESTIMATION + n), seed=7, rows=rows)
    assert counts.votes.dtype == np.int64
    assert (counts.votes == expected).all()
    assert (counts.invalid == 0).all()


def test_threads_that_vote_at_once_vote_in_eval_mode_to_their_end() -> None:
    """The first puts a model in training mode into eval mode; it must not take that from the second, which goes on."""
    model = _model().train()
    voter = Reference(model, SCHEME, NullChannels(), CPU).voter(_inputs(1), rows=8)

    def votes() -> list[list[int]]:
        found: list[list[int]] = Copies(voter, _inputs(), range(5), 7).begin_count(0, 0, 40)().votes.tolist()
        return found

    alone, found, seen = votes(), dict[str, list[list[int]]](), list[bool]()
    started, waited = Event(), Event()

    def wait_for_each_other(module: nn.Module, *_: object) -> None:
        seen.append(module.training)
        if current_thread() is first:
            started.set()
            waited.wait()
        else:
            waited.set()
            first.join()

    model[3].register_forward_hook(wait_for_each_other)
    first, second = (Thread(target=lambda name=name: found.update({name: votes()})) for name in ("first", "second"))
    first.start()
    started.wait()
    second.start()
    second.join()
    assert found == {"first": alone, "second": alone}
    assert not any(seen)
    assert all(module.training for module in model.modules())


def test_every_module_is_given_back_as_it_was() -> None:
    model = _model()
    model.train()
    model[3].eval()
    modes = [module.training for module in model.modules()]
    seen: list[bool] = []
    model[1].register_forward_hook(lambda module, *_: seen.append(module.training))
    Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(10), seed=0)
    assert [module.training for module in model.modules()] == modes
    assert seen
    assert not any(seen)


def test_modules_are_given_back_after_an_error_too() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("broken")

    model = Broken().train()
    with pytest.raises(InputError, match=r"the model does not take ablated copies of shape \(2, 3, 4\): broken"):
        Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(10), seed=0)
    assert model.training


def test_no_gradients_are_recorded() -> None:
    model, recorded = _model(), []
    model.register_forward_hook(lambda _module, _inputs, output: recorded.append(output.requires_grad))
    Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(10), seed=0)
    assert recorded
    assert not any(recorded)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_vote_for_nobody(bad: float) -> None:
    """A copy that retains unit 0 gets one bad score; argmax alone would have made it a vote."""

    def model(copies: torch.Tensor) -> torch.Tensor:
        scores = torch.zeros(len(copies), 3)
        scores[:, 1] = 1
        scores[:, 2] = torch.where(copies[:, :2, 0, 0].sum(dim=1) > 0, bad, 0.0)
        return scores

    counts = Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(60), seed=0)
    met = SCHEME.masks(0, 5, 60)[:, :, 0].sum(dim=1).numpy()
    assert (counts.invalid == met).all()
    assert (counts.votes[:, 1] == 60 - met).all()
    assert counts.votes[:, [0, 2]].sum() == 0
    assert met.min() > 0


def test_progress_reports_every_copy_once() -> None:
    reported: list[int] = []
    reference = Reference(_model(), SCHEME, NullChannels(), CPU)
    reference.count(
        _inputs(), range(5), range(33), seed=0, rows=16, on_progress=lambda inputs, copies: reported.append(copies)
    )
    assert sum(reported) == 5 * 33
    assert max(reported) == 16


def test_several_inputs_share_a_batch() -> None:
    sizes: list[int] = []
    model = _model()
    model.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(10), seed=0, rows=1_000)
    assert max(sizes) == 50


@pytest.mark.parametrize("most", [1, 63, 64, 511, 512, 4_096, 65_536])
def test_a_gpu_meets_few_numbers_of_rows(most: int) -> None:
    gpu, met = torch.device("cuda"), set()
    for left in {*range(1, 3_000), *range(3_000, 70_000, 997)}:
        rows, padded = few_batch_sizes(left, most, gpu)
        assert 1 <= rows == min(left, padded) <= padded <= most
        assert padded < 4 * rows or padded < 8 * FEW
        met.add(padded)
        assert few_batch_sizes(left, most, CPU) == (min(left, most), min(left, most))
    assert met <= {most // 8**power for power in range(6)}


@pytest.mark.parametrize("copies", [0, 1, 37, 150])
def test_copies_that_fill_a_pass_up_do_not_vote(monkeypatch: pytest.MonkeyPatch, copies: int) -> None:
    as_on_a_gpu = partial(_sized_for, torch.device("cuda"))
    voter = Reference(_model(), SCHEME, NullChannels(), CPU).voter(_inputs()[:1], rows=40)
    numbers = torch.arange(copies)
    arguments = _inputs(), numbers % 5, torch.zeros_like(numbers), numbers, 0
    expected = voter.labels(*arguments)
    monkeypatch.setattr("sparsecert.votes.batches.FEW", 1)
    monkeypatch.setattr("sparsecert.votes.voter.few_batch_sizes", as_on_a_gpu)
    assert torch.equal(voter.labels(*arguments), expected)


def _sized_for(device: torch.device, left: int, most: int, _: torch.device) -> tuple[int, int]:
    return few_batch_sizes(left, most, device)


def test_the_batch_shrinks_when_the_device_runs_out_of_memory() -> None:
    inner, refused = _model(), []

    def model(copies: torch.Tensor) -> torch.Tensor:
        if len(copies) > 20:
            refused.append(len(copies))
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return inner.eval()(copies)

    reference = Reference(model, SCHEME, NullChannels(), CPU)
    counts = reference.count(_inputs(), range(5), range(30), seed=0, rows=128)
    assert refused == [128, 64, 32]
    assert counts.votes.sum(axis=1).tolist() == [30] * 5


def test_too_little_memory_for_a_single_copy_is_said() -> None:
    calls = []

    def model(copies: torch.Tensor) -> torch.Tensor:
        calls.append(len(copies))
        if len(calls) > 3:  # the first three are the probe's
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        return torch.zeros(len(copies), 3)

    with pytest.raises(InputError, match="too little memory for one ablated copy"):
        Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0, rows=4)


@pytest.mark.parametrize(
    ("model", "found"),
    [
        (lambda x: torch.zeros(len(x)), r"\(16,\)"),
        (lambda x: torch.zeros(len(x), 1), r"\(16, 1\)"),
        (lambda x: torch.zeros(len(x) + 1, 5), r"\(17, 5\)"),
        (lambda x: torch.zeros(len(x), 2, 12), r"\(16, 2, 12\); flatten the copies first"),
        (lambda x: [0] * len(x), "list$"),
        (lambda x: (0.5, torch.zeros(len(x), 5)), r"tuple; hand over .* lambda copies: net\(copies\)\[1\]"),
        (lambda x: {"scores": torch.zeros(len(x), 5)}, r"dict; hand over .* net\(copies\)\['scores'\]"),
        (lambda x: SimpleNamespace(logits=torch.zeros(len(x), 5)), r"SimpleNamespace; .* net\(copies\).logits"),
        (lambda x: torch.zeros(len(x), 5).numpy(), "ndarray; make them a tensor"),
    ],
)
def test_a_model_that_returns_no_scores_is_refused(model: Any, found: str) -> None:
    with pytest.raises(InputError, match=rf"model must return scores of shape \(16, classes\).*got {found}"):
        Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)


def _ruled_out(copies: torch.Tensor) -> torch.Tensor:
    return torch.full((len(copies),), -1e9)


class _BatchStatistics(nn.Module):
    def forward(self, copies: torch.Tensor) -> torch.Tensor:
        flat = copies.flatten(1)
        return flat.view(len(flat), 3, -1).sum(dim=2) - flat[:, :12].mean()


@pytest.mark.parametrize(
    "model",
    [
        _BatchStatistics(),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(24, track_running_stats=False), nn.Linear(24, 3)),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(24), nn.Linear(24, 3)).train().forward,
        lambda copies: torch.stack(
            (
                torch.full((len(copies),), 0.5),
                (copies[:, 0] == 1).any().float().expand(len(copies)),
                _ruled_out(copies),
            ),
            dim=1,
        ),
        lambda copies: torch.nn.functional.one_hot(
            (copies[:, 0].sum((1, 2)) > copies[:, 0].sum() / len(copies)).long(), 3
        ),
        lambda copies: _BatchStatistics()(copies) + 0.01 * torch.randn(len(copies), 3),
        nn.Sequential(nn.Flatten(), nn.BatchNorm1d(24), nn.Dropout(), nn.Linear(24, 3)).train().forward,
    ],
    ids=[
        "batch mean",
        "batch norm without running statistics",
        "a bound method in train mode",
        "a class that is ruled out by a huge score",
        "hard labels",
        "batch mean and noise",
        "batch norm and dropout in train mode",
    ],
)
@pytest.mark.parametrize("scheme", [SCHEME, Uniform(12, 12)], ids=str)
def test_a_model_whose_rows_influence_each_other_is_refused(model: Any, scheme: Uniform) -> None:
    with pytest.raises(InputError, match="change with the rest of the batch, so no certificate can hold"):
        Reference(model, scheme, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)


def test_a_model_that_answers_at_random_is_warned_of() -> None:
    def model(copies: torch.Tensor) -> torch.Tensor:
        return torch.rand(len(copies), 3)

    with pytest.warns(UserWarning, match="what is certified is the random classifier"):
        counts = Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(60), seed=0)
    assert counts.votes.sum() == 300


def test_the_probe_leaves_the_global_generator_alone() -> None:
    model = _model()
    before = torch.get_rng_state()
    Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("error", [ValueError("no"), TypeError("no"), NotImplementedError("no")])
def test_a_model_that_fails_is_refused_with_its_reason(error: Exception) -> None:
    def model(copies: torch.Tensor) -> torch.Tensor:
        raise error

    with pytest.raises(InputError, match=r"does not take ablated copies of shape \(2, 3, 4\): no"):
        Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)


def test_whole_scores_are_scores_and_truth_values_are_not() -> None:
    def ranks(copies: torch.Tensor) -> torch.Tensor:
        return (copies.flatten(1)[:, :3] * 100).long()

    counts = Reference(ranks, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)
    assert counts.votes.sum() == 45
    with pytest.raises(InputError, match=r"scores that are real numbers, got torch.bool"):
        Reference(lambda x: ranks(x) > 50, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)


def test_batch_norm_with_running_statistics_is_welcome() -> None:
    model = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(24), nn.Linear(24, 3)).train()
    before = model[1].running_mean.clone()
    counts = Reference(model, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(9), seed=0)
    assert counts.votes.sum() == 45
    assert torch.equal(model[1].running_mean, before)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_and_frozen_models_vote_like_the_original() -> None:
    model = _model().eval()
    scripted = torch.jit.script(model)
    counts = [
        Reference(m, SCHEME, NullChannels(), CPU).count(_inputs(), range(5), range(40), seed=0).votes
        for m in (model, scripted, torch.jit.freeze(scripted))
    ]
    assert (counts[0] == counts[1]).all()
    assert (counts[0] == counts[2]).all()


@pytest.mark.parametrize(
    "examples",
    [
        [1 << 32, 0, 1, 2, 3],
        [-1, 0, 1, 2, 3],
        [0.5, 1, 2, 3, 4],
        [True, False, True, True, False],
        [1 << 63, 0, 1, 2, 3],
    ],
)
def test_examples_that_cannot_be_numbers_of_masks_are_refused(examples: Any) -> None:
    with pytest.raises(InputError, match="examples must be"):
        Reference(_model(), SCHEME, NullChannels(), CPU).count(_inputs(), examples, range(9), seed=0)


def test_mixed_precision_reaches_the_model() -> None:
    seen = []
    model = _model()
    model[1].register_forward_hook(lambda _module, _inputs, output: seen.append(output.dtype))
    reference = Reference(model, SCHEME, NullChannels(), CPU, precision="bf16")
    counts = reference.count(_inputs(), range(5), range(20), seed=0)
    assert set(seen) == {torch.bfloat16}
    assert counts.votes.sum() == 100


@pytest.mark.parametrize(
    ("free", "per_row", "rows"), [(1 << 30, 1 << 20, 32), (1 << 20, 1 << 20, 1), (1 << 40, 1, 1 << 16)]
)
def test_the_chunk_comes_from_the_memory_that_is_there(
    monkeypatch: pytest.MonkeyPatch, free: int, per_row: int, rows: int
) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _device: free)
    assert memory.chunk_rows(per_row, CPU) == rows


def test_free_memory_is_a_sensible_number() -> None:
    assert 1 << 20 < memory.free_bytes(CPU) < 1 << 50


def test_activations_are_counted_and_the_hooks_removed() -> None:
    model = _model()
    with memory.counting_outputs(model) as seen:
        model(torch.rand(2, 2, 3, 4))
        assert seen() >= 2 * (24 + 16 + 16 + 16 + 4) * 4
    assert all(not module._forward_hooks for module in model.modules())
