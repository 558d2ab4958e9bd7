"""Random values from end to end: trained, resumed, saved, loaded, predicted, certified, attacked and reported."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import sparsecert as sc
from sparsecert import datasets, records
from sparsecert.attacks import Pointwise, SmoothedDefender, SurrogateDefender
from sparsecert.bounds import Interval, corrected_alpha
from sparsecert.bounds.clopper_pearson import lower_bound
from sparsecert.certificates import CERTIFICATES, certify_anytime, lead, majority
from sparsecert.cli import cli
from sparsecert.datasets import Dataset
from sparsecert.errors import InputError
from sparsecert.procedures import Exact
from sparsecert.reports import summarise
from sparsecert.runs import certify_dataset
from sparsecert.schemes import ATTACK
from sparsecert.smoothed import Smoothed
from sparsecert.training import Stop, TrainingRun, train
from sparsecert.training.recipes import RECIPES
from tests.helpers import Digits

NOISE = "--scheme", "random-values"
QUICK = replace(RECIPES["digits"].shortened(2), masks="sample")


def _sparsecert(*arguments: object) -> Result:
    return CliRunner(env={"COLUMNS": "160"}).invoke(cli, list(map(str, arguments)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short run by the command line, with records of ten certificates."""
    out = tmp_path_factory.mktemp("random-values")
    done = _sparsecert(
        "train",
        "--data",
        "digits",
        "--scheme",
        "random-values",
        "--kappa",
        "0.6",
        "--values",
        17,
        "--epochs",
        2,
        "--out",
        out,
    )
    assert done.exit_code == 0, done.exception
    certify_dataset(Smoothed.load(out), out, datasets.load("digits"), out / "certify.jsonl", n0=30, n=300, limit=10)
    return out


@pytest.fixture(scope="module")
def g(run: Path) -> sc.Smoothed:
    return sc.Smoothed.load(run)


def test_the_command_line_trains_the_usual_network_on_one_channel(g: sc.Smoothed) -> None:
    assert g.scheme == sc.RandomValues(units=64, kappa=0.6, values=17)
    assert g.encoding.config() == {"kind": "replaced-values", "values": 17}
    settings = g.metadata["training"]["settings"]
    assert settings["scheme"] == g.scheme.config()
    assert (settings["recipe"]["name"], settings["recipe"]["masks"]) == ("digits", "sample")
    assert next(p for p in g.model.parameters()).shape[1] == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("masks", ["sample", "minibatch"])
def test_a_run_that_was_stopped_ends_in_the_same_weights(few: Dataset, tmp_path: Path, masks: str) -> None:
    scheme, encoding = sc.RandomValues(64, "0.5", 17), sc.ReplacedValues(17)
    recipe = replace(QUICK, masks=masks)

    def stop(done: int, steps: int, *, epoch: int, **metrics: float) -> None:
        if epoch == 1 and done * 2 >= steps:
            raise Stop

    arguments: dict[str, Any] = {"scheme": scheme, "encoding": encoding}
    whole = train(few, recipe, tmp_path / "whole", **arguments)
    with pytest.raises(Stop):
        train(few, recipe, tmp_path / "stopped", on_progress=stop, **arguments)
    assert train(few, recipe, tmp_path / "stopped", **arguments).read_bytes() == whole.read_bytes()
    with pytest.raises(InputError, match="scheme differs"):
        train(few, recipe, tmp_path / "whole", scheme=sc.RandomValues(64, "0.7", 17), encoding=encoding)


def test_training_refuses_an_encoding_that_means_something_else(few: Dataset) -> None:
    scheme = sc.RandomValues(64, "0.5", 17)
    run = TrainingRun(few, QUICK, scheme, sc.NullChannels(), 0, torch.device("cpu"))
    with pytest.raises(InputError, match="must be ReplacedValues"):
        run.check_fit()


