"""Table 2 and the figures of adversarial images, in small: made once, printed again, checked against certificates."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from sparsecert import datasets, modelfile, records
from sparsecert.attacks import pointwise
from sparsecert.errors import InputError
from sparsecert.plain import NEAREST_NEIGHBOUR, PLAIN_RECIPES, NearestNeighbour, load
from sparsecert.records import AttackRecord, AttackRecords, Writer, read_attack
from sparsecert.reports import summarise, summarise_attack
from sparsecert.reports.attack_tables import format_magnitude
from sparsecert.runs import adversarial_images, certify_dataset, load_batch
from sparsecert.smoothed import Smoothed
from studies.levine_feizi_2020 import Study
from studies.levine_feizi_2020.attacked import BY_GRADIENTS, AttackStudy, images_at_once
from studies.levine_feizi_2020.command import command
from studies.levine_feizi_2020.figure_3 import first_of_each_class, fooled, the_next
from studies.levine_feizi_2020.published import ATTACKS, names, published, published_attacks
from studies.levine_feizi_2020.table_2 import check_medians, table_2

STAND_INS = "ignore:.*(these are not the images of|the model was trained on)"
pytestmark = [pytest.mark.check, pytest.mark.filterwarnings(STAND_INS)]

LIMIT, RESTARTS, N = 6, 1, 60  # of classes 7, 3, 3, 3, 5, 8
SMALL = ["--limit", LIMIT, "--restarts", RESTARTS, "--n", N, "--group", 4]
MODELS = ["cnn", "binarized", "nearest-neighbour", "robust", "k45"]
ALL_MODELS = [*MODELS[:4], "abs", "abs-binarized", "k45"]
MEASURED = [0, 1, 2, 3, 6]  # the published rows of a kind that is measured here


@pytest.fixture(scope="module", autouse=True)
def _quick() -> Iterator[None]:
    """Recipes that learn the sample in a few steps, and noise that is looked for less long."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pointwise, "LEVELS", pointwise.FEW_LEVELS)
        for kind, recipe in PLAIN_RECIPES["mnist"].items():
            steps = {"ascent_steps": 2, "ascent_step": 0.1} if recipe.adversarial else {}
            patched.setitem(PLAIN_RECIPES["mnist"], kind, replace(recipe, epochs=4, batch=25, **steps))
        yield


def _invoke(*arguments: object) -> Result:
    options = [*map(str, arguments), "--device", "cpu"]
    return CliRunner(env={"COLUMNS": "150"}).invoke(command, options)


def _run(*arguments: object) -> str:
    done = _invoke(*arguments)
    assert done.exit_code == 0, (done.exception, done.stderr)
    return str(done.stdout)


def _tables(text: str) -> list[dict[str, Any]]:
    decoder, values, place = json.JSONDecoder(), [], 0
    while text[place:].strip():
        value, place = decoder.raw_decode(text, place + len(text[place:]) - len(text[place:].lstrip()))
        values.append(value)
    return values


def _found(out: Path, model: str, attack: str = "pointwise") -> AttackRecords:
    return read_attack(out / "mnist" / "attacks" / f"{model}-{attack}-{LIMIT}.jsonl")


