"""Fixed sets of masks from training to reports, by the command line and in Python; records alone say the rest."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sparsecert import datasets, modelfile, records
from sparsecert.attacks import UniformNoise
from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.patches import PerturbedPatch
from sparsecert.certificates.plurality import top_choices
from sparsecert.encodings import Encoding, Grouped, NullChannels
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact, elect
from sparsecert.records import rankings
from sparsecert.records.merging import merge
from sparsecert.registry import RULES
from sparsecert.reports import FORMATS, median_certified_robustness, summarise, summarise_attack, write_curves
from sparsecert.runs import (
    Shard,
    SmoothedTarget,
    adversarial_images,
    attack_dataset,
    certify_dataset,
    predict_dataset,
)
from sparsecert.schemes import Bands, FixedMasks, Lattice, Partition, from_config
from sparsecert.smoothed import Smoothed
from tests.commands import exit_code
from tests.helpers import one_plurality

LIMIT, ROWS = 40, 64
SCHEMES = {
    "lattice": ["--scheme", "lattice", "--parts", "8"],
    "partition": ["--scheme", "partition", "--parts", "6", "--partitions", "2", "--scheme-seed", "3"],
    "bands": ["--scheme", "bands", "--size", "2", "--horizontal"],
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model of each scheme, trained on the digits by the command line, and its records by the default certificate."""
    found = {}
    for name, options in SCHEMES.items():
        folder = tmp_path_factory.mktemp(name)
        common = ("--data", "digits", "--device", "cpu")
        assert exit_code("train", *common, *options, "--epochs", 4, "--out", folder) == 0
        assert exit_code("certify", folder, *common, "--limit", LIMIT, "--rows", ROWS) == 0
        found[name] = folder
    return found


def _read(folder: Path) -> records.Records:
    return records.read(folder / "certify.jsonl")


def _ranks(found: records.Records) -> np.ndarray[Any, np.dtype[np.int16]]:
    return np.stack([rankings.from_text(line.rankings or "", found.header.run["classes"]) for line in found.lines])


@pytest.mark.parametrize("name", SCHEMES)
def test_records_are_what_smoothed_returns(folders: dict[str, Path], name: str) -> None:
    found, smoothed = _read(folders[name]), Smoothed.load(folders[name], rows=ROWS)
    run, scheme = found.header.run, smoothed.scheme
    assert isinstance(scheme, FixedMasks)
    assert run["scheme"] == scheme.config()
    rule = "run-off" if name == "bands" else "pairwise"
    assert (run["rule"], run["masks"], run["seconds"]) == (rule, len(scheme.table), 0.0)
    assert run["against"] == ("patches" if name == "bands" else "pixels")
    assert not {"n0", "n", "alpha", "seed", "bound"} & run.keys()
    data = datasets.load("digits", "test")
    examples = [line.example for line in found.lines]
    assert examples == data.spaced_indices(LIMIT).tolist()
    pixels = np.stack([data.images.batch([example])[0] for example in examples])
    import torch

    again = smoothed.certify(torch.from_numpy(pixels).float() / 255)
    assert np.array_equal(_ranks(found), again.ranks)
    assert [line.label for line in found.lines] == again.labels.tolist()
    assert [line.radius for line in found.lines] == again.radii.tolist()
    assert [line.votes.votes for line in found.lines] == [tuple(row) for row in again.counts.tolist()]
    assert {line.copies for line in found.lines} == {len(scheme.table)}


