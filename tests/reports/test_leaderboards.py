"""Entries of leaderboards: their own fields, the numbers of the records, and a word on what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparsecert.errors import InputError
from sparsecert.records import Writer
from sparsecert.reports import summarise, summarise_attack
from sparsecert.reports.leaderboards import Paper, robustbench, sok
from tests.commands import exit_code
from tests.reports.made import ABSTAINED, AT_4, AT_6, AT_12, certified, header
from tests.reports.test_attacks import FOUND
from tests.reports.test_attacks import made as attacked

VOTES = [AT_4, AT_6, AT_12, AT_6, ABSTAINED]  # radii 4, 6, 12, 6, none
PAPER = Paper('A "paper"', "A. Author, B. Author", "Venue 2026", "https://example.org/1", "Network")


def test_an_entry_of_the_board_of_certified_robustness() -> None:
    """As a reader of YAML sees it; the score is the certified accuracy."""
    yaml = pytest.importorskip("yaml")
    text, lacks = sok([summarise(certified(VOTES))], (5, 40), PAPER)
    first, second = yaml.safe_load(text)
    assert first["setting"] == r"made_up,&nbsp; \(\ell_0\),&nbsp; \(\epsilon=5\)"
    (record,) = first["records"]
    assert list(record) == ["score", "title", "link", "venue", "prob", "comment"]
    assert (record["score"], record["title"], record["prob"]) == ("60.00%", 'A "paper"', True)
    assert "alpha = 0.05" in record["comment"]
    assert second["records"][0]["score"] == "0.00%"
    assert lacks == []
    mnist = certified(VOTES, data={**header().run["data"], "name": "mnist"})
    assert sok([summarise(mnist)], (), PAPER)[0].startswith(
        r'- setting: "MNIST,&nbsp; \\(\\ell_0\\),&nbsp; \\(\\epsilon=6'
    )


def test_a_model_of_robustbench() -> None:
    certificates, attack = summarise(certified(VOTES)), summarise_attack(attacked(FOUND))
    text, lacks = robustbench([certificates], [attack], (), PAPER)
    fields = json.loads(text)
    assert list(fields) == [
        *("link", "name", "authors", "additional_data", "number_forward_passes", "dataset", "venue", "architecture"),
        *("eps", "clean_acc", "reported", "autoattack_acc", "footnote", "unreliable"),
    ]
    assert (fields["eps"], fields["reported"]) == ("6", "60.00")
    assert fields["clean_acc"] == f"{100 * certificates.accuracy:.2f}"
    assert fields["autoattack_acc"] == f"{100 * attack.accuracy_at(6):.2f}"
    assert (fields["number_forward_passes"], fields["additional_data"]) == (certificates.n, None)
    assert (fields["authors"], fields["architecture"]) == (PAPER.authors, PAPER.architecture)
    assert "pointwise" in fields["footnote"]
    assert len(lacks) == 1
    alone = json.loads(robustbench([], [attack], (7,), PAPER)[0])
    assert (alone["clean_acc"], alone["reported"], alone["autoattack_acc"]) == ("80.00", "", "60.00")


def test_what_is_missing_is_an_empty_field_and_named() -> None:
    text, (lacks,) = sok([summarise(certified(VOTES))], (5,), Paper(title="Mine"))
    assert 'link: ""' in text
    assert lacks == "the records do not say: link, venue; give --link, --venue, or fill the empty fields in"
    fields, remarks = robustbench([summarise(certified(VOTES))], [], (5,), Paper())
    assert json.loads(fields)["name"] == json.loads(fields)["autoattack_acc"] == ""
    assert [line.split(":")[0] for line in remarks] == [
        "the records do not say",
        "the records do not say whether additional data was used in training; fill additional_data in",
        "autoattack_acc is empty",
    ]


def test_what_a_leaderboard_does_not_take_is_refused() -> None:
    good, attack = summarise(certified(VOTES)), summarise_attack(attacked(FOUND))
    with pytest.raises(InputError, match="sok takes records of certify, and these are of attacks"):
        sok([], (5,), PAPER)
    with pytest.raises(InputError, match="are certified: choose a radius with --rho"):
        sok([summarise(certified([ABSTAINED] * 3))], (), PAPER)
    for summaries, attacks, rhos in (([good, good], [], (1,)), ([good], [attack, attack], (1,)), ([good], [], (1, 2))):
        with pytest.raises(InputError, match="robustbench takes one certify run, one attack run, or both"):
            robustbench(summaries, attacks, rhos, PAPER)
    with pytest.raises(InputError, match="robustbench needs --rho"):
        robustbench([], [attack], (), PAPER)


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = certified(VOTES, path=str(tmp_path / "certify.jsonl"))
    with Writer(made.path, made.header) as writer:
        writer.append(list(made.lines))
    assert exit_code("report", made.path, "--format", "sok", "--rho", 4, "--title", "Mine") == 0
    said = capsys.readouterr()
    assert "score: 80.00%" in said.out
    assert said.err == "the records do not say: link, venue; give --link, --venue, or fill the empty fields in\n"
    assert exit_code("report", made.path, "--format", "robustbench", "--rho", 4) == 0
    assert json.loads(capsys.readouterr().out)["reported"] == "80.00"
    for arguments, message in (
        (["--title", "Mine"], "--title is for sok and robustbench; add --format, or leave it out"),
        (["--rho", 4], "--rho is for attack records"),
        (["--format", "sok", "--top", 2], "--format sok is for certified accuracy, not for --top"),
    ):
        assert exit_code("report", made.path, *arguments) == 2
        assert message in capsys.readouterr().err