@pytest.fixture(scope="module")
def made(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A study with certificates of the shipped model, attacked by the command line, and the table that it printed."""
    out = tmp_path_factory.mktemp("study")
    smoothed, path = Smoothed.load("mnist-k45", device="cpu"), out / "mnist" / "k45" / "certify.jsonl"
    certify_dataset(smoothed, "mnist-k45", datasets.load("mnist", "test", data), path, n0=20, n=200, limit=LIMIT)
    (table,) = _tables(_run("table-2", *SMALL, "--out", out, "--data-dir", data, "--format", "json"))
    return out, table


def test_measured_stands_beside_published(made: tuple[Path, dict[str, Any]]) -> None:
    out, table = made
    known, rows = published_attacks("table-2"), table["rows"]
    for row, printed in zip(rows, known.rows, strict=True):
        assert row["model"] == printed.printed
        assert row["accuracy published"] == f"{printed.accuracy:.1f}%"
        assert row["median published"] == f"{printed.median:g}"
    for unmeasured in rows[4:6]:
        assert [text for name, text in unmeasured.items() if name.endswith(("measured", "image"))] == ["-"] * 4
    for place, model in zip(MEASURED, MODELS, strict=True):
        summary = summarise_attack(_found(out, model))
        assert summary.inputs == LIMIT
        assert rows[place]["median measured"] == format_magnitude(summary.median)
        assert rows[place]["accuracy on the attacked"] == f"{100 * summary.clean_accuracy:.2f}%"
        assert rows[place]["queries an image"] == f"{summary.mean_queries:,.0f}"
        assert rows[place]["base evaluations an image"] == f"{summary.mean_evaluations:,.0f}"
        assert summary.attack == {"name": "pointwise", "restarts": RESTARTS, "rounds": 0}
    ours = summarise_attack(_found(out, "k45"))
    assert (ours.n, ours.alpha, ours.error) == (N, 0.05, 0.05)
    assert ours.model_sha256 == modelfile.fingerprint("mnist-k45")
    assert ours.abstained is not None
    assert rows[6]["by abstention"] == f"{100 * ours.abstained:.2f}%"
    assert {row["by abstention"] for row in rows[:6]} == {"-"}


def test_accuracy_is_of_all_test_images(made: tuple[Path, dict[str, Any]], data: Path) -> None:
    """Of networks as their training tells, of the nearest neighbour as it answers, of ours by the study's votes."""
    out, table = made
    measured = [table["rows"][place]["accuracy measured"] for place in MEASURED]
    for kind, text in (("cnn", measured[0]), ("binarized", measured[1]), ("robust", measured[3])):
        test = load(out / "mnist" / "plain" / kind)[1]["test"]
        assert test["images"] == 100
        assert text == f"{100 * test['accuracy']:.2f}%"
    test = datasets.load("mnist", "test", data)
    labels = NearestNeighbour.from_dataset(datasets.load("mnist", "train", data))(
        load_batch(test, list(range(100)))
    ).argmax(dim=1)
    assert measured[2] == f"{100 * float((labels.numpy() == test.labels).mean()):.2f}%" == "100.00%"
    certified = summarise(records.read(out / "mnist" / "k45" / "certify.jsonl"))
    assert measured[4] == f"{100 * certified.accuracy:.2f}%"
    assert f"Our model (k = 45) {LIMIT}" in table["notes"][0]
    assert "CNN 100" in table["notes"][0]


def test_a_note_tells_the_accuracy_within_12_pixels(made: tuple[Path, dict[str, Any]]) -> None:
    (note,) = (note for note in made[1]["notes"] if note.startswith("accuracy within 12 changed pixels"))
    wanted = ("cnn", "CNN", "published 19%"), ("k45", "Our model (k = 45)", "not published")
    for model, printed, published_share in wanted:
        far = [line.distance is None or line.distance > 12 for line in _found(made[0], model).lines]
        assert f"{printed} {100 * np.mean(far):.2f}% ({published_share})" in note


def test_the_notes_say_how(made: tuple[Path, dict[str, Any]]) -> None:
    notes = " ".join(made[1]["notes"])
    for words in (
        f"pointwise restarts={RESTARTS} rounds=0",
        f"{LIMIT} of the 100 test images, evenly spaced",
        f"n = {N}, alpha = 0.05, common masks (error 0.05)",
        "seed = 0",
        "cpu",
        "cnn 4 epochs",
        "fresh masks confirm",
        "bar: our median of",
        "AAAI 2020",
        "attacks that succeed within the certified radius, pointwise: 0 of ",
    ):
        assert words in notes
    for suffix in ("png", "svg"):
        assert (made[0] / "figures" / f"table-2-gap.{suffix}").is_file()


def test_a_note_counts_the_images_for_which_nothing_was_found(
    made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path
) -> None:
    """All but the first two of the nearest neighbour's, by hand; where something was found of all, there is none."""
    shutil.copytree(made[0], tmp_path / "study")
    for model in MODELS:
        path = tmp_path / "study" / "mnist" / "attacks" / f"{model}-pointwise-{LIMIT}.jsonl"
        header, *lines = (json.loads(line) for line in path.read_text().splitlines())
        for line in lines:
            wrong = None if model == "k45" else (line["true"] + 1) % 10  # abstentions break no certificate
            line.update(distance=0, said=wrong, pixels=[], values=[])
        for line in lines[2:] if model == "nearest-neighbour" else []:
            line.update(distance=None, said=line["true"])
        path.write_text("".join(f"{json.dumps(line)}\n" for line in (header, *lines)))
    again = ["table-2", *SMALL, "--out", tmp_path / "study", "--data-dir", data, "--format", "json"]
    (table,) = _tables(_run(*again))
    (note,) = (note for note in table["notes"] if "for which nothing was found" in note)
    assert note.endswith("infinite in the median: Nearest Neighbor 4 (true class 3, 5, 8; median of the others 0)")
    assert table["rows"][2]["median measured"] == "infinite"


def _without_models(out: Path, to: Path) -> Path:
    """A copy of what would be kept of a study: records, compressed, and what is known of plain classifiers."""
    for path in [*out.rglob("*.jsonl"), *out.rglob("plain.json")]:
        target = to / path.relative_to(out)
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            shutil.copy(path, target)
        else:
            target.with_name(path.name + ".xz").write_bytes(lzma.compress(path.read_bytes()))
    return to


def test_it_is_printed_again_without_models_and_data(made: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    out, table = made
    kept = _without_models(out, tmp_path / "kept")
    arguments = ["--out", kept, "--data-dir", tmp_path / "nowhere"]
    (again,) = _tables(_run("table-2", *SMALL, *arguments, "--format", "json"))
    moved = json.dumps(table).replace(f"{out}/mnist/k45/certify.jsonl", f"{kept}/mnist/k45/certify.jsonl.xz")
    assert again == json.loads(moved)
    assert not list(kept.rglob("*.safetensors"))
    assert (kept / "figures" / "table-2-gap.png").is_file()
    for figure in ("figure-3", "figure-5"):
        done = _invoke(figure, *SMALL, *arguments)
        assert isinstance(done.exception, InputError)
        assert "mnist was not found in" in str(done.exception)


def test_what_is_missing_of_networks_that_are_gone_is_refused(
    made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path
) -> None:
    """Trained anew they would be others; so would those of which nothing is known but records."""
    kept = _without_models(made[0], tmp_path)
    attacked = AttackStudy(Study(kept, data_dir=data, limit=LIMIT, n=N), RESTARTS)
    with pytest.raises(InputError, match=r"plain.json tells of a model that is not in .*cnn; name another --out"):
        attacked.attack_records("cnn", "noise")
    (kept / "mnist" / "attacks" / "plain.json").unlink()
    with pytest.raises(InputError, match=r"cnn-pointwise-6.jsonl.xz is of a model that is not in .*cnn"):
        attacked.attack_records("cnn", "pointwise")
    assert not list(kept.rglob("*.safetensors"))


def test_records_that_were_begun_are_finished(made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path) -> None:
    out, again = made[0], tmp_path / "again"
    shutil.copytree(out, again)
    wanted = {model: _lines(_found(out, model)) for model in ("cnn", "k45")}
    assert _found(out, "k45").header.run["group"] == 4
    for model in wanted:
        path = again / "mnist" / "attacks" / f"{model}-pointwise-{LIMIT}.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:6]) + b'{"exam')
    _run("table-2", *SMALL, "--out", again, "--data-dir", data)
    for model, lines in wanted.items():
        assert _lines(_found(again, model)) == lines


def _lines(attack_records: AttackRecords) -> list[AttackRecord]:
    return sorted((replace(line, seconds=0.0) for line in attack_records.lines), key=lambda line: line.example)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": 3}, "has a cnn of seed 0, not 3; name another --out folder"),
        ({"epochs": 2}, "has a cnn of epochs 4, not 2"),
        ({"n": 40}, "k45-pointwise-6.jsonl was made with n 60, not 40"),
        ({"precision": "fp16"}, "was made with precision .*, not fp16"),
    ],
)
def test_records_of_other_settings_are_refused(
    made: tuple[Path, dict[str, Any]], data: Path, changed: dict[str, Any], message: str
) -> None:
    settings = {"limit": LIMIT, "n": N, **changed}
    with pytest.raises(InputError, match=message):
        table_2(AttackStudy(Study(made[0], data_dir=data, **settings), RESTARTS))


