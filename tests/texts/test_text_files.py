"""CSV, TSV and JSON lines of texts: the same texts whatever the format, and refusals that say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sparsecert.datasets.text_files import TextFile, read_texts
from sparsecert.errors import InputError
from sparsecert.inputs.texts import Texts, held_out_texts
from sparsecert.inputs.words import Vocabulary, WordReader

ROWS = [("a fine film", "1"), ('it\'s "good", so', "0"), ("Größe", "1")]
FOUND = TextFile(tuple(text for text, _ in ROWS), tuple(label for _, label in ROWS))


def _write(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith(("json", "jsonl")):
        lines = [json.dumps({"label": int(label), "text": text}, ensure_ascii=False) for text, label in ROWS]
    elif name.lower().endswith("tsv"):
        lines = ["text\tlabel", *(f"{text}\t{label}" for text, label in ROWS)]
    else:
        lines = ["text, label", *('"{}",{}'.format(text.replace('"', '""'), label) for text, label in ROWS)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.ndjson", "T.TSV"])
def test_every_format_has_the_same_texts(name: str, tmp_path: Path) -> None:
    path = _write(tmp_path, name)
    assert read_texts(path, "text", "label") == FOUND
    assert read_texts(path, "text", "other").labels is None
    assert read_texts(path, "text", None).labels is None
    assert read_texts(path, "text,label", None).texts[0] == "a fine film 1"


def test_columns_by_number_in_a_file_without_names(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text('"3","Title","Body of it"\n"1","Other","text"\n')
    assert read_texts(path, "2,3", "1") == TextFile(("Title Body of it", "Other text"), ("3", "1"))


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("text\tlabel\n", "text", "has no texts"),
        ("", "text", "has no texts"),
        ("text\tlabel\na\t1\n", "body", "no column body in row 1; it has text, label"),
        ("text\tlabel\na\t1\nb\n", "label", "no column label in row 2; it has text"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, column: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_texts(path, column, None)
    with pytest.raises(InputError, match="is not a file"):
        read_texts(tmp_path / "missing.tsv", "text", None)


def test_lines_that_are_no_objects_are_refused(tmp_path: Path) -> None:
    for text, message in (("[1]\n", "an object per line"), ("{\n", "cannot be read")):
        (tmp_path / "t.jsonl").write_text(text)
        with pytest.raises(InputError, match=message):
            read_texts(tmp_path / "t.jsonl", "text", None)
    (tmp_path / "t.csv").write_bytes(b"text\n\xff\xfe\n")
    with pytest.raises(InputError, match="cannot be read"):
        read_texts(tmp_path / "t.csv", "text", None)


def test_held_out_by_share_or_by_number() -> None:
    assert held_out_texts(40, 0.25, 0).sum() == held_out_texts(40, 10, 0).sum() == 10
    assert np.array_equal(held_out_texts(40, 10, 3), held_out_texts(40, 0.25, 3))
    assert not np.array_equal(held_out_texts(40, 10, 3), held_out_texts(40, 10, 4))
    assert held_out_texts(40, 0, 0).sum() == 0
    for count in (-1, 40, 1e9):
        with pytest.raises(InputError, match="leaves texts to train on"):
            held_out_texts(40, count, 0)


def test_texts_of_the_training_file_are_the_held_out_ones(tmp_path: Path) -> None:
    path = _write(tmp_path, "t.tsv")
    reader = WordReader(Vocabulary(("fine",)))
    about = {"columns": "text", "target": "label", "unit": "word", "held_out": 1, "seed": 0, "sha256": ""}
    metadata = {"class_names": ["0", "1"], "text": about}
    every = Texts.read(path, metadata, reader)
    assert (every.split, every.chosen.tolist(), every.shape) == ("all", [0, 1, 2], (2, 3))
    own = Texts.read(path, {**metadata, "text": {**about, "sha256": every.fingerprint()}}, reader)
    assert own.split == "held-out"
    assert own.chosen.tolist() == np.flatnonzero(held_out_texts(3, 1, 0)).tolist() == own.spaced_indices(None).tolist()
    assert own.random_indices(1, 0).tolist() == own.chosen.tolist()
    assert own.labels is not None
    assert own.labels.tolist() == [1, 0, 1]
    assert own.batch([1, 2]).shape == (2, 2, 3)
    with pytest.raises(InputError, match="classes unknown to the model: 1"):
        Texts.read(path, {**metadata, "class_names": ["0", "2"]}, reader)
    with pytest.raises(InputError, match="was not trained on texts"):
        Texts.read(path, {})
