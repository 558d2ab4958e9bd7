"""Sequential sampling in records: written, resumed, refused if damaged, and certified again by reports."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sparsecert import datasets
from sparsecert.bounds import predicted
from sparsecert.certificates import certify_anytime
from sparsecert.counts import Tally
from sparsecert.errors import InputError
from sparsecert.procedures.sequential import Sequential
from sparsecert.records import Header, Record, Records, Writer, read
from sparsecert.reports import summarise
from sparsecert.reports.comparison import remarks
from sparsecert.reports.summary import certificates_of
from sparsecert.runs import certify_dataset, load_batch
from sparsecert.schemes import Uniform
from sparsecert.smoothed import Smoothed
from tests.contracts import ANYTIME_NAMES
from tests.helpers import untimed
from tests.reports.made import header

SHORT = Sequential(max_samples=700, n0=64)


def _radius(radius: int | None) -> int:
    return -1 if radius is None else radius


def _certify(trained: Path, out: Path, sampling: Sequential = SHORT, rows: int | None = None, **changes: Any) -> None:
    smoothed = Smoothed.load(trained, rows=rows)
    settings = {"limit": 14, "seed": 3, **changes}
    certify_dataset(smoothed, trained, datasets.load("digits"), out, procedure=sampling, **settings)


@pytest.fixture(scope="module")
def recorded(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a run of 14 inputs in groups of two."""
    out = tmp_path_factory.mktemp("sequential") / "certify.jsonl"
    _certify(trained, out, rows=24)
    return out