def test_another_number_of_restarts_is_another_attack(made: tuple[Path, dict[str, Any]], data: Path) -> None:
    with pytest.raises(InputError, match=r"cnn-pointwise-6.jsonl was made with attack .*'restarts': 1.*'restarts': 2"):
        AttackStudy(Study(made[0], data_dir=data, limit=LIMIT, n=N), 2).attack_records("cnn", "pointwise")


def test_another_number_of_images_has_records_of_its_own(made: tuple[Path, dict[str, Any]], data: Path) -> None:
    two = AttackStudy(Study(made[0], data_dir=data, limit=2, n=N), RESTARTS).attack_records(
        "nearest-neighbour", "pointwise"
    )
    assert two.path.name == "nearest-neighbour-pointwise-2.jsonl"
    assert [line.example for line in two.lines] == datasets.load("mnist", "test", data).spaced_indices(2).tolist()
    usual = AttackStudy(Study(made[0], data_dir=data, n=N), RESTARTS).attack_records("nearest-neighbour", "pointwise")
    assert usual.path.name == "nearest-neighbour-pointwise.jsonl"
    assert len(usual.lines) == 100  # of the 275 that there would be


def test_other_attacks_are_shown_below(made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path) -> None:
    """Those asked for on every model, those that have records where they have; then the same from records alone."""
    out = tmp_path / "others"
    shutil.copytree(made[0], out)
    attacked = AttackStudy(Study(out, data_dir=data, limit=LIMIT, n=N), RESTARTS)
    attacked.attack_records("cnn", "saliency")
    common = [*SMALL, "--out", out, "--data-dir", data, "--format", "json"]
    first, second = _tables(_run("table-2", "--attack", "noise", *common))
    assert first["rows"] == made[1]["rows"]
    assert sum("within the certified radius" in note for note in first["notes"]) == 2
    assert list(second["rows"][0]) == ["model", "pointwise", "saliency", "noise", "nearest of all"]
    for row, model in zip(second["rows"], MODELS, strict=True):
        assert row["noise"] == format_magnitude(summarise_attack(_found(out, model, "noise")).median)
        assert (row["saliency"] == "-") == (model != "cnn")
    attacks = [_lines(_found(out, "cnn", name)) for name in ("pointwise", "saliency", "noise")]
    nearest = [min(line.distance for line in same if line.distance is not None) for same in zip(*attacks, strict=True)]
    assert second["rows"][0]["nearest of all"] == f"{np.median(nearest):g}"
    assert _tables(_run("table-2", *common)) == [first, second]


