"""Word substitution: what it finds is real, none of it lies within a certified radius, and it is near the optimum."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
import torch

from sparsecert import records
from sparsecert.attacks import AllMasks, SparseRS, WordSubstitution
from sparsecert.attacks.judge import NOT_FOUND
from sparsecert.attacks.word_substitution import substitution_gains, vocabulary_words
from sparsecert.errors import InputError
from sparsecert.reports import summarise
from sparsecert.reports.gap import compute_gap
from sparsecert.runs import adversarial_images, attack_dataset, certify_dataset, target_of
from sparsecert.schemes import Partition, Scheme, Share
from sparsecert.smoothed import Smoothed
from sparsecert.training.texts import TextRecipe, train_texts
from tests.texts.made import smoothed, texts_of, write_tsv

QUICK = TextRecipe(epochs=2, vote_epochs=2, copies=8, batch=16, rate=0.02)


@pytest.mark.parametrize("scheme", [Partition(None, 100), Partition(None, 3), Share("0.3")], ids=str)
def test_a_run_finds_texts_that_fool_and_none_within_the_radius(scheme: Scheme, tmp_path: Path) -> None:
    path = write_tsv(tmp_path / "t.tsv", 120)
    model = train_texts(path, "sentence", "label", scheme, tmp_path / "m", QUICK, share=24)
    g = Smoothed.load(model)
    from sparsecert.inputs.texts import Texts

    data, exact = Texts.read(path, g.metadata), isinstance(scheme, Partition)
    certify_dataset(g, model, data, tmp_path / "c.jsonl", **({} if exact else {"n0": 50, "n": 400}))
    target = target_of(str(model), data, **({} if exact else {"n": 400}))
    attack_dataset(target, WordSubstitution(beam=2, candidates=16), data, tmp_path / "a.jsonl", goal="misclassify")
    certified, attacked = records.read(tmp_path / "c.jsonl"), records.read_attack(tmp_path / "a.jsonl")
    gap = compute_gap(certified, attacked, summarise(certified))
    assert gap.broken == ()
    found = [line for line in attacked.lines if line.distance]
    assert found
    changed = adversarial_images(attacked, data)
    for line, text in zip(attacked.lines, changed, strict=True):
        words = len(data.texts[line.example].split())
        assert max(line.pixels, default=0) < words
        if exact and line.distance:
            assert g.predict(text[None]).answers[0] == line.answer != line.true


def test_the_greedy_search_finds_the_fewest_words_of_a_vote_of_words() -> None:
    """Where every word votes by itself, each substitution by the worst word is worth the most: try all of them."""
    g, reader = smoothed(Partition(None, 100))
    words = vocabulary_words(g, 2)
    few = words[torch.linspace(0, len(words) - 1, 6).long()]
    for text in ("great film was fine it", "a dull plot"):
        inputs = torch.from_numpy(reader.batch([text]))
        label = int(g.predict(inputs).labels[0])
        bound = _bound(g, inputs.shape[2])
        shares: list[float] = []
        outcome = WordSubstitution(beam=1, candidates=4 * len(words))(
            AllMasks(bound),
            inputs,
            torch.tensor([label]),
            bounds=(-1, len(words) + 20),
            on_search=lambda share, _, shares=shares: shares.append(share),
        )
        assert shares == sorted(shares)
        assert shares[-1] == 1
        least = next((rho for rho in range(1, inputs.shape[2] + 1) if _fools(g, inputs, label, few, rho)), None)
        assert least is None or outcome.distances.item() <= least


def _bound(g: Smoothed, units: int) -> Smoothed:
    return Smoothed(g.model, g.scheme.for_units(units), g.encoding, precision="fp32", metadata=g.metadata)


def _fools(g: Smoothed, text: torch.Tensor, label: int, words: torch.Tensor, rho: int) -> bool:
    """Whether some replacement of rho words by these fools the vote."""
    tried = []
    for places in combinations(range(text.shape[2]), rho):
        for chosen in product(range(len(words)), repeat=rho):
            other = text[0].clone()
            other[:, list(places)] = words[list(chosen)].T
            tried.append(other)
    return bool((g.predict(torch.stack(tried)).labels != label).any())


def test_gains_are_the_slopes_of_the_lead() -> None:
    """Of a linear model of one word per copy, against the change of the lead by a small step along each word."""
    g, reader = smoothed(Partition(None, 100))
    text = torch.from_numpy(reader.numbers("great film was"))
    bound = _bound(g, 3)
    words = vocabulary_words(g, 2)
    gains = substitution_gains(bound, text, 1, words)
    assert gains is not None
    assert gains.shape == (3, len(words))
    for place in range(3):
        own = next(row for row, word in enumerate(words) if torch.equal(word, text[:, place]))
        assert gains[place, own].abs() < 1e-6  # a word in its own place changes nothing
    embedding, classify = g.model.words, g.model.classify  # type: ignore[union-attr]

    def vector(pieces: torch.Tensor) -> torch.Tensor:
        return sum(embedding(piece) for piece in pieces if piece >= 0)  # type: ignore[operator, return-value]

    with torch.no_grad():
        vectors = torch.stack([vector(text[:, place]) for place in range(3)])
        step, other = 1e-3, vector(words[4])
        moved = vectors.clone()
        moved[1] += step * (other - vectors[1])
        before, after = (classify(v).softmax(1).mean(0) for v in (vectors, moved))  # type: ignore[operator]
        slope = ((before[1] - before[0]) - (after[1] - after[0])) / step
    assert gains[1, 4].item() == pytest.approx(slope.item(), rel=0.05, abs=1e-4)


def test_attacks_are_for_their_own_kind_of_input() -> None:
    g, reader = smoothed(Partition(None, 100))
    text = torch.from_numpy(reader.batch(["great film"]))
    bound = _bound(g, 2)
    with pytest.raises(InputError, match="sparse-rs is an attack on images and rows, and these are texts"):
        SparseRS()(AllMasks(bound), text, torch.tensor([0]))
    with pytest.raises(InputError, match="word-substitution is an attack on texts, and these are images"):
        WordSubstitution()(AllMasks(bound), text.float(), torch.tensor([0]))


def test_nothing_is_found_beyond_the_budget() -> None:
    g, reader = smoothed(Partition(None, 100))
    inputs = torch.from_numpy(reader.batch(["great great great great great great great"]))
    label = g.predict(inputs).labels
    bound = _bound(g, 7)
    outcome = WordSubstitution()(AllMasks(bound), inputs, torch.from_numpy(label), bounds=(-1, 99), budget=1)
    assert outcome.distances.item() == NOT_FOUND


def test_texts_are_attacked_one_by_one(tmp_path: Path) -> None:
    g, reader = smoothed(Partition(None, 100))
    g.save(tmp_path / "m.safetensors")
    data = texts_of(reader, 4)
    target = target_of(str(tmp_path / "m.safetensors"), data)
    with pytest.raises(InputError, match="group must be a whole number between 1 and 1"):
        attack_dataset(target, WordSubstitution(), data, tmp_path / "a.jsonl", group=2)
