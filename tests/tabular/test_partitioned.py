"""Parts of a table that learn independently: what is poisoned changes its own part's estimator alone.

That no perturbation in training or at test changes a certified answer is proved in `tests/proof/test_independent.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="the tables extra is not installed")

import joblib
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from sparsecert import modelfile, records
from sparsecert.errors import InputError
from sparsecert.procedures import Exact
from sparsecert.schemes import Partition
from sparsecert.smoothed import Smoothed
from sparsecert.tabular import PROTECTED, PartitionedClassifier
from sparsecert.tabular.trees import Trees
from tests.commands import sparsecert
from tests.tabular.hashed import Hashed
from tests.tabular.rejecting import Rejecting

CLASSES = 3


def _table(columns: int = 9, rows: int = 300) -> tuple[Any, Any]:
    """Every column says something of the class."""
    chance = np.random.default_rng(0)
    y = chance.integers(0, CLASSES, rows)
    return y[:, None] + chance.normal(0, 0.8, (rows, columns)), y


def _lightgbm() -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
    return lightgbm.LGBMClassifier(
        n_estimators=5, subsample=0.7, subsample_freq=1, deterministic=True, force_col_wise=True, n_jobs=1, verbose=-1
    )


BASES = {
    "histograms": lambda: HistGradientBoostingClassifier(max_iter=5, max_features=0.5),
    "lightgbm": _lightgbm,
    "random splits": lambda: ExtraTreeClassifier(max_depth=4),
    "linear": lambda: LogisticRegression(max_iter=1_000),
}


def _learnt(estimator: Any) -> bytes:
    """All that it learnt."""
    if isinstance(estimator, HistGradientBoostingClassifier):
        trees = Trees.of(estimator)
        return b"".join(array.tobytes() for array in (*trees.nodes.values(), trees.roots, trees.baseline))
    if isinstance(estimator, ExtraTreeClassifier):
        state = estimator.tree_.__getstate__()
        return state["nodes"].tobytes() + state["values"].tobytes()
    if isinstance(estimator, LogisticRegression):
        return estimator.coef_.tobytes() + estimator.intercept_.tobytes()
    return str(estimator.booster_.model_to_string()).encode()


@pytest.mark.parametrize("kind", ["noise", "shuffled", "extreme", "constant"])
@pytest.mark.parametrize("base", BASES)
def test_poisoned_columns_change_their_own_part_alone(base: str, kind: str) -> None:
    rows, y = _table()
    chance = np.random.default_rng(1)
    poison = {
        "noise": chance.normal(0, 9, rows.shape),
        "shuffled": chance.permuted(rows, axis=0),
        "extreme": np.where(rows > 1, 1e5, -1e5) if base == "linear" else np.where(rows > 1, 1e30, -1e30),
        "constant": np.zeros_like(rows),
    }[kind]
    g = PartitionedClassifier(BASES[base](), parts=4, random_state=0)
    clean = [_learnt(one) for one in g.fit(rows, y).estimators_]
    g.fit(np.where(g.columns_[[1, 2]].any(axis=0), poison, rows), y)
    same = [before == _learnt(after) for before, after in zip(clean, g.estimators_, strict=True)]
    assert same == [True, False, False, True]


def test_the_parts_see_their_columns_and_the_protected_ones() -> None:
    rows, y = _table(7)
    g = PartitionedClassifier(DecisionTreeClassifier(), parts=3, groups=[0, 0, 1, 2, -1, 3, 4], protected=[6])
    g.fit(rows, y)
    assert g.units_.tolist() == [0, 0, 1, 2, PROTECTED, 3, PROTECTED]
    assert g.scheme_ == Partition(4, 3)
    assert g.columns_.sum(axis=0).tolist() == [1, 1, 1, 1, 3, 1, 3]
    assert [one.n_features_in_ for one in g.estimators_] == g.columns_.sum(axis=1).tolist()
    again = PartitionedClassifier(DecisionTreeClassifier(), parts=3, partitions=2, scheme_seed=5).fit(rows, y)
    assert again.scheme_ == Partition(7, 3, rounds=2, seed=5)
    assert len(again.estimators_) == 6


def test_each_estimator_has_a_seed_of_its_own_that_no_value_decides() -> None:
    rows, y = _table()
    g = PartitionedClassifier(ExtraTreeClassifier(), parts=4, random_state=3)
    seeds = [one.random_state for one in g.fit(rows, y).estimators_]
    assert len({*seeds}) == 4
    assert [one.random_state for one in g.fit(-rows, y).estimators_] == seeds
    with joblib.parallel_config(backend="threading"):
        two = PartitionedClassifier(ExtraTreeClassifier(), parts=4, random_state=3, n_jobs=2).fit(rows, y)
    assert [_learnt(one) for one in two.estimators_] == [_learnt(one) for one in g.fit(rows, y).estimators_]


@pytest.mark.parametrize("rule", ["pairwise", "run-off", "plurality"])
def test_answers_are_elected_and_certified_by_the_rule(rule: str) -> None:
    """The votes by a plain loop over the estimators; missing values are as good as any."""
    rows, y = _table()
    rows[::5, 3] = np.nan
    names = np.array(["low", "middle", "high"])
    g = PartitionedClassifier(HistGradientBoostingClassifier(max_iter=5), parts=9, rule=rule, random_state=0)
    found = g.fit(rows, names[y]).certify(rows[:40])
    np.testing.assert_array_equal(found.names, g.predict(rows[:40]))
    first = np.stack(
        [one.predict(rows[:40][:, seen]) for one, seen in zip(g.estimators_, g.columns_, strict=True)], axis=1
    )
    np.testing.assert_array_equal(g.votes(rows[:40]), (first[:, :, None] == np.arange(CLASSES)).sum(axis=1))
    assert g.score(rows, names[y]) > 0.8
    assert found.certified(names[y][:40], 1).mean() > 0.3
    assert found.procedure == Exact(rule)


def test_an_estimator_without_probabilities_votes_by_its_answer_alone() -> None:
    rows, y = _table()
    g = PartitionedClassifier(RidgeClassifier(), parts=3, random_state=0).fit(rows, y)
    ranks = g.certify(rows[:5]).ranks
    answers = np.stack([one.predict(rows[:5][:, seen]) for one, seen in zip(g.estimators_, g.columns_, strict=True)])
    np.testing.assert_array_equal(ranks.argmin(axis=2), answers.T)
    with pytest.raises(ValueError, match="contains NaN"):
        g.predict(np.full((1, 9), np.nan))


def test_an_answer_that_is_no_class_is_a_vote_for_nobody() -> None:
    """Where a value is missing, this estimator has no answer."""
    g = PartitionedClassifier(Rejecting(-1), parts=3, random_state=0).fit(np.zeros((2, 3)), [0, 1])
    with pytest.warns(UserWarning, match="not finite"):
        found = g.certify([[np.nan, 0.0, 0.0]])
    assert (found.counts.tolist(), found.names.tolist(), found.radii.tolist()) == ([[2, 0]], [0], [1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"parts": 4}, r"parts must be a whole number between 1 and units \(3\), got 4"),
        ({"parts": 2, "rule": "lot"}, "rule must be one of"),
        ({"parts": 2, "protected": [0, 1, 2]}, "leave at least one column"),
    ],
)
def test_refusals_name_the_parameter(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        PartitionedClassifier(Hashed(), **settings).fit(np.zeros((4, 3)), [0, 1, 0, 1])


def _write(path: Path, **poison: Any) -> Path:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    rows, y = _table(6)
    frame = pandas.DataFrame({f"f{i}": rows[:, i].round(3) for i in range(6)})
    frame["colour"] = np.where(np.arange(300) % 11, np.array(["red", "blue", "green"])[y], "?")
    frame["age"] = np.arange(300) % 7
    frame = frame.assign(**poison)
    frame["y"] = y
    frame.to_csv(path, index=False)
    return path


def _train(table: Path, run: Path, *options: object) -> Path:
    settings = ["--target", "y", "--scheme", "partition", "--parts", 7, "--protected", "age", *options]
    done = sparsecert("train", table, *settings, "--out", run)
    assert done.returncode == 0, done.stderr
    return run


POISONS: dict[str, Any] = {
    "text": np.where(np.arange(300) % 2, "x", "1"),
    "deleted": np.nan,
    "extreme": np.where(np.arange(300) % 2, 1e300, -1e300),
    "infinite": np.inf,
    "quoted": 'a, "b"\nc',
}


@pytest.mark.parametrize(
    ("kind", "estimator"), [*((kind, "histogram") for kind in POISONS), ("text", "lightgbm"), ("extreme", "lightgbm")]
)
def test_a_file_poisoned_in_two_columns_gives_the_same_trees_for_all_others(
    tmp_path: Path, kind: str, estimator: str
) -> None:
    """Whatever the columns become: text where there were numbers, nothing, or numbers that are none."""
    pytest.importorskip("lightgbm" if estimator == "lightgbm" else "sklearn", reason="LightGBM is not installed")
    clean = _train(_write(tmp_path / "clean.csv"), tmp_path / "clean", "--estimator", estimator)
    table = _write(tmp_path / "poisoned.csv", f1=POISONS[kind], colour=POISONS[kind])
    again = _train(table, tmp_path / "poisoned", "--estimator", estimator)
    tensors, poisoned = (modelfile.read(run)[0] for run in (clean, again))
    scheme = Smoothed.load(clean).scheme
    assert scheme == Partition(7, 7)
    hit = {f"part.{int(scheme.table[:, unit].argmax())}" for unit in (1, 6)}  # type: ignore[attr-defined]
    differ = {
        name.rpartition(".")[0]
        for name in tensors.keys() | poisoned.keys()
        if name not in poisoned or tensors[name].tolist() != poisoned[name].tolist()
    }
    assert differ == hit


def test_train_certify_predict_and_report(tmp_path: Path) -> None:
    table = _write(tmp_path / "table.csv")
    run = _train(table, tmp_path / "run")
    model = Smoothed.load(run)
    assert model.metadata["independent"] is True
    assert model.encoding.config()["marked"] is True
    certified = sparsecert("certify", run, "--data", table)
    assert certified.returncode == 0, certified.stderr
    assert "radii hold if the same units are perturbed in the training inputs too" in " ".join(certified.stdout.split())
    held = records.read(run / "certify.jsonl")
    assert (held.header.run["against"], held.header.run["independent"]) == ("features", True)
    assert held.header.run["rule"] == "pairwise"
    assert max(line.radius or 0 for line in held.lines) >= 2
    assert np.mean([line.label == line.true for line in held.lines]) > 0.7
    predicted = sparsecert("predict", run, "--data", table)
    assert predicted.returncode == 0, predicted.stderr
    assert [line.label for line in records.read(run / "predict.jsonl").lines] == [line.label for line in held.lines]
    assert "independent" not in records.read(run / "predict.jsonl").header.run
    reported = json.loads(sparsecert("report", run / "certify.jsonl", "--rule", "plurality", "--format", "json").stdout)
    assert (reported["masks"], reported["units"], reported["bound"]) == (7, 7, "plurality")


@pytest.mark.parametrize("estimator", ["histogram", "lightgbm"])
def test_the_file_gives_the_answers_of_the_classifier(tmp_path: Path, estimator: str) -> None:
    from sparsecert.inputs.rows import Rows

    base: Any = HistGradientBoostingClassifier()
    if estimator == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        base = lightgbm.LGBMClassifier(deterministic=True, force_col_wise=True, verbose=-1)
    table = _write(tmp_path / "table.csv")
    settings = "--partitions", 2, "--together", "f0,f1", "--parts", 3, "--estimator", estimator
    model = Smoothed.load(_train(table, tmp_path / "run", *settings))
    assert model.scheme == Partition(6, 3, rounds=2)
    data = Rows.read(table, model.metadata)
    chosen = np.isin(np.arange(300), data.chosen)
    groups = [0, 0, 1, 2, 3, 4, 5, -1]
    g = PartitionedClassifier(base, parts=3, partitions=2, groups=groups, random_state=0)
    g.fit(data.values[~chosen], data.labels[~chosen])
    mine, files = g.certify(data.values[chosen]), model.certify(torch.from_numpy(data.values[chosen]))
    for name in ("labels", "radii", "counts"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(files, name))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scheme", "partition", "--parts", 70], "parts must be"),
        (["--scheme", "partition"], "--parts"),
        (["--scheme", "partition", "--parts", 3, "--copies", 2], "--copies is for --keep"),
        (["--scheme", "partition", "--parts", 3, "--keep", 2], "--keep is for --scheme"),
        (["--scheme", "lattice", "--parts", 3], "--scheme lattice is for images; for a table use uniform or partition"),
        (["--scheme", "partition", "--parts", 3, "--epochs", 2], "--epochs is for images"),
    ],
)
def test_mistakes_on_the_command_line_are_named(tmp_path: Path, options: list[Any], message: str) -> None:
    table = _write(tmp_path / "table.csv")
    done = sparsecert("train", table, "--target", "y", *options, "--out", tmp_path / "run")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_file_whose_trees_do_not_fit_their_columns_is_refused(tmp_path: Path) -> None:
    run = _train(_write(tmp_path / "table.csv"), tmp_path / "run")
    tensors, header = modelfile.read(run)
    tensors["part.2.feature_idx"] += 2  # a part sees its own column and the protected one
    modelfile.write(tmp_path / "wrong.safetensors", tensors, header)
    with pytest.raises(InputError, match="do not fit its columns"):
        Smoothed.load(tmp_path / "wrong.safetensors")
    modelfile.write(tmp_path / "short.safetensors", {k: t for k, t in tensors.items() if "part.6" not in k}, header)
    with pytest.raises(InputError, match="damaged header"):
        Smoothed.load(tmp_path / "short.safetensors")
