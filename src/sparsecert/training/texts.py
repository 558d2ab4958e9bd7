"""Trains a network on ablated texts: what `sparsecert train texts.tsv --text sentence` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sparsecert import modelfile, models
from sparsecert.counts import Int64
from sparsecert.datasets.text_files import read_texts
from sparsecert.encodings import WordEncoding
from sparsecert.errors import InputError, check_int
from sparsecert.inputs.texts import file_hash, held_out, number_labels
from sparsecert.inputs.words import PADDING, WORD, Vocabulary, WordReader, padded
from sparsecert.progress import OnProgress, ignore
from sparsecert.registry import ENCODINGS
from sparsecert.schemes import TRAINING, Scheme
from sparsecert.smoothed import Smoothed
from sparsecert.training.objective import Objective, objective
from sparsecert.training.recipe import VoteObjective

BUCKET = 8  # batches whose texts are sorted by length, so that a batch has few lengths


@dataclass(frozen=True)
class TextRecipe:
    """AdamW on ablated copies of texts, each with masks of its own.

    model: an architecture. encoding: how hidden words are shown. epochs: of cross-entropy; then `vote_epochs` of the
    vote itself, with lead `target` (`training.objective.vote_loss`). copies: of a text in a batch. least: a word of the
    vocabulary occurs this often. The learning rate falls to 0 along a half cosine, once for each part.
    """

    model: str = "bag-of-words"
    encoding: str = "drop-words"
    epochs: int = 10
    vote_epochs: int = 10
    target: float = 0.5
    copies: int = 8
    batch: int = 64
    rate: float = 0.005
    weight_decay: float = 0.01
    least: int = 2

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("vote_epochs", 0), ("copies", 1), ("batch", 1), ("least", 1)):
            check_int(name, getattr(self, name), least, 1 << 20)
        if not self.epochs + self.vote_epochs:
            raise InputError("epochs and vote_epochs are both 0; train for at least one epoch")


def train_texts(
    path: str | Path,
    columns: str,
    target: str,
    scheme: Scheme,
    out: str | Path,
    recipe: TextRecipe | None = None,
    *,
    unit: str = WORD,
    share: float = 0.0,
    own: dict[str, str] | None = None,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_progress: OnProgress = ignore,
) -> Path:
    """Trains on the texts of a file and writes the model file.

    `columns` holds the text, `target` its class (`datasets.text_files`). `share` of the texts, or so many, are held
    out, by their number and the seed alone. `own`: the bound or rule of the model's certificates. The vocabulary is
    that of the texts trained on, and is stored in the file.
    """
    recipe = TextRecipe() if recipe is None else recipe
    file = read_texts(path, columns, target)
    if file.labels is None:
        raise InputError(f"{path} has no column {target}, the class of each text; name it with --target")
    inside = np.flatnonzero(~held_out(len(file.texts), share, seed))
    texts, labels = [file.texts[row] for row in inside], [file.labels[row] for row in inside]
    classes = sorted({*labels})
    if len(classes) < 2:
        raise InputError(f"the column {target} of {path} has one class, {classes[0]}; a classifier needs two")
    vocabulary = Vocabulary.of(texts, unit, recipe.least)
    reader = WordReader(vocabulary, unit)
    encoding = ENCODINGS[recipe.encoding](vocabulary=len(vocabulary))  # type: ignore[call-arg]
    if not isinstance(encoding, WordEncoding):
        raise InputError(f"encoding {recipe.encoding} is not for texts; use mask-token or drop-words")
    if not scheme.is_open:
        raise InputError(f"texts differ in length, and {scheme} is for inputs of one; use share or partition")
    model = models.build(recipe.model, len(vocabulary), len(classes), seed).to(device)
    numbers = [reader.numbers(text, f"text {row + 1} of {path}") for row, text in zip(inside, texts, strict=True)]
    batches = TextBatches(numbers, number_labels(labels, classes), scheme, encoding, recipe, seed)
    fit(model, batches, torch.device(device), on_progress)
    metadata = {
        "class_names": classes,
        "data": f"{Path(path).name}, its column {columns}",
        "text": {
            "columns": columns,
            "target": target,
            "unit": unit,
            "held_out": share,
            "seed": seed,
            "sha256": file_hash(path),
            "vocabulary": " ".join(vocabulary.words),
        },
        "training": {"settings": asdict(recipe)},
        **(own or {}),
    }
    saved = Path(out) / modelfile.MODEL_NAME
    Smoothed(model, scheme, encoding, classes=len(classes), metadata=metadata).save(saved)
    return saved


@dataclass(frozen=True, eq=False)
class TextBatches:
    """Ablated copies of texts, batch by batch: a pure function of the epoch and the seed."""

    texts: Sequence[Int64]  # int64[pieces, words] each
    labels: Int64
    scheme: Scheme
    encoding: WordEncoding
    recipe: TextRecipe
    seed: int

    def __len__(self) -> int:
        return -(-len(self.texts) // self.recipe.batch)

    def epoch(self, number: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Copies and labels; row c * texts + i is copy c of text i."""
        random = np.random.default_rng([self.seed, number])
        order, size = random.permutation(len(self.texts)), self.recipe.batch
        lengths = np.array([text.shape[1] for text in self.texts])
        buckets = [order[at : at + size * BUCKET] for at in range(0, len(order), size * BUCKET)]
        alike = np.concatenate([bucket[np.argsort(lengths[bucket], kind="stable")] for bucket in buckets])
        for place in random.permutation(len(self)).tolist():
            rows = alike[place * size : (place + 1) * size]
            yield self.copies(rows, lengths[rows], number), torch.from_numpy(self.labels[rows])

    def copies(self, rows: Int64, lengths: Int64, epoch: int) -> torch.Tensor:
        """int64[copies * texts, channels, shown], by masks that the scheme draws for training."""
        draws = range(TRAINING + epoch * self.recipe.copies, TRAINING + (epoch + 1) * self.recipe.copies)
        found: list[torch.Tensor] = [torch.empty(0)] * len(rows)
        for count in np.unique(lengths).tolist():
            some = np.flatnonzero(lengths == count)
            masks = self.scheme.for_units(count).masks(self.seed, rows[some], draws)
            inputs = torch.from_numpy(padded([self.texts[row] for row in rows[some]]))
            shown = self.encoding(inputs.repeat_interleave(len(draws), dim=0), masks.flatten(0, 1))
            for place, own in zip(some, shown.split(len(draws)), strict=True):
                found[place] = own
        most = max(own.shape[2] for own in found)
        wide = [torch.nn.functional.pad(own, (0, most - own.shape[2]), value=PADDING) for own in found]
        return torch.stack(wide, dim=1).flatten(0, 1)


