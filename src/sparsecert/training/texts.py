"""Trains a network on ablated texts: what `sparsecert train texts.tsv --text sentence` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from sparsecert import modelfile, models
from sparsecert.counts import Int64
from sparsecert.datasets.text_files import read_texts
from sparsecert.encodings import WordEncoding
from sparsecert.errors import InputError, check_int
from sparsecert.files import file_hash
from sparsecert.inputs import number_labels
from sparsecert.inputs.texts import held_out_texts
from sparsecert.inputs.words import PADDING, WORD, Vocabulary, WordReader, padded
from sparsecert.procedures.procedure import bound_of_trained
from sparsecert.progress import OnProgress, ignore
from sparsecert.registry import ENCODINGS
from sparsecert.schemes import TRAINING, FixedMasks, Scheme
from sparsecert.smoothed import Smoothed
from sparsecert.training.objective import count_short, soft_votes

BAG_RATE, RATE = 0.005, 0.001  # learning rates
MOST_LEAD = 0.9  # that is trained for
BUCKET = 8  # batches whose texts are sorted by length, so that a batch has few lengths


@dataclass(frozen=True)
class TextRecipe:
    """AdamW on ablated copies of texts.

    model: an architecture. encoding: how hidden words are shown. epochs: of cross-entropy, copy by copy; then
    `vote_epochs` of the vote itself, with the lead that certifies `words` changed words. copies: of a text in a batch,
    by random masks; of a fixed set all masks are used. rate: None is 0.005 for a bag of words, 0.001 otherwise; the
    rate falls to 0 along a half cosine, once for each part. least: a word of the vocabulary occurs this often.
    """

    model: str = "bag-of-words"
    encoding: str = "drop-words"
    epochs: int = 3
    vote_epochs: int = 6
    words: int = 1
    copies: int = 32
    batch: int = 64
    rate: float | None = None
    weight_decay: float = 0.3
    least: int = 2

    def __post_init__(self) -> None:
        counts = ("epochs", 0), ("vote_epochs", 0), ("words", 0), ("copies", 1), ("batch", 1), ("least", 1)
        for name, least in counts:
            check_int(name, getattr(self, name), least, 1 << 20)
        if not self.epochs + self.vote_epochs:
            raise InputError("epochs and vote_epochs are both 0; train for at least one epoch")

    def shortened(self, epochs: int) -> TextRecipe:
        """The same with so many epochs in all, divided as before."""
        check_int("epochs", epochs, 1, 1 << 20)
        votes = epochs * self.vote_epochs // (self.epochs + self.vote_epochs)
        return replace(self, epochs=epochs - votes, vote_epochs=votes)


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
    inside = np.flatnonzero(~held_out_texts(len(file.texts), share, seed))
    texts, labels = [file.texts[row] for row in inside], [file.labels[row] for row in inside]
    classes = sorted({*labels})
    if len(classes) < 2:
        raise InputError(f"the column {target} of {path} has one class, {classes[0]}; a classifier needs two")
    vocabulary = Vocabulary.of(texts, unit, recipe.least)
    reader = WordReader(vocabulary, unit)
    kind = ENCODINGS[recipe.encoding]
    if not issubclass(kind, WordEncoding):
        raise InputError(f"encoding {recipe.encoding} is not for texts; use mask-token or drop-words")
    encoding = kind(len(vocabulary))
    if not scheme.is_open:
        raise InputError(f"texts differ in length, and {scheme} is for inputs of one; use share or partition")
    model = models.build(recipe.model, len(vocabulary), len(classes), seed).to(device)
    numbers = [reader.numbers(text, f"text {row + 1} of {path}") for row, text in zip(inside, texts, strict=True)]
    batches = TextBatches(numbers, number_labels(labels, classes, "file"), scheme, encoding, recipe, seed)
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
            "stems": " ".join(vocabulary.stems),
        },
        "training": {"settings": asdict(recipe)},
        **(bound_of_trained(scheme) if own is None else own),
    }
    saved = Path(out) / modelfile.MODEL_NAME
    Smoothed(model, scheme, encoding, classes=len(classes), precision="fp32", metadata=metadata).save(saved)
    return saved


@dataclass(frozen=True)
class TextBatch:
    """Ablated copies of some texts: row r is a copy of text which[r]. `targets` are the leads to train for."""

    copies: torch.Tensor
    which: torch.Tensor
    labels: torch.Tensor
    targets: torch.Tensor


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

    def epoch(self, number: int) -> Iterator[TextBatch]:
        """All texts in random order; texts of a batch are of similar lengths."""
        random = np.random.default_rng([self.seed, number])
        order, size = random.permutation(len(self.texts)), self.recipe.batch
        lengths = np.array([text.shape[1] for text in self.texts])
        buckets = [order[at : at + size * BUCKET] for at in range(0, len(order), size * BUCKET)]
        alike = np.concatenate([bucket[np.argsort(lengths[bucket], kind="stable")] for bucket in buckets])
        for place in random.permutation(len(self)).tolist():
            yield self.batch(alike[place * size : (place + 1) * size], number)

    def batch(self, rows: Int64, epoch: int) -> TextBatch:
        """The texts `rows`, in the order of their lengths."""
        lengths = np.array([self.texts[row].shape[1] for row in rows])
        found, repeats, targets = [], list[int](), list[float]()
        for count in np.unique(lengths).tolist():
            some, scheme = rows[lengths == count], self.scheme.for_units(count)
            masks = self.masks(scheme, some, epoch)
            inputs = torch.from_numpy(padded([self.texts[row] for row in some]))
            found.append(self.encoding(inputs.repeat_interleave(masks.shape[1], dim=0), masks.flatten(0, 1)))
            repeats += [masks.shape[1]] * len(some)
            targets += [min(MOST_LEAD, 2 * float(scheme.delta(self.recipe.words)))] * len(some)
        most = max(copies.shape[2] for copies in found)
        wide = [torch.nn.functional.pad(copies, (0, most - copies.shape[2]), value=PADDING) for copies in found]
        which = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(repeats))
        order = np.argsort(lengths, kind="stable")
        return TextBatch(torch.cat(wide), which, torch.from_numpy(self.labels[rows[order]]), torch.tensor(targets))

    def masks(self, scheme: Scheme, rows: Int64, epoch: int) -> torch.Tensor:
        """Bool[texts, masks, units]: all of a fixed set, or random ones of their own for each text and epoch."""
        if isinstance(scheme, FixedMasks):
            return scheme.all_masks().expand(len(rows), -1, -1)
        first = TRAINING + epoch * self.recipe.copies
        return scheme.masks(self.seed, rows, range(first, first + self.recipe.copies))


def fit(model: torch.nn.Module, batches: TextBatches, device: torch.device, on_progress: OnProgress = ignore) -> None:
    """Trains the model in place: first the copies, then their vote."""
    recipe, rate = batches.recipe, batches.recipe.rate
    if rate is None:
        rate = BAG_RATE if recipe.model == "bag-of-words" else RATE
    model.train()
    done, steps = 0, (recipe.epochs + recipe.vote_epochs) * len(batches)
    with torch.random.fork_rng([]):
        torch.manual_seed(batches.seed)
        for epochs, loss in ((recipe.epochs, copies_loss), (recipe.vote_epochs, text_vote_loss)):
            optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=recipe.weight_decay)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, epochs * len(batches)))
            for epoch in range(done // len(batches), done // len(batches) + epochs):
                for batch in batches.epoch(epoch):
                    which, labels = batch.which.to(device), batch.labels.to(device)
                    scores = model(batch.copies.to(device))
                    found = loss(scores, which, labels, batch.targets.to(device)) / len(labels)
                    optimizer.zero_grad()
                    found.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                    schedule.step()
                    done += 1
                    correct = (scores.detach().argmax(1) == labels[which]).float().mean().item()
                    metrics = {"loss": found.item(), "accuracy": correct}
                    on_progress(done, steps, epoch=epoch + 1, epochs=steps // len(batches), **metrics)
    model.eval()


def copies_loss(scores: torch.Tensor, which: torch.Tensor, labels: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The sum over the texts of the mean cross-entropy of their copies."""
    each = cross_entropy(scores, labels[which], reduction="none")
    return mean_by_text(each[:, None], which, len(labels)).sum()


def text_vote_loss(
    scores: torch.Tensor, which: torch.Tensor, labels: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """About how many texts have a lead below their target (`training.objective.vote_loss`)."""
    votes = soft_votes(scores.gather(1, labels[which][:, None]), scores)
    return count_short(mean_by_text(votes, which, len(labels)), labels, targets)


def mean_by_text(values: torch.Tensor, which: torch.Tensor, texts: int) -> torch.Tensor:
    """Float[texts, columns]: the mean of the rows of each text."""
    sums = values.new_zeros(texts, values.shape[1]).index_add_(0, which, values)
    return sums / which.bincount(minlength=texts)[:, None]
