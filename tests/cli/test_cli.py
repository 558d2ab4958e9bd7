"""The command line, as a person types it: exit codes, what is printed, and one clear line for each mistake."""

from __future__ import annotations

import json
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparsecert.cli import cli
from sparsecert.modelfile import shipped_models
from sparsecert.procedures.sequential import MOST_SAMPLES, Sequential
from sparsecert.records import read
from tests.commands import command, sparsecert, sparsecert_process


@pytest.fixture(scope="module")
def certified(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a small run, made by the command line."""
    out = tmp_path_factory.mktemp("cli") / "certify.jsonl"
    done = sparsecert("certify", trained, "--data", "digits", "--limit", 30, "--n0", 50, "--n", 500, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "median certified robustness" in done.stdout
    assert f"wrote {out}" in done.stdout
    return out


VERBS = [
    "train",
    "predict",
    "certify",
    "attack",
    "report",
    "demo",
    "serve",
    "data",
    "data get",
    "data list",
    "data check",
    "info",
    "records",
    "records merge",
]
COMMANDS = [[], *(verb.split() for verb in VERBS)]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_text_has_an_example(command: list[str]) -> None:
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    assert "  sparsecert " in result.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_help_text_fits_a_terminal_of_80_columns(command: list[str]) -> None:
    lines = CliRunner().invoke(cli, [*command, "--help"], terminal_width=80).output.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    listed = lines[lines.index("Commands:") :] if "Commands:" in lines else []
    assert not any(line.endswith("...") for line in listed)


def test_train_predict_certify_report(tmp_path: Path) -> None:
    """The README's path, in small, by real processes."""
    run = tmp_path / "a run"
    trained = sparsecert_process("train", "--data", "digits", "--keep", 20, "--epochs", 1, "--out", run)
    assert trained.returncode == 0, trained.stderr
    following = shlex.split(trained.stdout.splitlines()[-1])
    assert following == [
        "next:",
        "sparsecert",
        "certify",
        str(run),
        "--data",
        "digits",
        "--out",
        f"{run}/certify.jsonl",
    ]
    for verb in ("predict", "certify"):
        done = sparsecert_process(
            verb, run, "--data", "digits", "--limit", 10, "--n", 200, "--out", run / f"{verb}.jsonl"
        )
        assert done.returncode == 0, done.stderr
        assert len(read(run / f"{verb}.jsonl").lines) == 10
    report = sparsecert_process(
        "report", run / "certify.jsonl", "--predictions", run / "predict.jsonl", "--format", "json"
    )
    found = json.loads(report.stdout)
    assert found["keep"] == 20
    assert found["inputs"] == 10
    assert found["classified_from"] == str(run / "predict.jsonl")
    assert 0 <= found["accuracy"] <= 1


def test_records_go_beside_the_model_or_into_a_folder_of_its_name(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    settings = {"predict": [], "certify": ["--n0", 20]}
    for model, data, verb, out in (
        ("run", "digits", "predict", run / "predict.jsonl"),
        ("run/model.safetensors", "digits", "certify", run / "certify.jsonl"),
        ("mnist-k45", "mnist-sample", "certify", tmp_path / "runs" / "mnist-k45-mnist-sample-certify.jsonl"),
    ):
        more = ["--limit", 2, "--n", 20, "--device", "cpu", *settings[verb]]
        done = sparsecert(verb, model, "--data", data, *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(read(out).lines) == 2
    assert read(out).header.environment["model"] == "mnist-k45"


def test_weights_can_be_stored_in_half_precision(tmp_path: Path) -> None:
    done = sparsecert("train", "--data", "digits", "--epochs", 1, "--half", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(sparsecert("info", tmp_path).stdout)["half"] is True


def test_shards_are_merged(trained: Path, certified: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "model.safetensors").write_bytes((trained / "model.safetensors").read_bytes())
    for index in (1, 2):
        settings = ["--limit", 30, "--n0", 50, "--n", 500, "--shard", f"{index}/2"]
        done = sparsecert("certify", "run", "--data", "digits", *settings, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"wrote run/certify-{index}-of-2.jsonl" in done.stdout
    shards = [run / f"certify-{index}-of-2.jsonl" for index in (1, 2)]
    done = sparsecert("records", "merge", *shards, "--out", run / "certify.jsonl")
    assert done.stdout == f"wrote {run}/certify.jsonl: 30 inputs from 2 shards\n", done.stderr
    merged, whole = read(run / "certify.jsonl"), read(certified)
    assert merged.header.run == whole.header.run
    assert [line.votes for line in merged.lines] == [line.votes for line in whole.lines]
    assert "30" in sparsecert("report", run / "certify.jsonl").stdout


def test_a_random_subset_is_certified_and_reported(trained: Path, tmp_path: Path) -> None:
    from sparsecert import datasets

    settings = ["--data", "digits", "--limit", 5, "--random", "--seed", 4, "--n", 50]
    for verb in ("predict", "certify"):
        done = sparsecert(verb, trained, *settings, "--out", tmp_path / f"{verb}.jsonl")
        assert done.returncode == 0, done.stderr
        assert "chosen at random" in done.stdout
        chosen = [line.example for line in read(tmp_path / f"{verb}.jsonl").lines]
        assert chosen == datasets.load("digits").random_indices(5, 4).tolist()
    report = sparsecert("report", tmp_path / "certify.jsonl", "--format", "json")
    assert json.loads(report.stdout)["chosen"] == "random"


@pytest.mark.check
def test_ray_that_is_not_there_is_one_line(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'sparsecert[ray]'")
    certify = ["certify", trained, "--data", "digits", "--out", tmp_path / "c.jsonl"]
    for address, reason in (("127.0.0.1:1", "cannot be reached"), ("nonsense", "cannot be used")):
        done = sparsecert_process(*certify, "--ray", address)
        assert done.returncode == 2
        assert done.stderr.startswith(f"Error: ray {address!r} {reason}: ")
        assert done.stderr.count("\n") == 1
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex", "csv", "json"])
def test_report_formats(certified: Path, form: str) -> None:
    done = sparsecert("report", certified, "--format", form)
    assert done.returncode == 0, done.stderr
    assert "two-sided" in done.stdout
    assert "0.05" in done.stdout


def test_report_certifies_again_without_the_model(certified: Path) -> None:
    two, one, strict = (
        json.loads(sparsecert("report", certified, "--format", "json", *options).stdout)
        for options in ([], ["--bound", "one-sided"], ["--alpha", "1e-9"])
    )
    assert (two["bound"], one["bound"]) == ("two-sided", "one-sided")
    assert (one["certificate"], strict["alpha"]) == ("corollary-1", 1e-9)
    for other in (one, strict):
        assert sum(other["certified_accuracy"]) < sum(two["certified_accuracy"])


def test_certify_sequentially_and_report(trained: Path, tmp_path: Path) -> None:
    """Fewer samples where the radius is settled; the question is answered; reports need the votes alone."""
    found = {}
    for name, more in {"settled": [], "asked": ["--at-least", 1]}.items():
        out = tmp_path / f"{name}.jsonl"
        settings = ["--limit", 12, "--sampling", "sequential", "--n0", 50, "--max-samples", 600, *more, "--out", out]
        done = sparsecert("certify", trained, "--data", "digits", *settings)
        assert done.returncode == 0, done.stderr
        assert "sequential" in done.stdout
        assert f"wrote {out}" in done.stdout
        found[name] = json.loads(sparsecert("report", out, "--format", "json").stdout)
        assert 32 + 96 <= found[name]["mean_samples"] < 600
        assert found[name]["mean_samples"] == sum(line.copies for line in read(out).lines) / 12
        assert (found[name]["n0"], found[name]["n"], found[name]["sampling"]["max_samples"]) == (50, 550, 600)
    assert found["settled"]["answers"] is None
    assert sum(found["asked"]["answers"].values()) == 12
    strict = sparsecert("report", tmp_path / "settled.jsonl", "--format", "json", "--alpha", "1e-9")
    assert sum(json.loads(strict.stdout)["certified_accuracy"]) < sum(found["settled"]["certified_accuracy"])


def test_the_help_says_what_belongs_to_sequential_sampling() -> None:
    """Every option that is refused without it."""
    text = " ".join(CliRunner().invoke(cli, ["certify", "--help"]).output.split())
    for option in ("--at-least R", "--max-samples INTEGER", "--tolerance FLOAT"):
        assert f"{option} Sequential:" in text
    assert "--sampling [fixed|sequential]" in text
    for default in (*MOST_SAMPLES, Sequential().tolerance):
        assert str(default) in text


def test_report_draws_curves(certified: Path, tmp_path: Path) -> None:
    done = sparsecert("report", certified, certified, "--plot", tmp_path / "curve")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "curve.svg").read_text()


def test_report_labels_runs(certified: Path, tmp_path: Path) -> None:
    """A label may hold an equals sign; its file need not be named again."""
    copy = tmp_path / "a=b.jsonl"
    copy.write_bytes(certified.read_bytes())
    labels = "--label", f"k = 1={certified}", "--label", f"other={copy}"
    found = json.loads(sparsecert("report", certified, *labels, "--format", "json").stdout)
    assert [one["label"] for one in found] == ["k = 1", "other"]
    drawn = sparsecert("report", *labels, "--plot", tmp_path / "c.pdf", "--style", "paper")
    assert (tmp_path / "c.pdf").is_file()
    assert "k = 1" in drawn.stdout
    refused = sparsecert("report", "--label", "x=nowhere.jsonl")
    assert refused.returncode != 0
    assert "--label must be NAME=FILE" in refused.stderr


def test_report_writes_a_page(certified: Path, tmp_path: Path) -> None:
    """With the pictures of inputs, whose data set is built in; what is on the page was also printed."""
    done = sparsecert("report", certified, "--alpha", 0.01, "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert f"wrote {tmp_path / 'page.html'}" in done.stderr
    text = (tmp_path / "page.html").read_text()
    found = json.loads(sparsecert("report", certified, "--alpha", 0.01, "--format", "json").stdout)
    assert f"{100 * found['accuracy']:.2f}%" in text
    assert found["model_sha256"] in text
    assert text.count("<img ") >= 5 * 4


def test_info_shows_machine_model_and_scheme(trained: Path) -> None:
    assert "torch" in sparsecert("info").stdout
    header = json.loads(sparsecert("info", trained).stdout)
    assert header["architecture"]["name"] == "digits-cnn"
    assert header["scheme"]["keep"] == 16
    table = sparsecert("info", "--units", 784, "--keep", 45).stdout.splitlines()
    assert table[2].split() == ["0", "0.000000", "0.500000", "0.000000"]
    assert table[3].split()[:2] == ["1", f"{45 / 784:.6f}"]
    assert len(table) == 2 + 12


def test_data_list_names_what_is_missing(tmp_path: Path) -> None:
    done = sparsecert("data", "list", "--data-dir", tmp_path)
    assert "digits          1,297 + 500 images, 1 x 8 x 8, 10 classes" in done.stdout
    assert f"mnist was not found in {tmp_path}; run `sparsecert data get mnist --data-dir {tmp_path}`" in done.stdout


def test_data_get_of_what_ships_says_so(tmp_path: Path) -> None:
    done = sparsecert("data", "get", "digits", "--data-dir", tmp_path)
    assert done.returncode == 0
    assert "ship" in done.stdout


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An image folder with one bad file in train/ and none in val/."""
    import numpy as np
    from PIL import Image

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("train/only/a.png", "train/only/b.png", "val/only/c.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(tmp_path / name)
    (tmp_path / "train/only/b.png").write_bytes(b"")
    return tmp_path


def test_data_check_lists_bad_files_and_says_so_by_its_exit_code(photos: Path) -> None:
    done = sparsecert("data", "check", photos)
    assert done.returncode == 1
    bad, *counts = done.stdout.splitlines()
    assert bad.startswith(f"{photos}/train/only/b.png cannot be decoded as an image (")
    assert counts == ["train: 2 files, 1 bad", "test: 1 files, 0 bad"]
    done = sparsecert("data", "check", photos, "--split", "test", "--workers", 0)
    assert (done.returncode, done.stdout) == (0, "test: 1 files, 0 bad\n")


def test_bad_files_are_skipped_where_that_is_asked_for(photos: Path) -> None:
    """A run that then stops at another mistake: what is skipped is said before anything is computed."""
    command = ["train", "--data", photos, "--keep", 60_000, "--out", photos / "run"]
    skipping = sparsecert(*command, "--skip-bad")
    assert skipping.returncode == 2
    assert "skipped 1 of 2 images that cannot be decoded: only/b.png\n" in skipping.stderr
    assert "Error: keep must be" in skipping.stderr
    assert "skipped 1" not in sparsecert(*command).stderr


def test_what_lies_beside_the_images_is_said_once(photos: Path) -> None:
    for name in (".hidden", "notes.txt", "labels.csv"):
        (photos / "train/only" / name).write_text("")
    skipped = f"skipped 2 entries of {photos} train, such as only/labels.csv: images"
    done = sparsecert("train", "--data", photos, "--skip-bad", "--keep", 60_000, "--out", photos / "run")
    assert done.stderr.count("entries of") == done.stderr.count(skipped) == 1
    assert "skipped 1 of 2 images" in done.stderr
    done = sparsecert("data", "check", photos, "--workers", 0)
    assert done.stderr.count("entries of") == done.stderr.count(skipped) == 1
    assert "entries of" not in sparsecert("data", "check", photos, "--workers", 0, "--split", "test").stderr


@pytest.mark.parametrize(
    "command", [("certify", "--n0", 10, "--n", 50), ("predict", "--n", 50), ("attack", "--attack", "noise", "--n", 50)]
)
@pytest.mark.parametrize("more", [(), ("--random",)])
def test_a_limit_above_what_there_is_is_said(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[object, ...], more: tuple[str, ...]
) -> None:
    """Of a data set of three; the run is of all of them."""
    from sparsecert import datasets
    from sparsecert.datasets import ArrayImages

    whole = datasets.load("digits")
    three = replace(whole, images=ArrayImages(whole.images.batch([0, 1, 2])), labels=whole.labels[:3])
    monkeypatch.setattr(datasets, "load", lambda *_, **__: three)
    verb, *settings = command
    for limit, said in ((3, ""), (4, "--limit 4 exceeds digits test: using all 3 inputs\n")):
        arguments = [verb, trained, "--data", "digits", *settings, *more, "--device", "cpu"]
        out = tmp_path / f"{limit}.jsonl"
        done = CliRunner().invoke(cli, [*map(str, arguments), "--limit", str(limit), "--out", str(out)])
        assert done.exit_code == 0, done.exception
        assert [line for line in done.stderr.splitlines(keepends=True) if "--limit" in line] == ([said] if said else [])
        header, *lines = out.read_text().splitlines()
        assert json.loads(header)["run"]["data"]["inputs"] == len(lines) == 3


TRAIN = ["train", "--data", "digits", "--out", "{tmp}/x"]
OUT = ["--out", "{tmp}/c"]
CERTIFY = ["certify", "{trained}", "--data", "digits", "--limit", "2", "--n", "50", "--n0", "10"]
SEQUENTIAL = ["certify", "{trained}", "--data", "digits", "--limit", "2", "--sampling", "sequential", *OUT]
MISTAKES = {
    "keep 0": ([*TRAIN, "--keep", "0"], "keep must be"),
    "keep > units": ([*TRAIN, "--keep", "65"], "keep must be a whole number between 1 and units (64), got 65"),
    "epochs": ([*TRAIN, "--epochs", "0"], "epochs must be at least 1, got 0"),
    "recipe": ([*TRAIN, "--recipe", "x"], "recipe must be one of"),
    "keep of fixed masks": (
        [*TRAIN, "--recipe", "vote-mnist", "--keep", "5"],
        "--keep is for --scheme uniform; recipe vote-mnist has spread-160",
    ),
    "the recipe's scheme": ([*TRAIN, "--recipe", "vote-mnist"], "parts must be a whole number between 1 and 64, got"),
    "model fit": ([*TRAIN, "--model", "mnist-cnn"], "does not take ablated copies of shape (2, 8, 8)"),
    "seed too large": ([*TRAIN, "--seed", "18446744073709551616"], "seed must be a whole number between 0"),
    "model name": ([*TRAIN, "--model", "x"], "model must be one of"),
    "train workers": ([*TRAIN, "--workers", "2"], "--workers is for folders of image files, and digits is"),
    "train skip": ([*TRAIN, "--skip-bad"], "--skip-bad is for folders of image files, and digits is held in memory"),
    "certify skip": ([*CERTIFY, "--skip-bad", *OUT], "--skip-bad is for folders of image files"),
    "predict skip": (["predict", "{trained}", "--data", "mnist", "--skip-bad", *OUT], "--skip-bad is for folders"),
    "attack skip": (["attack", "{trained}", "--data", "cifar10", "--skip-bad", *OUT], "--skip-bad is for folders"),
    "alpha 0": ([*CERTIFY, "--alpha", "0", *OUT], "alpha must be between 0 and 1, both"),
    "alpha 1": ([*CERTIFY, "--alpha", "1", *OUT], "alpha must be between 0 and 1"),
    "alpha text": ([*CERTIFY, "--alpha", "five", *OUT], "'five' is not a valid float"),
    "n": ([*CERTIFY, "--n", "0", *OUT], "n must be a whole number between 1 and 2**40 - 1, got 0"),
    "n0": ([*CERTIFY, "--n0", "0", *OUT], "n0 must be a whole number between 1 and"),
    "at least": ([*CERTIFY, "--at-least", "2", *OUT], "is for sequential sampling; add --sampling sequential"),
    "at least 0": ([*CERTIFY, "--at-least", "0", *OUT], "--at-least is for sequential sampling; add"),
    "max samples": ([*CERTIFY, "--max-samples", "900", *OUT], "--max-samples is for sequential sampling; add"),
    "tolerance": ([*CERTIFY, "--tolerance", "0", *OUT], "--tolerance is for sequential sampling; add"),
    "sampling": ([*CERTIFY, "--sampling", "adaptive", *OUT], "'adaptive' is not one of 'fixed', 'sequential'"),
    "sequential n": ([*SEQUENTIAL, "--n", "50"], "with --sampling sequential use --max-samples"),
    "budget": ([*SEQUENTIAL, "--max-samples", "1000"], "max_samples must be above n0 (1000), which choose the class"),
    "budget of n0": ([*SEQUENTIAL, "--n0", "6000", "--at-least", "1"], "max_samples must be above n0 (6000)"),
    "tolerance below 0": ([*SEQUENTIAL, "--tolerance", "-1"], "tolerance must be 0 or more, in radius per 1,000"),
    "radius": ([*SEQUENTIAL, "--at-least", "3"], "at_least must be at most 2, the largest radius of Uniform("),
    "radius below 0": ([*SEQUENTIAL, "--at-least", "-1"], "at_least must be a whole number between 0 and"),
    "sequential alpha": ([*SEQUENTIAL, "--alpha", "1"], "alpha must be between 0 and 1, both excluded"),
    "sequential n0": ([*SEQUENTIAL, "--n0", "0"], "n0 must be a whole number between 1 and"),
    "sequential other run": (
        ["certify", "{trained}", "--data", "digits", "--limit", "30", "--n0", "50", "--max-samples", "550",
         "--sampling", "sequential", "--out", "{certified}"],
        "sampling is null there",
    ),
    "seed": ([*CERTIFY, "--seed", "-1", *OUT], "seed must be a whole number between 0"),
    "limit": ([*CERTIFY, "--limit", "0", *OUT], "limit must be at least 1"),
    "random": (["certify", "{trained}", "--data", "digits", "--random", *OUT], "--random needs --limit"),
    "random 0": ([*CERTIFY, "--random", "--limit", "0", *OUT], "limit must be a whole number between 1 and"),
    "rows": ([*CERTIFY, "--rows", "0", *OUT], "rows must be a whole number between 1"),
    "device": ([*CERTIFY, "--device", "quantum", *OUT], "device 'quantum' cannot be used here"),
    "device meta": ([*CERTIFY, "--device", "meta", *OUT], "it is not one of cpu, cuda, mps"),
    "gzip": ([*CERTIFY, "--out", "{tmp}/c.jsonl.gz"], "compress them afterwards"),
    "data": (["certify", "{trained}", "--data", "cats", *OUT], "data set must be one of cifar10, cifar10-sample"),
    "data missing": ([*CERTIFY, "--data", "mnist", "--data-dir", "{tmp}", *OUT], "sparsecert data get mnist"),
    "shape": (["certify", "{trained}", "--data", "{photos}", *OUT], "was trained on inputs of shape 1 x 8 x 8"),
    "no model": (["certify", "{tmp}/none", "--data", "digits", *OUT], "does not exist; train a model first"),
    "truncated": (["certify", "{truncated}", "--data", "digits", *OUT], "is not a whole model file"),
    "other run": ([*CERTIFY, "--limit", "30", "--n0", "50", "--n", "501", "--out", "{certified}"], "n is 500 there"),
    "not records": ([*CERTIFY, "--out", "{notes}"], "is not a records file"),
    "unwritable": ([*CERTIFY, "--out", "{notes}/c.jsonl"], "cannot be written"),
    "unwritable train": (["train", "--data", "digits", "--out", "{notes}/run"], "cannot be written"),
    "report none": (["report", "{tmp}/none.jsonl"], "cannot be read: No such file"),
    "report format": (["report", "{certified}", "--format", "xml"], "'xml' is not one of"),
    "report alpha": (["report", "{certified}", "--alpha", "2"], "alpha must be between 0 and 1"),
    "report plot": (["report", "{certified}", "--plot", "{tmp}/curve.gif"], "must end in one of .png, .svg, .pdf"),
    "report html": (["report", "{certified}", "--html", "{certified}"], "must end in .html; nothing was overwritten"),
    "report asked": (["report", "{certified}", "--top", "2", "--html", "{tmp}/p.html"], "--html does not go with"),
    "report data": (["report", "{certified}", "--data-dir", "{tmp}"], "--data-dir is where --html looks for"),
    "info half": (["info", "--units", "784"], "--units and --keep go together"),
    "info both": (["info", "{certified}", "--units", "9", "--keep", "3"], "a model has its own scheme; leave"),
    "info keep": (["info", "--units", "784", "--keep", "900"], "keep must be a whole number between 1 and units (784)"),
    "shard": ([*CERTIFY, "--shard", "3/2", *OUT], "shard must be I/N with 1 <= I <= N, got 3/2"),
    "shard text": ([*CERTIFY, "--shard", "first", *OUT], "shard must be I/N, for example 2/8"),
    "workers": ([*CERTIFY, "--workers", "2", *OUT], "--workers is for a cluster; add --ray auto"),
    "workers 0": ([*CERTIFY, "--ray", "auto", "--workers", "0", *OUT], "workers must be a whole number between 1"),
    "cpus": ([*CERTIFY, "--ray", "auto", "--cpus-per-worker", "0", *OUT], "cpus_per_worker must be above 0, got 0"),
    "gpus": ([*CERTIFY, "--gpus-per-worker", "1", *OUT], "--gpus-per-worker is for a cluster"),
    "merge whole": (["records", "merge", "{certified}", *OUT], "is a whole run, not a shard"),
    "merge over": (["records", "merge", "{certified}", "--out", "{notes}"], "exists and is not overwritten"),
    "no option": (["certify", "{trained}", *OUT], "Missing option '--data'"),
    "no command": (["certifi"], "No such command 'certifi'"),
    "check": (["data", "check", "digits"], "digits is not an image folder; its files are checked"),
    "check none": (["data", "check", "{tmp}/none"], "none is not a folder or an .npz file; a folder holds"),
    "check workers": (["data", "check", "{photos}", "--workers", "-1"], "workers must be a whole number between 0"),
    "download": (["data", "get", "imagenet", "--data-dir", "{tmp}"], "licence"),
}  # fmt: skip


@pytest.fixture(scope="module")
def places(trained: Path, certified: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    import numpy as np
    from PIL import Image

    folder = tmp_path_factory.mktemp("places")
    (folder / "notes").write_text("not records")
    (folder / "truncated.safetensors").write_bytes((trained / "model.safetensors").read_bytes()[:5000])
    for split in ("train", "val"):
        (folder / "photos" / split / "only").mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(folder / "photos" / split / "only" / "a.png")
    return {
        "trained": str(trained),
        "certified": str(certified),
        "notes": str(folder / "notes"),
        "truncated": str(folder / "truncated.safetensors"),
        "photos": str(folder / "photos"),
    }


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_is_one_clear_line_and_exit_code_2(
    name: str,
    places: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from sparsecert.cli import main

    arguments, message = MISTAKES[name]
    before = Path(places["certified"]).read_bytes()
    with pytest.raises(SystemExit) as end:
        main([argument.format(tmp=tmp_path, **places) for argument in arguments])
    captured = capsys.readouterr()
    assert end.value.code == 2
    (said,) = captured.err.splitlines()
    assert said.startswith("Error: ")
    assert message in said
    assert len(said) < 400
    assert captured.out == ""
    assert Path(places["certified"]).read_bytes() == before
    assert not any(tmp_path.iterdir())
    assert Path(places["notes"]).read_text() == "not records"


def test_nan_in_an_input_is_one_line_too(trained: Path) -> None:
    import torch

    import sparsecert as sc

    with pytest.raises(sc.InputError, match="input 1 holds NaN or infinity"):
        sc.Smoothed.load(trained).certify(torch.full((2, 1, 8, 8), 0.5).index_fill(0, torch.tensor([1]), float("nan")))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_report_to_a_full_disk_is_one_line(certified: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command("report", certified), stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "Error: [Errno 28] No space left on device"
    assert "Traceback" not in done.stderr


def test_a_real_process_shows_no_traceback(tmp_path: Path) -> None:
    done = sparsecert_process("certify", tmp_path / "none", "--data", "digits", "--out", tmp_path / "c.jsonl")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f"Error: {tmp_path}/none does not exist; train a model first, for example: sparsecert train --data digits, "
        f"or name one that ships with the package: {', '.join(shipped_models())}"
    ]
    assert sparsecert_process("nonsense").returncode == 2
    assert "Usage" in sparsecert_process().stdout