def test_saved_and_loaded_it_votes_the_same(g: sc.Smoothed, digits: Digits, tmp_path: Path) -> None:
    g.save(tmp_path / "model.safetensors")
    again = sc.Smoothed.load(tmp_path)
    assert again.scheme == g.scheme
    one, other = (each.certify(digits[0], n0=20, n=100, seed=2) for each in (g, again))
    assert np.array_equal(one.counts, other.counts)
    assert [c.radius for c in one] == [c.radius for c in other]


def test_certificates_are_those_of_the_tight_theorem(g: sc.Smoothed, digits: Digits) -> None:
    for name, method in CERTIFICATES.items():
        found = g.certify(digits[0], sc.Fixed(30, 400, name), seed=1)
        for row, certificate in enumerate(found):
            assert certificate == method.certify(found.selection[row], found.estimation[row], g.scheme, 0.05)
            assert isinstance(certificate.interval, Interval)
            assert certificate.radius == method.theorem_for(g.scheme)[0](certificate.interval, g.scheme)


def test_sequential_sampling_certifies_by_total_variation(g: sc.Smoothed, digits: Digits) -> None:
    found = g.certify(digits[0][:5], procedure=sc.Sequential(max_samples=600, n0=100))
    for row, certificate in enumerate(found):
        votes = found.selection[row], found.estimation[row]
        assert certificate == certify_anytime(*votes, g.scheme, 0.05, "two-sided", 500)


def test_exact_certificates_are_refused(g: sc.Smoothed, digits: Digits) -> None:
    with pytest.raises(InputError, match="an exact certificate needs a fixed set"):
        g.certify(digits[0], Exact())


def test_prediction_and_certification_see_what_the_model_is_shown() -> None:
    """The votes of a model that looks at single units are binomial with kappa and beta."""

    def model(copies: torch.Tensor) -> torch.Tensor:
        levels = (copies.flatten(1)[:, 0] * 4).round().long()
        return torch.nn.functional.one_hot(levels, 5).float()

    classifier = sc.Smoothed(model, sc.RandomValues(units=3, kappa="0.6", values=5))
    votes = classifier.predict(torch.tensor([[0.25, 0.0, 1.0]]), n=40_000).counts[0]
    deviations = (votes - 40_000 * np.array([0.1, 0.6, 0.1, 0.1, 0.1])) / np.sqrt(40_000 * 0.25)
    assert np.abs(deviations).max() < 6


def test_the_whole_is_sound() -> None:
    """True probabilities from all masks, by way of the encoding: no change of certified size changes the answer."""
    scheme, generator = sc.RandomValues(units=3, kappa="0.8", values=3), torch.Generator().manual_seed(3)
    masks = torch.tensor(list(product(range(3), repeat=3)), dtype=torch.int32)
    chances = [prod(scheme.beta if entry else scheme.kappa for entry in mask) for mask in masks.tolist()]
    assert sum(chances) == 1
    inputs = torch.tensor(list(product((0.0, 0.5, 1.0), repeat=3)))
    proved = 0
    for number in range(5):
        weights = torch.randn(3, 3, generator=generator)
        weights = torch.eye(3) if number == 0 else weights
        true = []
        for x in inputs:
            labels = (sc.ReplacedValues(3)(x[None].expand(27, 3), masks)[:, 0] @ weights).argmax(1).tolist()
            own = [Fraction(0)] * 3
            for chance, label in zip(chances, labels, strict=True):
                own[label] += chance
            true.append(own)
        for x, own in zip(inputs, true, strict=True):
            label = max(range(3), key=own.__getitem__)
            radius = lead(Interval(label, own[label], max(own[:label] + own[label + 1 :])), scheme)
            for other, there in zip(inputs, true, strict=True):
                if radius is not None and int((x != other).sum()) <= radius:
                    assert there[label] > max(there[:label] + there[label + 1 :])
                    proved += not torch.equal(x, other)
    assert proved