@pytest.fixture(scope="module")
def answered(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a run that was asked whether the radius is at least 1."""
    out = tmp_path_factory.mktemp("answered") / "certify.jsonl"
    _certify(trained, out, replace(SHORT, at_least=1))
    return out


def test_records_are_what_smoothed_returns(trained: Path, recorded: Path, answered: Path) -> None:
    data = datasets.load("digits")
    indices = data.spaced_indices(14).tolist()
    for path, sampling in ((recorded, SHORT), (answered, replace(SHORT, at_least=1))):
        c = Smoothed.load(trained).certify(load_batch(data, indices), procedure=sampling, seed=3, examples=indices)
        found = read(path)
        assert found.header.run["sampling"] == {"kind": "sequential", **sampling.config()}
        assert (found.header.run["n0"], found.header.run["n"]) == (64, 636)
        assert [line.example for line in found.lines] == indices
        assert [line.radius for line in found.lines] == [certificate.radius for certificate in c]
        assert [line.label for line in found.lines] == c.selected.tolist()
        assert [list(line.votes.votes) for line in found.lines] == c.counts.tolist()
        assert [line.samples for line in found.lines] == c.samples.tolist()
        assert [line.copies for line in found.lines] == c.samples.tolist()
        assert tuple(line.answer for line in found.lines) == c.answers
        assert {line.p_lower for line in found.lines} == {None}


def test_what_is_read_is_written_again_as_it_was(recorded: Path, answered: Path, tmp_path: Path) -> None:
    for path in (recorded, answered):
        found = read(path)
        with Writer(tmp_path / path.parent.name, found.header) as writer:
            writer.append(found.lines)
        assert (tmp_path / path.parent.name).read_bytes() == path.read_bytes()


def test_a_run_cut_anywhere_ends_with_the_same_content(trained: Path, recorded: Path, tmp_path: Path) -> None:
    data, cut = recorded.read_bytes(), tmp_path / "cut.jsonl"
    first = data.index(b"\n") + 1
    for end in (first - 20, first, *range(first + 30, len(data), (len(data) - first) // 5)):
        cut.write_bytes(data[:end])
        _certify(trained, cut, rows=24 if end < first else None)  # otherwise those that the run was started with
        assert untimed(cut) == untimed(recorded)


def test_another_sampling_is_another_run(trained: Path, recorded: Path, tmp_path: Path) -> None:
    before = recorded.read_bytes()
    for other in (replace(SHORT, tolerance=0.02), replace(SHORT, at_least=1)):
        with pytest.raises(InputError, match=r"holds another run: sampling\..* is"):
            _certify(trained, recorded, other)
    with pytest.raises(InputError, match="holds another run: "):
        certify_dataset(
            Smoothed.load(trained), trained, datasets.load("digits"), recorded, n0=64, n=636, limit=14, seed=3
        )
    assert recorded.read_bytes() == before


def test_progress_adds_up_to_the_samples(trained: Path, tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    for _ in range(2):
        reported.clear()
        _certify(trained, tmp_path / "c.jsonl", limit=5, on_progress=lambda *more: reported.append(more))
        assert sum(inputs for inputs, _ in reported) == 5
        taken = sum(line.copies for line in read(tmp_path / "c.jsonl").lines)
        assert sum(copies for _, copies in reported) in (taken, 0)
    assert sum(copies for _, copies in reported) == 0


def _damaged(path: Path, tmp_path: Path, **changes: Any) -> Path:
    """The file with facts of its second line replaced, or taken out where None."""
    lines = path.read_text().splitlines()
    line = {**json.loads(lines[1]), **changes}
    lines[1] = json.dumps({key: value for key, value in line.items() if value is not None})
    out = tmp_path / "damaged.jsonl"
    out.write_text("\n".join(lines) + "\n")
    return out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 50}, "samples 50"),
        ({"samples": 701}, "samples 701"),
        ({"samples": 300.0}, "samples 300.0"),
        ({"samples": True}, "samples True"),
        ({"samples": None}, "p_lower"),
        ({"estimation": {}}, "votes add up to 0, not 636"),
        ({"estimation": {"0": 637}}, "votes add up to 637, not 636"),
        ({"selection": {}}, "votes add up to 0, not 64"),
        ({"estimation": {"0": 50, "1": -10}}, "votes add up to"),
        ({"answer": "yes"}, "answer 'yes'"),
    ],
)
def test_damaged_lines_are_refused(recorded: Path, tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=rf"line 2 is damaged \(.*{message}.*\); delete it"):
        read(_damaged(recorded, tmp_path, **changes))


@pytest.mark.parametrize("answer", ["maybe", None, 1, ["yes"]])
def test_an_answer_that_is_none_is_refused(answered: Path, tmp_path: Path, answer: Any) -> None:
    with pytest.raises(InputError, match=r"line 2 is damaged \(answer "):
        read(_damaged(answered, tmp_path, answer=answer))


def test_samples_in_the_file_of_a_fixed_number_are_refused(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    certify_dataset(Smoothed.load(trained), trained, datasets.load("digits"), path, n0=5, n=20, limit=2)
    with pytest.raises(InputError, match=r"line 2 is damaged \(samples do not fit the run's sampling\)"):
        read(_damaged(path, tmp_path, samples=25))


def test_reports_draw_the_recorded_radii_from_the_votes(recorded: Path) -> None:
    found = read(recorded)
    again = certificates_of(found, Uniform(64, 16), 0.05, "two-sided")
    assert [c.radius for _, c in again] == [line.radius for line in found.lines]
    s, lines = summarise(found), found.lines
    right = [_radius(line.radius) if line.label == line.true else -1 for line in lines]
    assert list(s.certified_accuracy) == [sum(r >= rho for r in right) / 14 for rho in range(max(right) + 1)]
    assert s.mean_samples == sum(line.samples or 0 for line in lines) / 14
    assert s.answers is None
    assert not s.recertified


@pytest.mark.parametrize("bound", ANYTIME_NAMES)
@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_another_alpha_or_bound_is_a_certificate_at_a_stopping_time_too(
    recorded: Path, alpha: float, bound: str
) -> None:
    found = read(recorded)
    s = summarise(found, alpha=alpha, bound=bound)
    radii = [
        certify_anytime(line.selection, line.votes, Uniform(64, 16), alpha, bound, 636).radius
        for line in found.lines
        if line.selection is not None
    ]
    right = [_radius(r) if line.label == line.true else -1 for r, line in zip(radii, found.lines, strict=True)]
    assert list(s.certified_accuracy) == [sum(r >= rho for r in right) / 14 for rho in range(max(right) + 1)]
    if alpha < 0.05:
        assert sum(right) <= sum(_radius(line.radius) for line in found.lines)


def test_answers_are_counted_at_the_alpha_and_bound_they_were_given_at(answered: Path) -> None:
    """A "no" cannot be drawn again from the votes that are kept."""
    found = read(answered)
    s = summarise(found)
    given = [line.answer for line in found.lines]
    assert s.answers == {answer: given.count(answer) for answer in ("yes", "no", "undecided")}
    counts = ", ".join(f"{answer} {count}" for answer, count in s.answers.items())
    assert f"radius at least 1: {counts}" in remarks(s)
    for other in (summarise(found, alpha=0.01), summarise(found, bound="one-sided")):
        assert other.answers is None
        assert not any("radius at least" in remark for remark in remarks(other))


def test_stopped_votes_are_never_given_to_a_test_for_a_fixed_number() -> None:
    """Votes that the binomial test answers, stopped where they looked best, prove nothing at a stopping time."""
    lucky, sure, selection = Tally((61, 39, 0)), Tally((300, 5, 5)), Tally((30, 20, 0))
    assert predicted(lucky, Fraction(1, 20)) == 0
    lines = tuple(
        Record(example, 0, votes, 0, 0.5, selection, radius=0, samples=360)
        for example, votes in enumerate((lucky, sure))
    )
    sampling = {"kind": "sequential", **Sequential(max_samples=460, n0=60).config()}
    fixed: Header = header(inputs=2)
    records = Records(Path("made.jsonl"), replace(fixed, run={**fixed.run, "sampling": sampling}), lines)
    s = summarise(records)
    assert (s.accuracy, s.abstained) == (0.5, 0.5)
    assert (s.uncertified, s.certified) == (1, 1)
    assert summarise(replace(records, header=fixed)).abstained == 0