def test_our_model_can_be_asked_as_in_the_paper(made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path) -> None:
    """Every query by all copies of fresh masks: of ours alone, checked against the bars and the certificates too."""
    out = tmp_path / "fresh"
    shutil.copytree(made[0], out)
    common = [*SMALL, "--out", out, "--data-dir", data, "--format", "json"]
    first, second = _tables(_run("table-2", "--attack", "pointwise-fresh", *common))
    found = _found(out, "k45", "pointwise-fresh")
    assert found.header.run["masks"] == "fresh"
    assert all(line.evaluations == N * line.queries > 0 for line in found.lines)
    median = format_magnitude(summarise_attack(found).median)
    assert [row["pointwise-fresh"] for row in second["rows"]] == ["-"] * 4 + [median]
    assert f"bar: our median of {median} by fresh masks for every query is at least 25" in " ".join(first["notes"])
    assert sum("within the certified radius, pointwise-fresh: 0 of" in note for note in first["notes"]) == 1
    assert any("every query answered by all copies of fresh masks" in note for note in second["notes"])
    shutil.copy(found.path, _found(out, "k45").path)
    with pytest.raises(InputError, match="was made with masks fresh, not common"):
        AttackStudy(Study(out, data_dir=data, limit=LIMIT, n=N), RESTARTS).attack_records("k45", "pointwise")