def test_the_header_names_the_scheme_and_no_keep(folders: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    settings = modelfile.read_header(folders["partition"])["facts"]["training"]["settings"]
    assert settings["recipe"]["scheme"] == "partition-6x2-seed3"
    assert "keep" not in settings["recipe"]
    capsys.readouterr()
    assert exit_code("info", folders["partition"]) == 0
    assert json.loads(capsys.readouterr().out)["masks"] == {"count": 12, "fewest_retained": 10, "most_retained": 11}


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("rule", RULES)
def test_reports_certify_the_rankings_by_any_rule(folders: dict[str, Path], name: str, rule: str) -> None:
    found = _read(folders[name])
    scheme = from_config(found.header.run["scheme"])
    assert isinstance(scheme, FixedMasks)
    labels, radii = (of_each.tolist() for of_each in elect(_ranks(found), rule, Exact(rule).adversary(scheme)))
    robustness = [
        radius if label == line.true else None for label, radius, line in zip(labels, radii, found.lines, strict=True)
    ]
    summary = summarise(found, rule=rule)
    right = sum(rho is not None for rho in robustness)
    assert (summary.bound, summary.certificate, summary.alpha, summary.seed) == (rule, "exact", None, None)
    assert summary.recertified == (rule != found.header.run["rule"])
    assert summary.accuracy == right / LIMIT
    assert (summary.certified, summary.wrong_certificates, summary.abstained) == (right, LIMIT - right, 0.0)
    assert summary.median == median_certified_robustness(robustness)
    assert summary.mean_samples == summary.masks == len(scheme.table)
    assert RULES[rule].winners(_ranks(found)).tolist() == labels


def test_a_lattice_is_certified_against_patches_too(folders: dict[str, Path]) -> None:
    found = _read(folders["lattice"])
    scheme = from_config(found.header.run["scheme"])
    assert isinstance(scheme, FixedMasks)
    labels, radii = elect(_ranks(found), found.header.run["rule"], PerturbedPatch(scheme.table, 8, 8))
    summary = summarise(found, against="patches")
    right = radii[labels == [line.true for line in found.lines]].tolist()
    assert summary.certified_at_zero == right.count(0)
    assert len(summary.certified_accuracy) == max(right, default=-1) + 1
    with pytest.raises(InputError, match="does not know which pixels make a patch"):
        summarise(_read(folders["partition"]), against="patches")


def test_every_format_says_exact_and_patch_side(folders: dict[str, Path], tmp_path: Path) -> None:
    bands, lattice = summarise(_read(folders["bands"])), summarise(_read(folders["lattice"]))
    for form in ("terminal", "markdown", "latex"):
        alone = " ".join(FORMATS[form]([bands]).split())
        assert "median certified patch side" in alone
        assert "exact" in alone
        both = " ".join(FORMATS[form]([lattice, summarise(_read(folders["lattice"]), rule="plurality")]).split())
        assert "passes per" in both
        assert "recomputed from the recorded rankings" in both
        assert "patch side" not in both
        assert "rho or patch side" in " ".join(FORMATS[form]([bands, lattice]).split())
    reported = json.loads(FORMATS["json"]([bands]))
    assert (reported["masks"], reported["against"], reported["alpha"], reported["bound"]) == (
        8,
        "patches",
        None,
        "run-off",
    )
    header, row = FORMATS["csv"]([lattice]).splitlines()
    assert dict(zip(header.split(","), row.split(","), strict=True))["masks"] == "8"
    assert all(path.stat().st_size for path in write_curves([bands, lattice], tmp_path / "curves"))


def test_the_command_line_shows_both_rules_beside_sampled_votes(
    folders: dict[str, Path], trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sampled, exact = tmp_path / "sampled.jsonl", folders["lattice"] / "certify.jsonl"
    data = datasets.load("digits", "test")
    certify_dataset(Smoothed.load(trained), trained, data, sampled, n0=20, n=100, limit=10)
    capsys.readouterr()
    rules = ["--rule", "pairwise", "--rule", "plurality"]
    assert exit_code("report", exact, sampled, *rules, "--alpha", 0.1, "--format", "json") == 0
    reported = json.loads(capsys.readouterr().out)
    assert [(one["bound"], one["alpha"]) for one in reported] == [
        ("pairwise", None),
        ("plurality", None),
        ("two-sided", 0.1),
    ]
    for arguments, message in (
        ((exact, "--alpha", 0.1), "--alpha is for votes of masks drawn at random"),
        ((exact, "--bound", "one-sided"), "--bound is for votes of masks drawn at random"),
        ((sampled, "--rule", "plurality"), "--rule is for votes of a fixed set of masks"),
        ((sampled, "--against", "pixels"), "--against is for votes of a fixed set of masks"),
    ):
        assert exit_code("report", *arguments) == 2
        assert message in capsys.readouterr().err


def test_the_vote_of_all_masks_is_predicted(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "predict.jsonl"
    settings = ["--limit", LIMIT, "--rows", ROWS, "--out", out]
    assert exit_code("predict", folders["bands"], "--data", "digits", *settings) == 0
    found, sure = records.read(out), _read(folders["bands"])
    assert (found.header.kind, found.header.run["rule"]) == ("predict", "run-off")
    assert [line.label for line in found.lines] == [line.label for line in sure.lines]
    assert [line.radius for line in found.lines] == [None] * LIMIT
    assert summarise(found).accuracy == summarise(sure).accuracy
    assert summarise(found).certified is None
    with pytest.raises(InputError, match="which holds predictions"):
        summarise(found, against="pixels")


@pytest.mark.parametrize("option", ["--n0", "--n", "--alpha", "--bound", "--sampling", "--seed", "--max-samples"])
def test_what_chance_needs_is_refused(
    folders: dict[str, Path], option: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    value = {"--bound": "one-sided", "--sampling": "sequential", "--alpha": "0.05", "--max-samples": "5000"}.get(
        option, "100"
    )
    given = [option, value, *(["--sampling", "sequential"] if option == "--max-samples" else [])]
    out = tmp_path / "certify.jsonl"
    assert exit_code("certify", folders["lattice"], "--data", "digits", *given, "--out", out) == 2
    assert "is for masks drawn at random; the 8 masks of this model are fixed" in capsys.readouterr().err
    assert not out.exists()


def test_what_fixed_masks_need_is_refused_of_others(
    trained: Path, folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "certify.jsonl"
    for given in (("--rule", "plurality"), ("--against", "pixels"), ("--seconds", "1")):
        assert exit_code("certify", trained, "--data", "digits", *given, "--out", out) == 2
        assert f"{given[0]} is for a fixed set of masks" in capsys.readouterr().err
    assert exit_code("certify", folders["bands"], "--data", "digits", "--seconds", "1", "--out", out) == 2
    assert "seconds is for perturbed pixels" in capsys.readouterr().err
    data = datasets.load("digits", "test")
    with pytest.raises(InputError, match=r"n are short for Fixed\(n0, n\); leave them out beside Exact"):
        certify_dataset(Smoothed.load(folders["bands"]), folders["bands"], data, out, n=100, procedure=Exact())
    with pytest.raises(InputError, match="draws its masks at random; an exact certificate needs a fixed set"):
        certify_dataset(Smoothed.load(trained), trained, data, out, procedure=Exact())
    with pytest.raises(InputError, match="leave them out beside Exact"):
        predict_dataset(Smoothed.load(folders["bands"]), folders["bands"], data, out, Exact(), n=100)
    assert not out.exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--scheme", "blocks"], "scheme blocks needs size"),
        (
            ["--scheme", "lattice", "--parts", "8", "--keep", "3"],
            "--keep is for --scheme all-subsets or --scheme uniform",
        ),
        (["--parts", "8"], "--parts is for --scheme lattice or --scheme partition or --scheme spread; add that"),
        (["--horizontal"], "--horizontal is for --scheme bands"),
        (["--scheme", "bands", "--size", "9"], "size must be a whole number between 1 and 8, got 9"),
        (["--scheme", "lattice", "--parts", "3", "--partitions", "99"], "lattice partitions into 3 parts"),
        (["--plain", "cnn", "--scheme", "lattice", "--parts", "3"], "--scheme is for training on ablated inputs"),
    ],
)
def test_training_refuses_what_does_not_fit(
    given: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("train", "--data", "digits", *given, "--epochs", 1, "--out", tmp_path / "run") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run" / "model.safetensors").exists()


def _certify(folder: Path, out: Path, **settings: Any) -> records.Records:
    data = datasets.load("digits", "test")
    certify_dataset(Smoothed.load(folder, rows=ROWS), folder, data, out, procedure=Exact(), limit=LIMIT, **settings)
    return records.read(out)


def _untimed(lines: Any) -> list[records.Record]:
    return [replace(line, seconds=0.0) for line in sorted(lines, key=lambda line: line.example)]


def test_a_run_that_was_cut_ends_with_the_same_records(folders: dict[str, Path], tmp_path: Path) -> None:
    whole, out = (folders["lattice"] / "certify.jsonl").read_bytes(), tmp_path / "certify.jsonl"
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]) + b'{"example": 3, "tr')
    assert _untimed(_certify(folders["lattice"], out).lines) == _untimed(_read(folders["lattice"]).lines)


def test_merged_shards_are_the_run(folders: dict[str, Path], tmp_path: Path) -> None:
    parts = [tmp_path / f"{index}.jsonl" for index in (1, 2)]
    for index, part in enumerate(parts, start=1):
        _certify(folders["lattice"], part, shard=Shard(index, 2))
    merged, whole = merge(parts, tmp_path / "merged.jsonl"), _read(folders["lattice"])
    assert merged.header.run == whole.header.run
    assert _untimed(merged.lines) == _untimed(whole.lines)


@pytest.mark.parametrize(
    "change",
    [
        {"rankings": "0123456789"},
        {"rankings": " ".join(["0123456789"] * 7 + ["0123456788"])},
        {"rankings": 5},
        {"label": None},
        {"label": 10},
        {"radius": -1},
        {"radius": None},
        {"radius": 1.5},
        {"true": 10},
    ],
    ids=str,
)
def test_a_damaged_line_is_refused(folders: dict[str, Path], tmp_path: Path, change: dict[str, Any]) -> None:
    header, first, *_ = (folders["lattice"] / "certify.jsonl").read_text().splitlines()
    path = tmp_path / "damaged.jsonl"
    path.write_text(f"{header}\n{json.dumps({**json.loads(first), **change})}\n")
    with pytest.raises(InputError, match="line 2 is damaged"):
        records.read(path)


def test_a_line_of_votes_among_rankings_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    header = (folders["lattice"] / "certify.jsonl").read_text().splitlines()[0]
    votes = {"example": 0, "true": 0, "votes": {"0": 8}, "invalid": [0], "label": 0, "seconds": 0.1}
    path = tmp_path / "mixed.jsonl"
    path.write_text(f"{header}\n{json.dumps(votes)}\n")
    with pytest.raises(InputError, match="rankings do not fit the run's certificate"):
        records.read(path)


def test_a_winner_that_the_rankings_do_not_elect_is_refused(folders: dict[str, Path], tmp_path: Path) -> None:
    header, first, *_ = (folders["lattice"] / "certify.jsonl").read_text().splitlines()
    line = json.loads(first)
    path = tmp_path / "other.jsonl"
    path.write_text(f"{header}\n{json.dumps({**line, 'label': (line['label'] + 1) % 10})}\n")
    with pytest.raises(InputError, match=r"its rankings elect \d, not \d"):
        summarise(records.read(path))


def test_copies_without_finite_scores_are_kept_and_reported(folders: dict[str, Path], tmp_path: Path) -> None:
    header, first, *_ = (folders["lattice"] / "certify.jsonl").read_text().splitlines()
    line = json.loads(first)
    ranked = line["rankings"].split(" ")
    line["rankings"] = " ".join(["-", *ranked[1:]])
    ranks = rankings.from_text(line["rankings"], 10)
    line["label"] = int(RULES[json.loads(header)["run"]["rule"]].winners(ranks[None])[0])
    path = tmp_path / "invalid.jsonl"
    path.write_text(f"{header}\n{json.dumps(line)}\n")
    summary = summarise(records.read(path))
    assert summary.invalid_votes == 1
    assert "1 ablated copies had non-finite scores" in FORMATS["markdown"]([summary])


@pytest.mark.parametrize("name", SCHEMES)
def test_a_radius_that_the_rankings_do_not_prove_is_refused(
    folders: dict[str, Path], tmp_path: Path, name: str
) -> None:
    header, first, *_ = (folders[name] / "certify.jsonl").read_text().splitlines()
    line, path = json.loads(first), tmp_path / "certify.jsonl"
    proved = line["radius"]
    for claimed in (proved + 1, 1_000_000):
        path.write_text(f"{header}\n{json.dumps({**line, 'radius': claimed})}\n")
        with pytest.raises(InputError, match=f"its rankings prove radius {proved}, not {claimed}"):
            summarise(records.read(path))


def test_what_linear_programs_added_is_proved_again(folders: dict[str, Path], tmp_path: Path) -> None:
    header, first, *_ = (folders["partition"] / "certify.jsonl").read_text().splitlines()
    facts, path, chance = json.loads(header), tmp_path / "certify.jsonl", np.random.default_rng(0)
    scheme = Partition(24, 12, rounds=5)
    facts["run"] |= {"scheme": scheme.config(), "masks": 60, "classes": 3, "rule": "plurality", "seconds": 10.0}
    for _ in range(100):
        scores = chance.normal(size=(60, 3))
        scores[:, 1] += chance.choice([1, 1.5, 2, 3])
        ranks = (-scores).argsort(axis=1).argsort(axis=1).astype(np.int16)
        labels = top_choices(ranks)
        plain, more = (one_plurality(labels, 3, PerturbedUnits(scheme.table, s)) for s in (0.0, 10.0))
        if more.radius > plain.radius:
            break
    assert more.radius > plain.radius
    found = {"rankings": rankings.to_text(ranks), "label": more.label, "true": more.label}

    def format_median(radius: int) -> int | None:
        line = {**json.loads(first), **found, "radius": radius}
        path.write_text(f"{json.dumps(facts)}\n{json.dumps(line)}\n")
        return summarise(records.read(path)).median

    assert format_median(more.radius) == more.radius
    with pytest.raises(InputError, match=f"not {more.radius + 1}"):
        format_median(more.radius + 1)
    facts["run"]["seconds"] = 0.0
    with pytest.raises(InputError, match=f"prove radius {plain.radius}, not {more.radius}"):
        format_median(more.radius)


def test_linear_programs_only_enlarge_and_are_reported(folders: dict[str, Path], tmp_path: Path) -> None:
    out, data = tmp_path / "certify.jsonl", datasets.load("digits", "test")
    exactly = Exact(seconds=0.02)
    certify_dataset(
        Smoothed.load(folders["partition"], rows=ROWS), folders["partition"], data, out, procedure=exactly, limit=4
    )
    slow = records.read(out)
    quick = {line.example: line.radius for line in _certify(folders["partition"], tmp_path / "quick.jsonl").lines}
    assert all((line.radius or 0) >= (quick.get(line.example) or 0) for line in slow.lines)
    assert slow.header.run["seconds"] == 0.02
    assert "linear programs of up to 0.02 s" in FORMATS["markdown"]([summarise(slow)])
    assert "linear programs" not in FORMATS["markdown"]([summarise(slow, rule="plurality")])


@pytest.fixture(scope="module")
def attacked(folders: dict[str, Path]) -> dict[str, Path]:
    """Attacks on the lattice and the bands by the command line, on images that are certified too."""
    common = ("--data", "digits", "--limit", LIMIT, "--rows", ROWS, "--device", "cpu", "--restarts", 1)
    for name, settings in (("lattice", ["--attack", "pointwise", "--rounds", 1]), ("bands", ["--attack", "noise"])):
        assert exit_code("attack", folders[name], *common, *settings) == 0
    return {
        "lattice": folders["lattice"] / "attack-pointwise.jsonl",
        "bands": folders["bands"] / "attack-noise.jsonl",
    }


@pytest.mark.parametrize("name", ["lattice", "bands"])
def test_an_attack_is_on_the_vote_of_all_masks(folders: dict[str, Path], attacked: dict[str, Path], name: str) -> None:
    """What was found changes that vote's winner, at the cost of few copies, and there is no chance in its facts."""
    found, smoothed = records.read_attack(attacked[name]), Smoothed.load(folders[name], rows=ROWS)
    run = found.header.run
    rule = {"lattice": "pairwise", "bands": "run-off"}[name]
    assert (run["rule"], run["masks"], run["scheme"]) == (rule, 8, smoothed.scheme.config())
    assert not {"n", "alpha", "error"} & run.keys()
    images = adversarial_images(found, datasets.load("digits", "test"))
    said = smoothed.certify(images, Exact()).labels.tolist()
    for line, label in zip(found.lines, said, strict=True):
        assert label == (line.true if line.distance is None else line.answer)
        assert (label == line.true) == (line.distance is None)
        assert 8 <= line.evaluations <= 8 * line.queries
    summary = summarise_attack(found)
    assert (summary.rule, summary.masks, summary.n, summary.alpha, summary.error) == (rule, 8, None, None, None)
    assert summary.abstentions == 0


def test_an_attack_goes_on_to_the_same_findings(
    folders: dict[str, Path], attacked: dict[str, Path], tmp_path: Path
) -> None:
    whole, out = attacked["lattice"].read_bytes(), tmp_path / "attack.jsonl"
    out.write_bytes(b"".join(whole.splitlines(keepends=True)[:30]))
    common = ("--data", "digits", "--limit", LIMIT, "--device", "cpu", "--attack", "pointwise", "--restarts", 1)
    common = (*common, "--rounds", 1)
    assert exit_code("attack", folders["lattice"], *common, "--rule", "pairwise", "--out", out) == 0
    first, again = records.read_attack(attacked["lattice"]), records.read_attack(out)
    assert [replace(line, seconds=0.0) for line in first.lines] == [replace(line, seconds=0.0) for line in again.lines]


def test_an_attack_is_checked_against_exact_certificates(
    folders: dict[str, Path], attacked: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = folders["lattice"] / "certify.jsonl", attacked["lattice"]
    capsys.readouterr()
    assert exit_code("report", *both, "--plot", tmp_path / "gap") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "pairwise of all 8 masks" in text
    assert "attacks that succeed within the certified radius: 0 of " in text
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "gap.svg").read_text()
    assert exit_code("report", *both, "--rule", "pairwise", "--rule", "plurality", "--format", "json") == 0
    reported = json.loads(capsys.readouterr().out)
    assert [one["bound"] for one in reported["certify"]] == ["pairwise", "plurality"]
    (gap,) = reported["gap"]  # with the vote that was attacked alone
    lines = _read(folders["lattice"]).lines
    assert gap["exact"] is True
    assert gap["images"] == gap["certified"] == LIMIT
    shares = [sum(one.label == one.true and (one.radius or 0) >= rho for one in lines) / LIMIT for rho in range(65)]
    assert gap["certified_accuracy"] == [share for share in shares if share]
    for rho, share in enumerate(gap["certified_accuracy"]):
        assert share <= (gap["accuracy_under_attack"][rho:] or gap["accuracy_under_attack"][-1:])[0]


def test_one_broken_exact_certificate_is_reported_loudly(
    folders: dict[str, Path], attacked: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attack records as if the answer to an image were another than the certified one."""
    found = records.read_attack(attacked["lattice"])
    sure = {line.example: line for line in _read(folders["lattice"]).lines}
    line = next(line for line in found.lines if line.example in sure)
    said = next(label for label in range(10) if label not in (line.true, sure[line.example].label))
    with records.Writer(tmp_path / "attack.jsonl", found.header) as writer:
        writer.append([replace(line, distance=0, answer=said, pixels=(), values=())])
    assert exit_code("report", folders["lattice"] / "certify.jsonl", tmp_path / "attack.jsonl") == 1
    reported = capsys.readouterr().err
    assert reported.startswith(f"NOT SOUND: {tmp_path}/attack.jsonl changes the answer to 1 of 1 certified inputs")
    assert "an exact certificate never fails" in reported


def test_attacks_that_say_nothing_of_a_certificate_are_refused(
    folders: dict[str, Path], attacked: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, data = folders["lattice"], datasets.load("digits", "test")
    sampled, by_chance = tmp_path / "certify.jsonl", tmp_path / "attack.jsonl"
    certify_dataset(Smoothed.load(folder), folder, data, sampled, n0=20, n=100, limit=LIMIT)
    target = SmoothedTarget(Smoothed.load(folder), folder, n=20)
    attack_dataset(target, UniformNoise(restarts=1), data, by_chance, limit=LIMIT)
    exact, patches = folder / "certify.jsonl", folders["bands"] / "certify.jsonl"
    capsys.readouterr()
    for arguments, message in (
        ((exact, by_chance), "attacks a vote of random masks: they cannot be compared"),
        (
            (sampled, attacked["lattice"]),
            "attacks the vote of a fixed set of masks: they cannot be compared",
        ),
        ((exact, attacked["lattice"], "--rule", "plurality"), "attacks the vote by pairwise: they cannot be compared"),
        ((patches, attacked["bands"]), "certified against patches, whose radius is the side of a square"),
        ((patches, attacked["lattice"]), "does not belong to"),
        ((exact, attacked["bands"]), "does not belong to"),
    ):
        assert exit_code("report", *arguments) == 2
        assert message in capsys.readouterr().err
    assert exit_code("report", patches, attacked["bands"], "--against", "pixels") == 0
    assert exit_code("report", sampled, exact, attacked["lattice"], by_chance) == 0
    assert capsys.readouterr().out.count("inputs of both") == 3


@pytest.mark.parametrize(
    "given", [["--samples", "20"], ["--n", "20"], ["--alpha", "0.1"], ["--error", "0"], ["--full"]]
)
def test_attacks_on_fixed_masks_refuse_what_chance_needs(
    given: list[str], folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "attack.jsonl"
    assert exit_code("attack", folders["lattice"], "--data", "digits", "--device", "cpu", *given, "--out", out) == 2
    reported = capsys.readouterr().err
    assert (
        "is for masks drawn at random; the 8 masks of this model are fixed, and all of them vote: leave it" in reported
    )
    assert not out.exists()


def test_attacks_on_other_models_refuse_a_rule(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "attack.jsonl"
    for model, message in (
        (trained, "rule is for a fixed set of masks; this model draws them at random"),
        ("nearest-neighbour", "rule is a setting of smoothed classifiers"),
    ):
        arguments = ("--data", "digits", "--device", "cpu", "--rule", "plurality", "--out", out)
        assert exit_code("attack", model, *arguments) == 2
        assert message in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(
    ("scheme", "encoding", "message"),
    [
        (Bands(16, 4, 1, rows=True), NullChannels(), "16 x 4 image .* form an image of 8 x 8"),
        (Lattice(4, 16, 8), NullChannels(), "4 x 16 image .* form an image of 8 x 8"),
        (Lattice(8, 8, 8), Grouped(NullChannels(), np.arange(64)[::-1].reshape(8, 8).T), "form no image"),
    ],
    ids=["bands", "lattice", "groups"],
)
def test_a_report_makes_no_patches_of_units_that_are_not_beside_each_other(
    scheme: FixedMasks, encoding: Encoding, message: str, tmp_path: Path
) -> None:
    """The run refuses them. Its records against pixels are sound, and must not become those of patches later."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(128, 10))
    g, model, data = Smoothed(net, scheme, encoding, classes=10), tmp_path / "m.safetensors", datasets.load("digits")
    g.save(model)
    with pytest.raises(InputError, match=message):
        certify_dataset(g, model, data, tmp_path / "patches.jsonl", procedure=Exact(against="patches"), limit=2)
    certify_dataset(g, model, data, tmp_path / "pixels.jsonl", procedure=Exact(against="pixels"), limit=2)
    found = records.read(tmp_path / "pixels.jsonl")
    assert summarise(found).against == "pixels"
    with pytest.raises(InputError, match=message):
        summarise(found, against="patches")


def test_the_image_of_the_masks_is_no_fact_of_its_own_where_it_is_that_of_the_inputs(folders: dict[str, Path]) -> None:
    assert all("sides" not in _read(folder).header.run for folder in folders.values())
