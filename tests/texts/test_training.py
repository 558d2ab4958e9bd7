"""Training on ablated texts, and the commands that do all of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from sparsecert import modelfile, records
from sparsecert.cli import cli
from sparsecert.encodings import DropWords
from sparsecert.errors import InputError
from sparsecert.inputs.texts import Texts, held_out_texts
from sparsecert.inputs.words import padded
from sparsecert.schemes import FixedMasks, Partition, Scheme, Share
from sparsecert.smoothed import Smoothed
from sparsecert.training.texts import TextBatches, TextRecipe, copies_loss, mean_by_text, text_vote_loss, train_texts
from tests.texts.made import sentences, write_tsv

QUICK = TextRecipe(epochs=2, vote_epochs=2, copies=8, batch=16, words=1, rate=0.02)


@pytest.mark.parametrize("scheme", [Share("0.3"), Partition(None, 100)], ids=str)
def test_training_learns_and_depends_on_the_seed_alone(scheme: Scheme, tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "t.tsv", 200)
    files = [
        train_texts(path, "sentence", "label", scheme, tmp_path / name, QUICK, share=50, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    one, same, other = (modelfile.read(file)[0]["words.weight"] for file in files)
    assert torch.equal(one, same)
    assert one.shape != other.shape or not torch.equal(one, other)
    g = Smoothed.load(files[0])
    data = Texts.read(path, g.metadata)
    assert data.split == "held-out"
    assert len(data.chosen) == 50
    assert data.labels is not None
    found = g.predict(torch.from_numpy(data.batch(data.chosen)))
    assert (found.labels == data.labels[data.chosen]).mean() > 0.8


def test_the_vocabulary_is_of_the_texts_trained_on(tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    outside = held_out_texts(40, 10, 0)
    lines = [f"{text} {'secret' if hidden else 'known'}\t{label}"
             for (text, label), hidden in zip(sentences(40), outside, strict=True)]  # fmt: skip
    path.write_text("\n".join(["sentence\tlabel", *lines]))
    file = train_texts(path, "sentence", "label", Share("0.3"), tmp_path / "m", QUICK, share=10)
    words = modelfile.read_header(file)["facts"]["text"]["vocabulary"].split()
    assert "known" in words
    assert "secret" not in words


@pytest.mark.parametrize("scheme", [Share("0.5"), Partition(None, 3), Partition(None, 100)], ids=str)
def test_a_batch_holds_each_text_with_its_copies_label_and_target(scheme: Scheme) -> None:
    random = np.random.default_rng(0)
    texts = [random.integers(2, 20, (1, length)) for length in (5, 2, 7, 5, 1, 2)]
    batches = TextBatches(texts, np.arange(6), scheme, DropWords(20), QUICK, seed=0)
    seen = list[int]()
    for batch in batches.epoch(1):
        for place, row in enumerate(batch.labels.tolist()):
            own, text = batch.copies[batch.which == place], texts[row]
            bound = scheme.for_units(text.shape[1])
            seen.append(row)
            assert batch.targets[place].item() == pytest.approx(min(0.9, 2 * float(bound.delta(1))))
            masks = batches.masks(bound, np.array([row]), 1)[0]
            shown = DropWords(20)(torch.from_numpy(padded([text])).expand(len(masks), -1, -1), masks)
            assert torch.equal(own[:, :, : shown.shape[2]], shown)
            assert (own[:, :, shown.shape[2] :] == -1).all()
            assert len(own) == (bound.count if isinstance(bound, FixedMasks) else QUICK.copies)
    assert sorted(seen) == [*range(6)]
    first, again = (torch.cat([b.which for b in batches.epoch(1)]) for _ in range(2))
    assert torch.equal(first, again)


def test_losses_are_means_over_the_copies_of_each_text() -> None:
    scores = torch.tensor([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0]])
    which, labels, targets = torch.tensor([0, 0, 1]), torch.tensor([0, 0]), torch.tensor([0.5, 0.5])
    each = torch.nn.functional.cross_entropy(scores, torch.zeros(3).long(), reduction="none")
    assert copies_loss(scores, which, labels, targets).item() == pytest.approx((each[:2].mean() + each[2]).item())
    assert mean_by_text(scores, which, 2).tolist() == [[1.0, 1.0], [1.0, 0.0]]
    leads = torch.tensor([0.0, float(np.tanh(1.0))])
    assert text_vote_loss(scores, which, labels, targets).item() == pytest.approx(
        torch.sigmoid(6 * (0.5 - leads)).sum().item(), abs=1e-5
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": "other"}, "has no column other"),
        ({"scheme": Partition(9, 3)}, "texts differ in length"),
        ({"recipe": TextRecipe(encoding="mean-fill")}, "encoding mean-fill is not for texts"),
        ({"share": 60}, "leaves texts to train on"),
        ({"unit": "letter"}, "unit must be word or token"),
    ],
)
def test_what_cannot_be_trained_is_refused(change: dict[str, object], message: str, tmp_path: Path) -> None:
    settings = {"columns": "sentence", "target": "label", "scheme": Share("0.3"), "recipe": QUICK, **change}
    with pytest.raises(InputError, match=message):
        train_texts(write_tsv(tmp_path / "t.tsv"), out=tmp_path / "m", **settings)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="both 0"):
        TextRecipe(epochs=0, vote_epochs=0)
    one = tmp_path / "one.tsv"
    one.write_text("sentence\tlabel\na b\tx\nc d\tx\n")
    with pytest.raises(InputError, match="has one class, x"):
        train_texts(one, "sentence", "label", Share("0.3"), tmp_path / "m", QUICK)


def test_fewer_epochs_are_divided_as_before() -> None:
    short = TextRecipe(epochs=3, vote_epochs=6).shortened(3)
    assert (short.epochs, short.vote_epochs) == (1, 2)


def _run(*args: str) -> str:
    done = CliRunner().invoke(cli, args, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_from_a_file_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path / "texts.tsv", 160)
    (tmp_path / "new.jsonl").write_text("".join(json.dumps({"sentence": text}) + "\n" for text, _ in sentences(5, 9)))
    shown = _run("train", "texts.tsv", "--text", "sentence", "--target", "label", "--held-out", "0.25", "--epochs", "4")
    assert "next: sparsecert certify runs/texts-partition-1000x1 --data texts.tsv" in shown
    shown = _run("certify", "runs/texts-partition-1000x1", "--data", "texts.tsv", "--out", "c.jsonl")
    assert "of the words)" in " ".join(shown.split())
    assert len(records.read("c.jsonl").lines) == 40
    assert "pairwise" in _run("report", "c.jsonl")
    _run("predict", "runs/texts-partition-1000x1", "--data", "texts.tsv", "--out", "p.jsonl")
    _run("certify", "runs/texts-partition-1000x1", "--data", "new.jsonl", "--out", "answers.csv")
    rows = (tmp_path / "answers.csv").read_text().splitlines()
    assert len(rows) == 6
    about = json.loads(_run("info", "runs/texts-partition-1000x1"))
    assert about["masks"] == {"most": 1000}
    assert about["facts"]["text"]["unit"] == "word"
    _run("report", "c.jsonl", "--html", "page.html")
    assert "words" in (tmp_path / "page.html").read_text()


def test_random_masks_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tsv(tmp_path / "texts.tsv", 100)
    _run(
        *("train", "texts.tsv", "--text", "sentence", "--target", "label", "--scheme", "share", "--share", "0.3"),
        *("--model", "word-transformer", "--encoding", "mask-token", "--unit", "token", "--epochs", "1"),
        *("--out", "m"),
    )
    header = modelfile.read_header("m")
    assert header["architecture"]["name"] == "word-transformer"
    assert (header["encoding"]["kind"], header["facts"]["text"]["unit"]) == ("mask-token", "token")
    shown = _run("certify", "m", "--data", "texts.tsv", "--n0", "10", "--n", "50", "--limit", "12", "--out", "c.jsonl")
    assert header["facts"]["bound"] == "pairwise"
    assert "pairwise" in shown
    assert _run("report", "c.jsonl", "--alpha", "0.2")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--text", "sentence"), "texts need a file and --target"),
        (("--text", "sentence", "--target", "label", "--keep", "5"), "is for inputs of one length"),
        (("--text", "sentence", "--target", "label", "--scheme", "lattice", "--parts", "3"), "for texts use share or"),
        (("--text", "sentence", "--target", "label", "--protected", "x"), "leave it out for texts"),
        (("--text", "sentence", "--target", "label", "--resize", "8"), "leave it out for texts"),
    ],
)
def test_other_options_are_refused(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["train", str(write_tsv(tmp_path / "t.tsv")), *args])
    assert done.exit_code != 0
    assert message in " ".join(done.output.split()) or message in str(done.exception)
