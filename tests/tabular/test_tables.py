"""Tables from files: columns as numbers, the held-out rows, and the whole way on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")
pytest.importorskip("pandas", reason="the tables extra is not installed")

import pandas
import torch
from click.testing import CliRunner

from benchmarks.uci import load_table
from sparsecert import records
from sparsecert.certificates import CERTIFICATES
from sparsecert.cli import cli
from sparsecert.errors import InputError
from sparsecert.inputs.rows import Rows
from sparsecert.reports import summarise
from sparsecert.schemes import AllSubsets, Uniform
from sparsecert.smoothed import Smoothed
from sparsecert.tabular.tables import Columns, describe_columns, held_out, read_frame, split_target

KEPT = Path(__file__).parents[1] / "kept" / "table.safetensors"


def _frame(rows: int = 240) -> Any:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, rows)
    noisy = {f"f{i}": np.where(generator.random(rows) < 0.85, y, 1 - y) for i in range(5)}
    colour = np.where(generator.random(rows) < 0.9, np.array(["red", "blue"])[y], "?")
    return pandas.DataFrame({"id": np.arange(rows), **noisy, "colour": colour, "y": np.array(["no", "yes"])[y]})


def _sparsecert(*arguments: Any) -> Any:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def test_text_becomes_numbers_and_what_is_missing_or_unknown_becomes_null() -> None:
    frame = pandas.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "?", " blue"]})
    columns = Columns.of(frame)
    assert columns.categories == {"colour": ("blue", "red")}
    np.testing.assert_array_equal(columns.encode(frame), [[1.0, 1.0], [np.nan, np.nan], [3.0, 0.0]])
    other = pandas.DataFrame({"more": [0], "colour": ["green"], "size": [np.inf]})
    np.testing.assert_array_equal(columns.encode(other), [[np.nan, np.nan]])
    with pytest.raises(InputError, match="lacks the columns size"):
        columns.encode(other.drop(columns=["size"]))
    with pytest.raises(InputError, match="size was numeric"):
        columns.encode(pandas.DataFrame({"size": ["big"], "colour": ["red"]}))


def test_files_are_read_or_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    _frame().to_csv(path, index=False)
    features, labels = split_target(read_frame(path), "y")
    assert list(features.columns) == ["id", "f0", "f1", "f2", "f3", "f4", "colour"]
    assert set(labels) == {"no", "yes"}
    with pytest.raises(InputError, match="no column 'z'"):
        split_target(features, "z")
    with pytest.raises(InputError, match="is not a file"):
        read_frame(tmp_path / "other.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(InputError, match="cannot be read as a table"):
        read_frame(tmp_path / "empty.csv")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y,y\n1,0,0\n", "^[^ ]*table.csv has several columns named y; rename"),
        ("a, y,y\n1,0,0\n", "several columns named y"),
        ("a,b,y\n", "has no rows"),
        ("a;b;y\n1;2;0\n", "no column 'y'; its columns are a;b;y; is it separated by commas"),
        ("y\n0\n1\n", "no column besides the target y"),
    ],
)
def test_a_file_that_is_no_table_with_a_target_says_why(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "table.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        split_target(read_frame(tmp_path / "table.csv"), "y")


def test_a_text_column_is_read_as_it_is_written_whatever_the_other_rows_hold(tmp_path: Path) -> None:
    """Else pandas takes a column for whole numbers, or with a gap for fractions, and no value of it is known again."""
    (tmp_path / "train.csv").write_text("code ,y\n01,a\n2,b\nx,a\n")
    (tmp_path / "later.csv").write_text("code ,y\n01,a\n2,b\n")
    (tmp_path / "gap.csv").write_text("code ,y\n01,a\n2,b\n,a\n")
    features, _ = split_target(read_frame(tmp_path / "train.csv"), "y")
    columns = Columns.of(features)
    assert columns.categories == {"code": ("01", "2", "x")}
    for name, expected in (("later.csv", [0, 1]), ("gap.csv", [0, 1, np.nan])):
        rows = columns.encode(read_frame(tmp_path / name, text=columns.categories))
        np.testing.assert_array_equal(rows[:, 0], expected)


def test_parquet_gives_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow, which reads Parquet, is not installed")
    _frame().to_csv(tmp_path / "table.csv", index=False)
    _frame().to_parquet(tmp_path / "table.parquet")
    one, other = read_frame(tmp_path / "table.csv"), read_frame(tmp_path / "table.parquet")
    np.testing.assert_array_equal(Columns.of(one).encode(one), Columns.of(other).encode(other))
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="cannot be read as a table"):
        read_frame(tmp_path / "damaged.parquet")


def test_the_held_out_rows_are_a_share_by_the_seed() -> None:
    one = held_out(100, 0.25, seed=0)
    assert one.sum() == 25
    np.testing.assert_array_equal(one, held_out(100, 0.25, seed=0))
    assert (one != held_out(100, 0.25, seed=1)).any()
    for share in (0.0, 1.0, 0.001):
        with pytest.raises(InputError, match="held-out"):
            held_out(100, share, seed=0)


def test_train_certify_and_report_exactly(tmp_path: Path) -> None:
    """The recorded radii are those of the records' own rankings; the run continues where it stopped."""
    table, run = tmp_path / "table.csv", tmp_path / "run"
    _frame().to_csv(table, index=False)
    trained = _sparsecert("train", table, "--target", "y", "--keep", 2, "--drop", "id", "--out", run)
    assert trained.exit_code == 0, trained.output
    model = Smoothed.load(run)
    assert model.scheme == AllSubsets(6, 2)
    assert model.metadata["class_names"] == ["no", "yes"]
    refused = _sparsecert("certify", run, "--data", table, "--alpha", 0.01)
    assert isinstance(refused.exception, InputError)
    assert "--alpha is for masks drawn at random; the 15 masks of this model are fixed" in str(refused.exception)
    certified = _sparsecert("certify", run, "--data", table, "--rankings")
    assert certified.exit_code == 0, certified.output
    assert "table.csv held-out" in certified.output
    held = records.read(run / "certify.jsonl")
    assert [line.example for line in held.lines] == np.flatnonzero(held_out(240, 0.25, 0)).tolist()
    own, again = summarise(held), summarise(held, rule="run-off")
    assert own.certified_accuracy == again.certified_accuracy  # of two classes, run-off is plurality
    assert own.certified_accuracy[1] > 0.3
    lines = (run / "certify.jsonl").read_text().splitlines(keepends=True)
    (run / "certify.jsonl").write_text("".join(lines[:10]))
    assert _sparsecert("certify", run, "--data", table).exit_code == 0
    assert [line.radius for line in records.read(run / "certify.jsonl").lines] == [line.radius for line in held.lines]
    reported = _sparsecert("report", run / "certify.jsonl", "--format", "json")
    reported = json.loads(reported.output)
    assert (reported["masks"], reported["units"], reported["keep"]) == (15, 6, 2)
    assert tuple(reported["certified_accuracy"]) == own.certified_accuracy


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table and the folder of a model for it, of all 15 masks of two features."""
    folder = tmp_path_factory.mktemp("trained")
    _frame().to_csv(folder / "table.csv", index=False)
    settings = "--target", "y", "--keep", 2, "--drop", "id", "--out", folder / "run"
    assert _sparsecert("train", folder / "table.csv", *settings).exit_code == 0
    return folder / "table.csv", folder / "run"


def test_new_rows_need_no_target_and_get_answers(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """The answers are those of the model itself, and of the same rows with a target."""
    _, run = trained
    new = _frame(300).tail(60)
    new.drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    new.to_csv(tmp_path / "labelled.csv", index=False)
    found = {}
    for verb, data in (("certify", "new"), ("certify", "labelled"), ("predict", "new")):
        done = _sparsecert(verb, run, "--data", tmp_path / f"{data}.csv", "--out", tmp_path / f"{verb}-{data}.csv")
        assert done.exit_code == 0, done.output
        found[verb, data] = pandas.read_csv(tmp_path / f"{verb}-{data}.csv")
    answers = found["certify", "new"]
    g = Smoothed.load(run)
    rows = Columns.from_config(g.metadata["table"]).encode(read_frame(tmp_path / "new.csv"))
    expected = g.certify(torch.from_numpy(rows))
    assert list(answers.columns) == ["row", "answer", "radius", "abstained"]
    assert answers["row"].tolist() == list(range(60))
    assert answers["answer"].tolist() == [g.metadata["class_names"][label] for label in expected.labels]
    assert answers["radius"].tolist() == expected.radii.tolist()
    assert set(answers["abstained"]) == {"no"}
    assert found["certify", "labelled"].drop(columns="true").equals(answers)
    assert found["certify", "labelled"]["true"].tolist() == new["y"].tolist()
    assert found["predict", "new"].equals(answers.drop(columns="radius"))
    refused = _sparsecert("report", tmp_path / "certify-new.jsonl")
    assert "no accuracy to report" in str(refused.exception)
    refused = _sparsecert("attack", run, "--data", tmp_path / "new.csv", "--out", tmp_path / "attack.jsonl")
    assert "an attack needs the true classes" in str(refused.exception)


def test_abstentions_among_the_answers_are_empty(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    y = generator.integers(0, 2, 200)
    columns = {f"c{i:02d}": np.where(generator.random(200) < 0.6, y, 1 - y) for i in range(30)}
    pandas.DataFrame({**columns, "y": y}).to_csv(tmp_path / "table.csv", index=False)
    pandas.DataFrame(columns).to_csv(tmp_path / "new.csv", index=False)
    run, out = tmp_path / "run", tmp_path / "answers.csv"
    assert _sparsecert("train", tmp_path / "table.csv", "--target", "y", "--keep", 5, "--out", run).exit_code == 0
    sampled = _sparsecert("certify", run, "--data", tmp_path / "new.csv", "--n0", 20, "--n", 60, "--out", out)
    assert sampled.exit_code == 0, sampled.output
    answers, lines = pandas.read_csv(out), records.read(tmp_path / "answers.jsonl").lines
    without = [line.radius is None for line in lines]
    assert (answers["abstained"] == "yes").tolist() == without
    assert answers["answer"].isna().tolist() == answers["radius"].isna().tolist() == without
    assert 0 < sum(without) < 200


def test_short_records_hold_the_answers_of_long_ones(trained: tuple[Path, Path], tmp_path: Path) -> None:
    """Without rankings, which prove them again; they are resumed as they were begun, and refuse another rule."""
    table, run = trained
    short, long = tmp_path / "short.jsonl", tmp_path / "long.jsonl"
    assert _sparsecert("certify", run, "--data", table, "--out", short).exit_code == 0
    assert _sparsecert("certify", run, "--data", table, "--out", long, "--rankings").exit_code == 0
    one, other = records.read(short), records.read(long)
    assert [(line.label, line.radius, line.votes) for line in one.lines] == [
        (line.label, line.radius, line.votes) for line in other.lines
    ]
    assert all(line.rankings is None for line in one.lines)
    ours, theirs = summarise(one), summarise(other)
    assert (ours.certified_accuracy, ours.accuracy) == (theirs.certified_accuracy, theirs.accuracy)
    with pytest.raises(InputError, match="has no rankings to elect by run-off"):
        summarise(one, rule="run-off")
    long.write_text("".join(long.read_text().splitlines(keepends=True)[:7]))
    assert _sparsecert("certify", run, "--data", table, "--out", long).exit_code == 0
    assert all(line.rankings is not None for line in records.read(long).lines)
    damaged = short.read_text().replace('"votes": {', '"votes": {"0": 99, ', 1)
    short.write_text(damaged)
    with pytest.raises(InputError, match="is damaged"):
        records.read(short)


def test_a_constant_answer_stands_beside_the_accuracy(trained: tuple[Path, Path], tmp_path: Path) -> None:
    table, run = trained
    assert _sparsecert("certify", run, "--data", table, "--out", tmp_path / "records.jsonl").exit_code == 0
    held = pandas.read_csv(table)["y"][held_out(240, 0.25, 0)].value_counts()
    found = summarise(records.read(tmp_path / "records.jsonl"))
    assert found.most_frequent == (held.index[0], held.iloc[0] / held.sum())


def test_values_that_cannot_be_read_are_counted(trained: tuple[Path, Path], tmp_path: Path) -> None:
    frame = _frame(30).assign(colour=["green", "?", "red"] * 10)
    frame.to_csv(tmp_path / "new.csv", index=False)
    rows = Rows.read(tmp_path / "new.csv", Smoothed.load(trained[1]).metadata)
    assert [note.split(" values")[0] for note in rows.notes] == ["colour: 10 of 30"]
    assert Rows.read(trained[0], Smoothed.load(trained[1]).metadata).notes == ()


def test_dates_become_days_and_stay_dates(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {"day": ["1970-01-02", None, "2000-02-29"], "late": ["31.12.", "x", "y"], "y": list("aba")}
    )
    frame.to_csv(tmp_path / "table.csv", index=False)
    columns = Columns.of(split_target(read_frame(tmp_path / "table.csv"), "y")[0])
    assert [columns.kind(name) for name in columns.names] == ["date", "category"]
    again = Columns.from_config(json.loads(json.dumps(columns.config())))
    days = [1.0, np.nan, (pandas.Timestamp("2000-02-29") - pandas.Timestamp("1970-01-01")).days]
    np.testing.assert_array_equal(again.encode(frame)[:, 0], days)
    stamps = frame.assign(day=pandas.to_datetime(frame["day"]) + pandas.Timedelta(hours=12))
    np.testing.assert_array_equal(again.encode(stamps)[:, 0], np.array(days) + 0.5)
    other = pandas.DataFrame({"day": ["soon", "2000-02-30"], "late": ["x", "x"]})
    assert np.isnan(again.encode(other)[:, 0]).all()
    assert again.date(" 1970-01-02") == 1.0


def test_columns_are_described_and_identifiers_pointed_at(tmp_path: Path) -> None:
    frame = _frame().assign(key=[f"k{i}" for i in range(240)], x=np.random.default_rng(0).random(240))
    frame["since"] = pandas.date_range("2020-01-01", periods=240).astype(str)
    lines, suspects = describe_columns(Columns.of(frame.drop(columns="f4")), frame, ["f4"])
    assert suspects == ["id", "key"]
    kinds = dict(lines)
    assert (kinds["id"], kinds["x"], kinds["since"], kinds["f4"]) == ("number", "number", "date", "left out")
    assert kinds["colour"].startswith("category")
    frame.to_csv(tmp_path / "table.csv", index=False)
    done = _sparsecert("train", tmp_path / "table.csv", "--target", "y", "--keep", 2, "--out", tmp_path / "run")
    assert "--drop id --drop key" in done.output


def test_masks_drawn_at_random_are_certified_two_sided(tmp_path: Path) -> None:
    table, run = tmp_path / "table.csv", tmp_path / "run"
    generator = np.random.default_rng(1)
    y = generator.integers(0, 2, 200)
    columns = {f"c{i:02d}": np.where(generator.random(200) < 0.8, y, 1 - y) for i in range(30)}
    pandas.DataFrame({**columns, "y": y}).to_csv(table, index=False)
    settings = ["--keep", 5, "--protected", "c00", "--together", "c01,c02", "--out", run]
    trained = _sparsecert("train", table, "--target", "y", *settings)
    assert trained.exit_code == 0, trained.output
    model = Smoothed.load(run)
    assert model.scheme == Uniform(28, 5)
    assert model.encoding.groups.tolist() == [-1, 0, 0, *range(1, 28)]
    certified = _sparsecert("certify", run, "--data", table, "--n0", 20, "--n", 100, "--limit", 10)
    assert certified.exit_code == 0, certified.output
    for line in records.read(run / "certify.jsonl").lines:
        assert line.selection is not None
        again = CERTIFICATES["two-sided"].certify(line.selection, line.votes, model.scheme, 0.05)
        assert (line.label, line.radius) == (again.interval.label, again.radius)


def test_rows_of_three_classes_are_certified_predicted_and_attacked_by_pairs(tmp_path: Path) -> None:
    table, run = tmp_path / "table.csv", tmp_path / "run"
    generator = np.random.default_rng(1)
    y = generator.integers(0, 3, 200)
    columns = {f"c{i:02d}": y + generator.normal(0, 1.5, 200) for i in range(20)}
    pandas.DataFrame({**columns, "y": y}).to_csv(table, index=False)
    assert _sparsecert("train", table, "--target", "y", "--keep", 5, "--out", run).exit_code == 0
    model, by_pairs = Smoothed.load(run), ("--data", table, "--limit", 8, "--bound", "pairwise")
    assert model.scheme == Uniform(20, 5)
    attack = "--attack", "noise", "--n", 100, "--out", run / "attack.jsonl"
    for verb, *settings in (("certify", "--n0", 20, "--n", 200), ("predict", "--n", 200), ("attack", *attack)):
        done = _sparsecert(verb, run, *by_pairs, *settings)
        assert done.exit_code == 0, done.output
    for line in records.read(run / "certify.jsonl").lines:
        assert line.selection is not None
        assert line.votes.above is not None
        assert any(above > line.votes.votes[line.selection.leader()] for above in line.votes.above)
        again = CERTIFICATES["pairwise"].certify(line.selection, line.votes, model.scheme, 0.05)
        assert (line.label, line.radius) == (again.interval.label, again.radius)
    for kind in ("predict", "attack"):
        found = records.read_attack(run / "attack.jsonl") if kind == "attack" else records.read(run / "predict.jsonl")
        assert found.header.run["rule"] == "pairwise"
    assert _sparsecert("report", run / "certify.jsonl", run / "attack.jsonl").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "y"], "a table needs --target"),
        (["--target", "z", "--keep", "2"], "no column 'z'"),
        (["--target", "y", "--keep", "2", "--protected", "age"], "no column 'age'"),
        (["--target", "y", "--keep", "2", "--together", "f0,f1", "--together", "f1,f2"], "in two groups"),
        (["--target", "y", "--keep", "9"], "keep must be"),
        (["--target", "y", "--keep", "2", "--copies", "0"], "copies must be"),
        (["--target", "y", "--keep", "1", *(f"--drop={name}" for name in _frame(1).columns[:-1])], "leave some"),
        (["--target", "y", "--keep", "2", "--epochs", "3"], "--epochs is for images"),
        (["--target", "id", "--keep", "2"], "the target id has 90 different values in 90 rows"),
    ],
)
def test_mistakes_on_the_command_line_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    _frame(120).to_csv(tmp_path / "table.csv", index=False)
    refused = _sparsecert("train", tmp_path / "table.csv", "--out", tmp_path / "run", *arguments)
    assert refused.exit_code != 0
    assert message in str(refused.exception)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": torch.nn.Identity()}, "holds its whole model, the trees of a table; leave out model"),
        ({"device": "cuda"}, "the trees of a table run on the CPU, got device 'cuda'"),
        ({"device": torch.device("mps")}, "the trees of a table run on the CPU, got device 'mps'"),
        ({"precision": "bf16"}, "the trees of a table compute in fp64, got precision 'bf16'"),
    ],
)
def test_trees_refuse_what_only_networks_can_follow(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Smoothed.load(KEPT, **settings)


def test_trees_take_the_usual_device_and_precision() -> None:
    usual: list[dict[str, Any]] = [{"device": "auto", "precision": "auto"}, {"device": torch.device("cpu"), "rows": 9}]
    for settings in usual:
        g = Smoothed.load(KEPT, **settings)
        assert (g.device.type, g.precision) == ("cpu", "fp64")


def test_options_of_a_table_need_one(tmp_path: Path) -> None:
    refused = _sparsecert("train", "--data", "digits", "--out", tmp_path, "--target", "y")
    assert "--target is for a table" in str(refused.exception)
    assert "give --data and --out" in str(_sparsecert("train", "--keep", 3).exception)


def test_a_model_of_images_does_not_take_a_table(tmp_path: Path) -> None:
    _frame(40).to_csv(tmp_path / "table.csv", index=False)
    refused = _sparsecert("certify", "mnist-k45", "--data", tmp_path / "table.csv", "--out", tmp_path / "out.jsonl")
    assert "was not trained on a table" in str(refused.exception)


def test_a_model_of_a_table_does_not_take_images(tmp_path: Path) -> None:
    _frame(40).to_csv(tmp_path / "table.csv", index=False)
    trained = _sparsecert(
        "train", tmp_path / "table.csv", "--target", "y", "--keep", 2, "--copies", 1, "--together", "f0, f1",
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert trained.exit_code == 0, trained.output
    for command in ("certify", "predict"):
        refused = _sparsecert(command, tmp_path / "run", "--data", "digits", "--out", tmp_path / "out.jsonl")
        assert "was trained on a table; --data must be a table file" in str(refused.exception)


def test_named_tables_are_read_from_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "tabular"
    folder.mkdir()
    (folder / "adult.data").write_text("age, job, Y\n39, ?, <=50K\n50, Sales, >50K\n")
    (folder / "adult.test").write_text("age, job, Y\n20, Tech, >50K.\n")
    table = load_table("adult", tmp_path)
    assert table.classes == ("<=50K", ">50K")
    assert table.labels.tolist() == [0, 1, 1]
    np.testing.assert_array_equal(table.rows, [[39, np.nan], [50, 0], [20, 1]])
    (folder / "spambase.data").write_text("0.5,3,1\n0,2,0\n")
    spam = load_table("spambase", tmp_path)
    assert spam.rows.tolist() == [[0.5, 3.0], [0.0, 2.0]]
    assert spam.labels.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"needs phishing.csv"):
        load_table("phishing", tmp_path)
    with pytest.raises(InputError, match="table must be one of"):
        load_table("iris", tmp_path)
