"""Small files of texts, and a model for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from sparsecert import models
from sparsecert.encodings import DropWords, MaskToken
from sparsecert.inputs.texts import Texts
from sparsecert.inputs.words import Vocabulary, WordReader
from sparsecert.schemes import Scheme
from sparsecert.smoothed import Smoothed

GOOD, BAD, NEUTRAL = ("fine", "great", "superb"), ("dull", "poor", "awful"), ("a", "the", "film", "was", "it", "plot")


def sentences(count: int, seed: int = 0, longest: int = 9) -> list[tuple[str, str]]:
    """Texts of 1 to `longest` words with their class: most words are neutral, at least one is not."""
    random, found = np.random.default_rng(seed), []
    for number in range(count):
        own = (GOOD, BAD)[number % 2]
        words = [
            str(random.choice(own if random.random() < 0.6 else NEUTRAL))
            for _ in range(random.integers(1, longest + 1))
        ]
        words[random.integers(len(words))] = str(random.choice(own))
        found.append((" ".join(words), ("good", "bad")[number % 2]))
    return found


def write_tsv(path: Path, count: int = 60, seed: int = 0) -> Path:
    lines = ["sentence\tlabel", *("\t".join(pair) for pair in sentences(count, seed))]
    path.write_text("\n".join(lines) + "\n")
    return path


def smoothed(scheme: Scheme, name: str = "bag-of-words", masked: bool = False) -> tuple[Smoothed, WordReader]:
    """An untrained network for such texts."""
    vocabulary = Vocabulary.of(text for text, _ in sentences(60))
    encoding = (MaskToken if masked else DropWords)(len(vocabulary))
    model = models.build(name, len(vocabulary), 2, seed=1)
    with torch.no_grad():
        model.words.weight.mul_(20)  # type: ignore[union-attr, operator]
    about = {"vocabulary": " ".join(vocabulary.words), "stems": " ".join(vocabulary.stems), "unit": "word"}
    metadata = {"text": about, "class_names": ["bad", "good"]}
    return Smoothed(model, scheme, encoding, classes=2, precision="fp32", metadata=metadata), WordReader(vocabulary)


def texts_of(reader: WordReader, count: int = 40) -> Texts:
    made = sentences(count, seed=3)
    labels = np.array([label == "good" for _, label in made], dtype=np.int64)
    return Texts(
        "made", "all", tuple(text for text, _ in made), labels, ("bad", "good"), np.arange(count), "0" * 64, reader
    )