def test_records_are_reported_by_their_own_theorem(run: Path, g: sc.Smoothed) -> None:
    found = records.read(run / "certify.jsonl")
    assert found.header.run["certificate"] == "random-values-lead"
    for bound, name in (("two-sided", "random-values-lead"), ("one-sided", "random-values-majority")):
        summary = summarise(found, bound=bound)
        assert (summary.bound, summary.certificate) == (bound, name)
        assert summary.scheme == {"kind": "random-values", "units": 64, "kappa": 0.6, "values": 17}
    for line in found.lines:
        assert line.selection is not None
        assert line.radius == CERTIFICATES["two-sided"].certify(line.selection, line.votes, g.scheme, 0.05).radius
    done = _sparsecert("report", run / "certify.jsonl")
    assert done.exit_code == 0, done.exception
    assert "random-values, 64 units, 0.6 kappa, 17 values" in done.stdout


def test_votes_by_pairs_go_all_the_way(run: Path, g: sc.Smoothed, tmp_path: Path) -> None:
    outs = {verb: tmp_path / f"{verb}.jsonl" for verb in ("certify", "sequential", "predict")}
    common = run, "--data", "digits", "--limit", 6, "--bound", "pairwise", "--device", "cpu", "--out"
    for verb, more in (
        ("certify", ("--n0", 30, "--n", 300)),
        ("sequential", ("--n0", 30, "--sampling", "sequential", "--max-samples", 500)),
        ("predict", ("--n", 300)),
    ):
        done = _sparsecert("predict" if verb == "predict" else "certify", *common, outs[verb], *more)
        assert done.exit_code == 0, done.exception
    found, stopped, predicted = (records.read(out) for out in outs.values())
    names = found.header.run["certificate"], stopped.header.run["certificate"], predicted.header.run["rule"]
    assert names == ("random-values-pairwise", "pairwise", "pairwise")
    for line in found.lines:
        assert line.selection is not None
        assert line.votes.above is not None
        p_lower = lower_bound(min(line.votes.above), 300, corrected_alpha(0.05, g.scheme, 300))
        assert (line.p_lower, line.radius) == (p_lower, majority(Interval(0, p_lower, 1 - p_lower), g.scheme))
    for line in stopped.lines:
        assert line.selection is not None
        assert line.radius == certify_anytime(line.selection, line.votes, g.scheme, 0.05, "pairwise", 470).radius
    assert any(line.radius is not None for line in found.lines)
    summary = summarise(found, predictions=predicted)
    assert (summary.certificate, summary.rule) == ("random-values-pairwise", "pairwise")
    assert summarise(found, bound="one-sided").certificate == "random-values-majority"
    assert "pairwise (random-values-pairwise)" in _sparsecert("report", outs["certify"]).stdout


def test_common_masks_answer_as_all_copies_do(g: sc.Smoothed, digits: Digits) -> None:
    """Any change may show in any copy, so none is taken for known after one."""
    defender, image = SurrogateDefender(g, n=200, seed=5, error=0.0, tie=False), digits[0][:1].clone()
    for value in (0.0, 1.0, 0.5):
        image[0, 0, 3, 3] = value
        said = defender.answers(image, torch.tensor([0]))
        masks = g.scheme.masks(5, [0], range(ATTACK, ATTACK + 200))[0]
        with torch.no_grad():
            labels = g.model(g.encoding(image.expand(200, 1, 8, 8), masks)).argmax(1)
        votes = torch.bincount(labels, minlength=10).numpy()
        assert np.abs(said.scores[0].numpy() * 200 - votes).sum() <= 2  # a forward pass of another size may round
        assert said.evaluations.tolist() == [200]
        defender.accept(torch.tensor([0]))


def test_attacks_find_what_they_say(g: sc.Smoothed, digits: Digits) -> None:
    images, labels = digits[0][:3], digits[1][:3]
    outcome = Pointwise(restarts=1, rounds=1)(
        SurrogateDefender(g, n=60), images, labels, final=SmoothedDefender(g, n=60)
    )
    changed = (outcome.adversarial != images).flatten(1).sum(dim=1)
    assert (changed[outcome.succeeded] == outcome.distances[outcome.succeeded]).all()
    followed = images.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(SmoothedDefender(g, copies=8).scores(followed)[:, 0].sum(), followed)
    assert slopes.abs().sum() > 0