def fit(model: torch.nn.Module, batches: TextBatches, device: torch.device, on_progress: OnProgress = ignore) -> None:
    """Trains the model in place: first the copies, then their vote."""
    recipe = batches.recipe
    vote = VoteObjective(max(1, recipe.vote_epochs), recipe.rate, recipe.target)
    parts: list[tuple[int, dict[str, Any]]] = [(recipe.epochs, {}), (recipe.vote_epochs, {"vote": vote})]
    model.train()
    done = 0
    for epochs, settings in parts:
        loss = objective(device, "fp32", recipe.copies, compiled=False, **settings)
        _fit(model, batches, loss, range(done, done + epochs), device, on_progress)
        done += epochs
    model.eval()


def _fit(
    model: torch.nn.Module,
    batches: TextBatches,
    loss: Objective,
    epochs: range,
    device: torch.device,
    on_progress: OnProgress,
) -> None:
    recipe, steps = batches.recipe, max(1, len(epochs) * len(batches))
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    with torch.random.fork_rng():
        torch.manual_seed(batches.seed)
        for epoch in epochs:
            for copies, labels in batches.epoch(epoch):
                found, _ = loss(model, copies.to(device), labels.to(device))
                optimizer.zero_grad()
                (found / len(labels)).backward()
                optimizer.step()
                schedule.step()
            on_progress(1, 0)


