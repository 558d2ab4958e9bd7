"""A model of a table as a service: rows as JSON are answered as `sparsecert certify` answers them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")
pytest.importorskip("pandas", reason="the tables extra is not installed")

import pandas
from sklearn.ensemble import HistGradientBoostingClassifier

from sparsecert import records
from sparsecert.errors import InputError
from sparsecert.inputs.rows import Rows
from sparsecert.runs import certify_dataset
from sparsecert.schemes import FixedMasks
from sparsecert.service import Limits, Service, serve
from sparsecert.service.rows import RowParser
from sparsecert.smoothed import Smoothed
from sparsecert.tabular import AblatedClassifier, PartitionedClassifier
from sparsecert.tabular.tables import Columns
from sparsecert.tabular.training import train_table
from tests.service import hostile
from tests.service.made import asked, post
from tests.service.test_hostile import EXPECTED, answered_with

N0, N, SEED = 40, 150, 3


@dataclass(frozen=True)
class Served:
    """A model of a table, its service, and the table."""

    service: Service
    model: Path
    table: Path

    def rows(self) -> list[dict[str, Any]]:
        """As JSON has them: null where a value is missing."""
        found: list[dict[str, Any]] = json.loads(pandas.read_csv(self.table).to_json(orient="records"))
        return [{name: value for name, value in row.items() if name != "y"} for row in found]


def _table(columns: int, rows: int = 160) -> Any:
    """Numbers, some of them missing, and a column of text with ? where it is not known; three classes."""
    chance = np.random.default_rng(0)
    y = chance.integers(0, 3, rows)
    frame = {f"f{i}": y + chance.normal(0, 1.5, rows) for i in range(columns - 1)}
    frame["f0"][::7] = np.nan
    colour = np.where(chance.random(rows) < 0.8, np.array(["red", "blue", "green"])[y], "?")
    return pandas.DataFrame({**frame, "colour": colour, "y": np.array(["low", "middle", "high"])[y]})


def _served(folder: Path, columns: int, keep: int = 2, parts: int | None = None) -> Served:
    table = folder / "table.csv"
    _table(columns).to_csv(table, index=False)
    together = [["f1", "f2"]] if columns < 10 else []
    trees = HistGradientBoostingClassifier()
    ablated = AblatedClassifier(trees, keep=keep, copies=2, random_state=0)
    classifier = ablated if parts is None else PartitionedClassifier(trees, parts=parts, random_state=0)
    model = train_table(table, "y", classifier, folder, protected=["f3"], together=together)
    loaded = Smoothed.load(model, rows=64)
    parser = RowParser(Columns.from_config(loaded.metadata["table"]))
    service = serve(loaded, name="table", parser=parser, limits=Limits(body=20_000, samples=3_000))
    return Served(service, model, table)


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = _served(tmp_path_factory.mktemp("exact"), 7, 2)
    yield made
    made.service.close()


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = _served(tmp_path_factory.mktemp("sampled"), 17, 8)  # 8 of 16 units are too many masks to list
    yield made
    made.service.close()


def _lines(served: Served, out: Path) -> list[records.Record]:
    smoothed = Smoothed.load(served.model)
    samples = {} if isinstance(smoothed.scheme, FixedMasks) else {"n0": N0, "n": N, "seed": SEED}
    certify_dataset(smoothed, served.model, Rows.read(served.table, smoothed.metadata), out, limit=12, **samples)
    return records.read(out).lines


def test_the_certificate_is_that_of_the_command(exact: Served, tmp_path: Path) -> None:
    rows, classes = exact.rows(), Smoothed.load(exact.model).metadata["class_names"]
    for line in _lines(exact, tmp_path / "exact.jsonl"):
        answer = post(exact.service, "/v1/certify", {"row": rows[line.example]}).json()
        assert (answer["label"], answer["radius"]) == (line.label, line.radius)
        assert answer["name"] == classes[line.label]
        assert answer["votes"] == list(line.votes.votes)
        assert (answer["sampling"], answer["against"], answer["alpha"]) == ("exact", "features", None)


def test_parts_that_learnt_independently_are_served_and_the_answer_says_so(tmp_path: Path) -> None:
    served = _served(tmp_path, 7, parts=5)
    rows = served.rows()
    words = "even if the training inputs are perturbed in the same places, as long as the protected f3 is unchanged"
    for line in _lines(served, tmp_path / "parts.jsonl"):
        answer = post(served.service, "/v1/certify", {"row": rows[line.example]}).json()
        assert (answer["label"], answer["radius"]) == (line.label, line.radius)
        assert words in answer["guarantee"]
    served.service.close()


def test_the_votes_are_those_of_the_command(sampled: Served, tmp_path: Path) -> None:
    rows = sampled.rows()
    for line in _lines(sampled, tmp_path / "sampled.jsonl"):
        body = {"values": list(rows[line.example].values()), "n0": N0, "n": N, "seed": SEED, "example": line.example}
        answer = post(sampled.service, "/v1/certify", body).json()
        assert answer["votes"] == list(line.votes.votes)
        assert line.selection is not None
        assert answer["selection"] == list(line.selection.votes)
        assert (answer["selected"], answer["radius"]) == (line.label, line.radius)
        assert answer["against"] == "features"


def test_a_stream_of_a_row(sampled: Served) -> None:
    body = {
        "row": sampled.rows()[0],
        "sampling": "sequential",
        "n0": 40,
        "max_samples": 400,
        "stream": True,
        "copies": 2,
    }
    lines = [json.loads(line) for line in post(sampled.service, "/v1/certify", body).text.splitlines()]
    assert lines[-1]["event"] == "certificate"
    assert {len(copy["retained"]) for line in lines[:-1] for copy in line["copies"]} == {8}


def test_the_card_names_the_columns(exact: Served) -> None:
    card = asked(exact.service, lambda client: client.get("/v1/model")).json()
    assert card["columns"] == [*(f"f{i}" for i in range(6)), "colour"]
    assert card["classes"] == ["high", "low", "middle"]
    assert (card["shape"], card["precision"], card["exact"]) == ([7], "fp64", True)
    assert card["masks"] == 10  # 2 of 5 units: one of seven columns is protected, and two are one unit


def test_a_guarantee_says_what_it_takes_for_granted_of_protected_columns(exact: Served, sampled: Served) -> None:
    for served in (exact, sampled):
        settings = {} if served is exact else {"n0": N0, "n": N, "seed": SEED}
        answers = [post(served.service, "/v1/certify", {"row": row, **settings}).json() for row in served.rows()[:8]]
        certified = [answer["guarantee"] for answer in answers if answer["radius"] is not None]
        assert certified
        assert all("as long as the protected f3 is unchanged" in sentence for sentence in certified)
        card = asked(served.service, lambda client: client.get("/v1/model")).json()
        assert "as long as the protected f3 is unchanged" in card["guarantee"]


def test_a_value_that_nobody_knew_is_a_missing_one(exact: Served) -> None:
    row = exact.rows()[1]
    votes = [
        post(exact.service, "/v1/predict", {"row": {**row, "colour": colour}}).json()["votes"]
        for colour in ("violet", None, "?", " ", 5)
    ]
    assert votes.count(votes[0]) == len(votes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"f0": "small"}, "the column f0 must be a number or null, got 'small'"),
        ({"f0": True}, "the column f0 must be a number or null, got True"),
        ({"f0": 10**400}, "the column f0 must be a finite number"),
        ({"colour": ["red"]}, "the column colour must be text or null, got a list"),
        ({"size": 1}, "the model has no column 'size'"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused(exact: Served, change: dict[str, Any], sentence: str) -> None:
    refused = post(exact.service, "/v1/predict", {"row": {**exact.rows()[0], **change}})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"row": {}}, "the row lacks the column f0; use null for a missing value"),
        ({"values": [1, 2]}, "values must be a list of 7 values, one per column, got 2"),
        ({"image": "aGVsbG8="}, "this model takes rows of a table, not images"),
        ({"values": [0] * 7, "row": {}}, "give the input as exactly one of values, image, row and text"),
        ({"values": [0] * 7, "n": 5}, "n is for masks drawn at random"),
    ],
)
def test_other_inputs_are_refused(exact: Served, body: dict[str, Any], sentence: str) -> None:
    refused = post(exact.service, "/v1/predict", body)
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(sentence)


def test_no_request_breaks_the_service(tmp_path: Path) -> None:
    served = _served(tmp_path, 17, 8)
    row = served.rows()[0]
    good = {"row": row, "n": 100, "seed": 7}
    seen = answered_with(served.service, good, lambda chance: hostile.row_given(chance, row), each=80)
    assert {*seen} <= EXPECTED
    assert seen[422] > 80
    assert seen[200] > 10


def test_dates_are_read_as_in_training_or_refused() -> None:
    frame = pandas.DataFrame({"since": ["2020-01-01", "2021-06-15T12:00"], "x": [1.0, 2.0]})
    columns = Columns.of(frame)
    parser, expected = RowParser(columns), columns.encode(frame)
    for row, wanted in zip(frame.to_dict("records"), expected, strict=True):
        np.testing.assert_array_equal(parser.from_row(row)[0], wanted)
    assert parser.from_row({"since": "tomorrow", "x": 1})[0].isnan().tolist() == [True, False]
    with pytest.raises(InputError, match="since must be a date"):
        parser.from_row({"since": 18262, "x": 1})