def test_a_colour_image_has_a_unit_for_each_channel() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
    classifier = sc.Smoothed(model, sc.RandomValues(48, "0.1"))
    said = SurrogateDefender(classifier, n=50, seed=1).answers(torch.rand(2, 3, 4, 4), torch.tensor([0, 1]))
    assert said.evaluations.tolist() == [50, 50]
    with pytest.raises(InputError, match="have 48 units each, the scheme has units=16"):
        sc.Smoothed(model, sc.RandomValues(16, "0.1")).predict(torch.rand(2, 3, 4, 4))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*NOISE, "--kappa", "0.1", "--keep", 5), "--keep is for --scheme all-subsets or --scheme uniform"),
        ((*NOISE, "--kappa", "0.1", "--encoding", "mean-fill"), "must be ReplacedValues(values=256), got MeanFill"),
        (("--scheme", "lattice", "--parts", 8, "--kappa", "0.1"), "--kappa is for --scheme random-values; add that"),
        ((*NOISE, "--kappa", "0.1", "--unit", "2x2"), "--unit is for ablation"),
        (("--values", 17), "--values is for --scheme random-values"),
        ((*NOISE, "--values", 17), "scheme random-values needs kappa (--kappa)"),
        ((*NOISE, "--kappa", "0.01", "--values", 17), "kappa must be above 1 / 17"),
        ((*NOISE, "--kappa", "0.1", "--plain", "cnn"), "--scheme is for training on ablated inputs"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, arguments: tuple[object, ...], message: str
) -> None:
    done = _sparsecert("train", "--data", "digits", "--out", tmp_path / "run", *arguments)
    assert done.exit_code
    assert message in str(done.exception)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("kappa", ["1e999999999", "1e-999999999", "0." + "1" * 10_000, "1/1" + "0" * 10_000])
def test_every_command_refuses_at_once_a_kappa_that_no_memory_holds(tmp_path: Path, kappa: str) -> None:
    out = "--out", tmp_path / "run"
    for command in (
        ("train", "--data", "digits", *NOISE, "--kappa", kappa, *out),
        ("info", "--units", 64, "--kappa", kappa),
        ("info", "--mutual-information", "--kappa", kappa),
    ):
        done = _sparsecert(*command)
        assert isinstance(done.exception, InputError)
        assert re.search(r"kappa must be a number above 0 and at most 1.*, got \S{11,67}$", str(done.exception))
        assert not (tmp_path / "run").exists()


def test_info_prints_the_figures_of_the_discussion() -> None:
    text = _sparsecert("info", "--mutual-information").stdout
    for figure in ("p > 0.596", "150,528 units of 256 values, kappa = 0.1", "14,521", "116,168", "50,590.4"):
        assert figure in text
    text = _sparsecert("info", "--mutual-information", "--units", 784, "--keep", 45).stdout
    assert "ablation needs p > 0.557 at k = 45" in text
    assert "ablation 360, random values 263.5" in text


def test_info_prints_what_each_radius_needs() -> None:
    lines = _sparsecert("info", "--units", 784, "--kappa", 0.1).stdout.splitlines()
    assert lines[3].split() == ["1", "0.096471", "0.596471"]
    for arguments, message in (
        (("--kappa", 0.1), "go together"),
        (("--units", 784, "--keep", 5, "--kappa", 0.1), "give one, or add --mutual-information"),
        (("--units", 784, "--keep", 5, "--values", 17), "--values is for random values"),
        (("mnist-k45", "--mutual-information"), "leave out the model"),
        (("--mutual-information", "--units", 2), "give one with --keep"),
    ):
        assert message in str(_sparsecert("info", *arguments).exception)