def test_analysis_by_synthesis_is_measured_on_a_gpu_or_from_its_records(
    made: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """On a CPU, by records made of another model's; then the table has all its rows."""
    kept = _without_models(made[0], tmp_path / "kept")
    assert list(AttackStudy(Study(kept)).rows) == MODELS
    assert list(AttackStudy(Study(kept, device="cuda")).rows) == ALL_MODELS
    info, attacks = kept / "mnist" / "attacks" / "plain.json", kept / "mnist" / "attacks"
    known = json.loads(info.read_text())
    for model in ("abs", "abs-binarized"):
        known[model] = {**known["cnn"], "sha256": model}
        text = lzma.decompress((attacks / f"cnn-pointwise-{LIMIT}.jsonl.xz").read_bytes()).decode()
        (attacks / f"{model}-pointwise-{LIMIT}.jsonl").write_text(text.replace(known["cnn"]["sha256"], model))
    info.write_text(json.dumps(known))
    arguments = ["--out", kept, "--data-dir", tmp_path / "nowhere", "--format", "json"]
    (table,) = _tables(_run("table-2", *SMALL, *arguments))
    assert [row["median measured"] for row in table["rows"][4:6]] == [table["rows"][0]["median measured"]] * 2
    assert not any("-" in row["accuracy measured"] for row in table["rows"])
    assert not any("takes a GPU" in note for note in table["notes"])
    assert any("takes a GPU" in note for note in made[1]["notes"])
    assert [any("up to three rivals" in note for note in notes) for notes in (table["notes"], made[1]["notes"])] == [
        True,
        False,
    ]


def test_both_kinds_of_analysis_by_synthesis_come_from_one_training(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("studies.levine_feizi_2020.attacked.NEED_GPU", ())
    recipe = replace(PLAIN_RECIPES["mnist"]["abs"], epochs=1, candidates=20, steps=1)  # type: ignore[call-arg]
    monkeypatch.setitem(PLAIN_RECIPES["mnist"], "abs", recipe)
    monkeypatch.setattr(pointwise, "REPETITIONS", 1)
    attacked = AttackStudy(Study(tmp_path, data_dir=data, limit=1), RESTARTS)
    found = [attacked.attack_records(model, "pointwise") for model in ("abs", "abs-binarized")]
    files = [tmp_path / "mnist" / "plain" / "abs" / name for name in ("model.safetensors", "binarized.safetensors")]
    assert [one.header.run["model"]["sha256"] for one in found] == [modelfile.fingerprint(file) for file in files]
    known = json.loads((tmp_path / "mnist" / "attacks" / "plain.json").read_text())
    assert [known[model]["accuracy"] for model in known] == [load(file)[1]["test"]["accuracy"] for file in files]
    assert sorted(path.name for path in (tmp_path / "mnist" / "plain").iterdir()) == ["abs"]


def test_gradients_are_not_asked_of_a_binarized_network() -> None:
    attacked = AttackStudy(Study(Path("nowhere")))
    assert [name for name in BY_GRADIENTS if attacked.applies("binarized", name)] == []
    assert all(attacked.applies(model, name) for model in MODELS if model != "binarized" for name in BY_GRADIENTS)
    assert attacked.applies("binarized", "sparse-rs")


def test_the_attacks_are_those_of_their_names() -> None:
    from sparsecert.attacks import Pointwise, SparseRS, UniformNoise

    attacked = AttackStudy(Study(Path("nowhere")))
    assert attacked.attack("pointwise") == Pointwise(restarts=10, rounds=0)
    assert attacked.attack("pointwise-rounds") == Pointwise(restarts=10, rounds=20)
    assert attacked.attack("sparse-rs") == SparseRS()
    assert replace(attacked, restarts=3).attack("noise") == UniformNoise(restarts=3)


def test_an_attack_within_a_certified_radius_is_reported_loudly(
    made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path
) -> None:
    """Records that say a certified image was misclassified as it is."""
    out = tmp_path / "unsound"
    shutil.copytree(made[0], out)
    certified = next(
        line
        for line in records.read(out / "mnist" / "k45" / "certify.jsonl").lines
        if line.radius is not None and line.label == line.true
    )
    found = _found(out, "k45")
    lines = [line for line in found.lines if line.example != certified.example]
    broken = AttackRecord(certified.example, certified.true, 0, (certified.true + 1) % 10, 1, 1, 0.1)
    found.path.unlink()
    with Writer(found.path, found.header) as writer:
        writer.append([*lines, broken])
    done = _invoke("table-2", *SMALL, "--out", out, "--data-dir", data)
    assert done.exit_code == 1
    assert "certified radius, pointwise: 1 of " in " ".join(done.stdout.split())
    assert done.stderr.splitlines()[-1].startswith(f"NOT SOUND: {found.path} changes the answer to 1 of ")


@pytest.mark.parametrize("missing", ["nothing", "another model"])
def test_without_certificates_of_this_classifier_that_is_said(
    made: tuple[Path, dict[str, Any]], data: Path, tmp_path: Path, missing: str
) -> None:
    out = tmp_path / "uncertified"
    shutil.copytree(made[0], out, ignore=shutil.ignore_patterns("figures"))
    path = out / "mnist" / "k45" / "certify.jsonl"
    if missing == "nothing":
        path.unlink()
    else:
        path.write_text(path.read_text().replace('"model": {"sha256": "', '"model": {"sha256": "00', 1))
    (table,) = _tables(_run("table-2", *SMALL, "--out", out, "--data-dir", data, "--format", "json"))
    reason = f"there is no {path}" if missing == "nothing" else f"{path} is of another classifier or data: its model"
    assert any(note.startswith(f"pointwise is not checked against certificates: {reason}") for note in table["notes"])
    assert table["rows"][6]["accuracy measured"] == table["rows"][6]["accuracy on the attacked"]
    assert not (out / "figures").exists()


def test_all_images_of_the_table_go_side_by_side_on_a_gpu() -> None:
    mnist = 1, 28, 28
    assert images_at_once(275, copies=10_000, restarts=10, shape=mnist) == 275
    assert images_at_once(275, copies=1, restarts=10, shape=mnist) == 275
    most = images_at_once(10_000, copies=10_000, restarts=10, shape=mnist)
    assert 275 < most < 10_000
    assert images_at_once(10_000, copies=10_000, restarts=5, shape=mnist) in (2 * most, 2 * most + 1)
    assert images_at_once(275, copies=1 << 40, restarts=10, shape=mnist) == 1


def test_the_bars() -> None:
    others = {"cnn": 9.0, "binarized": 11.0, "robust": 4.0}
    assert [line.endswith(": met") for line in check_medians(31.0, others)] == [True, True]
    assert "(binarized, 11)" in check_medians(31.0, others)[1]
    assert [line.endswith(": met") for line in check_medians(25.0, {"cnn": 12.5})] == [True, False]
    assert [line.endswith(": MISSED") for line in check_medians(24.5, others)] == [True, False]
    assert [line.endswith(": met") for line in check_medians(float("inf"), others)] == [True, True]
    with_synthesis = {**others, "abs": 25.0, "abs-binarized": 20.0}
    assert [line.endswith(": met") for line in check_medians(25.0, with_synthesis)] == [True, True, False]
    assert "(abs, 25): met" in check_medians(26.0, with_synthesis)[2]


def test_the_figures(made: tuple[Path, dict[str, Any]], data: Path) -> None:
    out = made[0]
    for name in ("figure-3", "figure-5"):
        done = _invoke(name, *SMALL, "--out", out, "--data-dir", data)
        assert done.exit_code == 0, done.exception
        assert f"wrote {out}/figures/{name}.png" in done.stderr
        with Image.open(out / "figures" / f"{name}.png") as picture:
            colours = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        assert (abs(colours.astype(int).max(axis=1) - colours.astype(int).min(axis=1)) > 100).any()
        assert b"</svg>" in (out / "figures" / f"{name}.svg").read_bytes()


def test_examples_are_not_picked(made: tuple[Path, dict[str, Any]]) -> None:
    """By hand-made records: images 1 and 5 were wrong or never fooled, so the others are shown, in order."""
    header = _found(made[0], "k45").header
    distances = [4, 0, 3, 2, 1, None, 7]
    trues = [1, 1, 0, 1, 0, 2, 2]
    lines = tuple(
        AttackRecord(number, true, distance, None, 1, 1, 0.0)
        for number, (true, distance) in enumerate(zip(trues, distances, strict=True))
    )
    attack_records = AttackRecords(Path("made"), header, lines[::-1])
    assert [line.example for line in fooled(attack_records)] == [0, 2, 3, 4, 6]
    assert [line.example for line in first_of_each_class(attack_records)] == [2, 0, 6]
    assert [line.example for line in the_next(attack_records)] == [3, 4]


def test_a_figure_shows_the_images_that_were_found(made: tuple[Path, dict[str, Any]], data: Path) -> None:
    from studies.levine_feizi_2020.figure_3 import BRIGHTER, DARKER, Example

    test, found = datasets.load("mnist", "test", data), _found(made[0], "k45")
    line = fooled(found)[0]
    images = adversarial_images(replace(found, lines=(line,)), test)[0, 0]
    before, after = test.images.batch([line.example])[0, 0], (255 * images).round().byte().numpy()
    marked = Example(line, before, after, "a 1", "abstains", "").marked
    coloured = (marked == BRIGHTER).all(axis=2) | (marked == DARKER).all(axis=2)
    assert coloured.sum() == line.distance
    assert (coloured == (before != after)).all()
    assert ((marked == BRIGHTER).all(axis=2) == (after > before)).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["table-2", "--attack", "pointless"],
            "--attack must be of pointwise, pointwise-fresh, pointwise-rounds, sparse-rs",
        ),
        (["table-1", "--attack", "noise"], "--attack has no effect on table-1; leave it out"),
        (["table-2", "--keeps", "45"], "--keeps has no effect on table-2; leave it out"),
        (["figure-3", "--epochs", "3"], "--epochs has no effect on figure-3; leave it out"),
        (["table-2"], "mnist was not found in"),
        (["figure-5"], "mnist was not found in"),
    ],
)
def test_mistakes_are_refused_before_anything_is_made(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = _invoke(*arguments, "--out", tmp_path / "out", "--data-dir", tmp_path)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert not list(tmp_path.rglob("*.*"))


def test_the_published_table_names_the_kinds_that_are_here() -> None:
    assert names(ATTACKS) == ["table-2"]
    table = published_attacks("table-2")
    here = [row.model for row in table.rows]
    assert here == ["cnn", "binarized", NEAREST_NEIGHBOUR, "robust", "abs", "abs-binarized", "smoothed"]
    assert [row.within_12 for row in table.rows] == [19, 38, 34, 0, 69, 77, None]
    assert [row.median for row in table.rows[4:6]] == [16.5, 22]
    assert [(row.accuracy, row.median) for row in table.rows][:4] == [(99.1, 9), (98.5, 11), (96.9, 10), (98.8, 4)]
    ours = table.rows[-1]
    (same,) = [row for row in published("table-1").rows if row.keep == ours.keep]
    assert ours.accuracy == pytest.approx(same.accuracy, abs=0.05)
    assert ours.median > max(row.median for row in table.rows[:-1])
    assert (table.attack, table.restarts, table.images, table.predict_n) == ("pointwise", 10, 275, 10_000)
