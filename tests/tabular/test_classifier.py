"""Certificates of tables, checked against every change there is."""

from __future__ import annotations

import zlib
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("sklearn", reason="the tables extra is not installed")

from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.plurality import top_choices
from sparsecert.encodings import Indicator, NotANumber
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed
from sparsecert.schemes import AllSubsets, Uniform
from sparsecert.tabular import PROTECTED, AblatedClassifier, greedy_attack, one_hot_groups
from sparsecert.tabular.units import units_of
from tests.helpers import one_plurality
from tests.tabular.hashed import Hashed
from tests.tabular.rejecting import Rejecting

VALUES = (0.0, 1.0, np.nan)  # NaN: an attacker may delete a value


def _table(columns: int, classes: int) -> tuple[Any, Any]:
    rows = np.array(list(product(VALUES[:2], repeat=columns)))
    return rows, np.arange(len(rows)) % classes


def _changes(row: Any, units: Any, perturbed: tuple[int, ...]) -> Any:
    """Every row that differs from this one in these units alone."""
    columns = np.flatnonzero(np.isin(units, perturbed))
    for values in product(VALUES, repeat=len(columns)):
        changed = row.copy()
        changed[columns] = values
        yield changed


def _all_changes(row: Any, units: Any, radius: int) -> Any:
    sets = combinations(range(int(units.max()) + 1), radius)
    return np.array([changed for perturbed in sets for changed in _changes(row, units, perturbed)])


@pytest.mark.parametrize(
    ("keep", "groups", "classes", "leaning"),
    [
        (1, None, 2, 0.6),
        (2, None, 2, 0.8),
        (2, None, 3, 0.85),
        (1, [0, 0, 1, 2, 3], 3, 0.7),
        (1, ["a", "b", "a", "c", PROTECTED], 2, 0.7),
    ],
)
def test_no_perturbation_within_the_radius_changes_an_exact_answer(
    keep: int, groups: Any, classes: int, leaning: float
) -> None:
    rows, y = _table(5, classes)
    certified = 0
    for salt in range(3):
        g = AblatedClassifier(Hashed(leaning, salt), keep=keep, groups=groups, copies=1, random_state=0).fit(rows, y)
        assert g.exact_
        found = g.certify(rows[::5])
        np.testing.assert_array_equal(found.names, g.predict(rows[::5]))
        for row, answer, radius in zip(rows[::5], found.names, found.radii, strict=True):
            certified += int(radius)
            assert (g.predict(_all_changes(row, g.units_, int(radius))) == answer).all()
    assert certified > 0


class Graded(Hashed):
    """As `Hashed`, with probabilities of its own for all classes, which do not lean to its answer."""

    def predict_proba(self, rows: Any) -> Any:
        chance = [np.random.default_rng(zlib.crc32(row.tobytes() + bytes([self.salt]))) for row in np.asarray(rows)]
        lean = self.leaning * (np.arange(len(self.classes_)) == 1)
        return np.array([each.random(len(self.classes_)) + lean for each in chance])


@pytest.mark.parametrize("rule", ["pairwise", "run-off"])
@pytest.mark.parametrize(("keep", "groups"), [(2, None), (1, [0, 0, 1, 2, 3])])
def test_no_perturbation_within_the_radius_changes_an_answer_elected_by_rankings(
    rule: str, keep: int, groups: Any
) -> None:
    (rows, y), certified, differ = _table(5, 3), 0, 0
    for salt in range(4):
        base = Graded(0.4, salt)
        g = AblatedClassifier(base, keep=keep, groups=groups, copies=1, rule=rule, random_state=0).fit(rows, y)
        found = g.certify(rows[::3])
        np.testing.assert_array_equal(found.names, g.predict(rows[::3]))
        np.testing.assert_array_equal(found.names, g.predict_or_abstain(rows[::3]))
        for row, answer, radius in zip(rows[::3], found.names, found.radii, strict=True):
            assert (g.predict(_all_changes(row, g.units_, int(radius))) == answer).all()
        certified += int(found.radii.sum())
        differ += int((found.names != g.votes(rows[::3]).argmax(axis=1)).sum())
    assert certified > 0
    assert differ > 0  # it is not elected by first choices alone


def test_the_pairwise_certificate_of_random_masks_holds_for_the_class_that_beats_all() -> None:
    """By all masks, of every change within the radius; at so small an alpha none may fail."""
    rows, y = _table(5, 3)
    settings: dict[str, Any] = {"keep": 1, "copies": 1, "rule": "pairwise", "random_state": 1}
    g = AblatedClassifier(Graded(0.9), most_masks=0, n0=50, n=2_000, alpha=1e-6, **settings).fit(rows, y)
    exact = AblatedClassifier(Graded(0.9), **settings).fit(rows, y)
    assert isinstance(g.scheme_, Uniform)
    found, answers = g.certify(rows), g.predict_or_abstain(rows)
    assert found.procedure == Fixed(50, 2_000, "pairwise")
    assert found.estimation.above is not None
    assert found.radii.max() >= 1
    for row, answer, radius in zip(rows, found.names, found.radii, strict=True):
        if answer is not None:
            assert (exact.predict(_all_changes(row, g.units_, int(radius))) == answer).all()
    assert any(answer is not None for answer in answers)
    assert all(one is None or one == true for one, true in zip(answers, exact.predict(rows), strict=True))
    assert all(one is None or one == chosen for one, chosen in zip(answers, g.predict(rows), strict=True))


def test_rules_that_are_none_or_need_all_masks_are_refused() -> None:
    rows, y = _table(5, 2)
    with pytest.raises(InputError, match="rule must be one of"):
        AblatedClassifier(Hashed(0.5), keep=2, rule="lot").fit(rows, y)
    with pytest.raises(InputError, match=r"rule run-off is for all masks, .*; use plurality or pairwise"):
        AblatedClassifier(Hashed(0.5), keep=2, rule="run-off", most_masks=0).fit(rows, y)


def test_exact_radii_are_those_of_plurality_by_enumeration() -> None:
    rows, y = _table(6, 3)
    g = AblatedClassifier(Hashed(0.7), keep=2, copies=1, random_state=0).fit(rows, y)
    found = g.certify(rows)
    votes = np.stack([top_choices(ranks) for ranks in found.ranks])
    for row, label, radius in zip(votes, found.labels, found.radii, strict=True):
        by_units = one_plurality(row, 3, PerturbedUnits(g.scheme_.table))
        assert label == by_units.label
        assert radius >= by_units.radius
    assert (found.counts.sum(axis=1) == 15).all()


def test_the_two_sided_certificate_holds_for_the_smoothed_classifier() -> None:
    """The true answer, by all masks, of every change within the radius; at so small an alpha none may fail."""
    rows, y = _table(5, 2)
    g = AblatedClassifier(Hashed(0.9), keep=1, copies=1, most_masks=0, n0=50, n=2_000, alpha=1e-6, random_state=1).fit(
        rows, y
    )
    exact = AblatedClassifier(Hashed(0.9), keep=1, copies=1, random_state=1).fit(rows, y)
    assert isinstance(g.scheme_, Uniform)
    assert isinstance(exact.scheme_, AllSubsets)
    found = g.certify(rows)
    assert found.alpha == 1e-6
    assert found.radii.max() >= 1
    for row, answer, radius in zip(rows, found.names, found.radii, strict=True):
        if answer is not None:
            assert (exact.predict(_all_changes(row, g.units_, int(radius))) == answer).all()
    assert all(
        answer is None or answer == true
        for answer, true in zip(g.predict_or_abstain(rows), exact.predict(rows), strict=True)
    )


def test_answers_that_are_no_class_count_against_the_leader() -> None:
    rows = np.zeros((2, 20))
    g = AblatedClassifier(Rejecting(), keep=2, most_masks=0, random_state=0).fit(rows, [0, 1])
    changed = rows[:1].copy()
    changed[:, 1:4] = 9  # three perturbed units: 51 of the 190 masks show one of them and not the first, 19 the first
    assert g.predict(changed) == [1]
    found = g.certify(rows[:1])
    assert found.counts.sum() < 200  # of 1,000 votes; the class has a tenth of the probability, and no rival has any
    assert found.radii[0] < 3
    assert g.predict_or_abstain(rows[:1])[0] is None  # as the votes for no class might all be for the other
    assert g.predict_proba(np.full((1, 20), np.nan)).sum() == 0


@pytest.mark.parametrize("none", [-1, 2, 0.5, 1 << 16, (1 << 16) + 1, np.nan, np.inf, 1e30], ids=str)
@pytest.mark.parametrize("most_masks", [100, 0], ids=["exact", "sampled"])
def test_an_answer_that_is_no_class_is_a_vote_for_nobody(none: float, most_masks: int) -> None:
    """Whatever it is: not every number that is no class stays one where votes are whole numbers of 16 bits."""
    row = np.array([[np.nan, 9.0, 0.0, 0.0, 0.0, 0.0]])
    g = AblatedClassifier(Rejecting(none), keep=2, most_masks=most_masks, n=200, random_state=0)
    found = g.fit(np.zeros((2, 6)), [0, 1]).certify(row)
    assert found.counts[0, 0] == g.votes(row)[0, 0] == 0
    assert g.predict(row) == [1]
    if g.exact_:  # ten of the fifteen masks see no 9 and vote for nobody
        assert (found.counts.tolist(), found.names.tolist(), found.radii.tolist()) == ([[0, 5]], [1], [0])
    else:
        assert found.abstained.all()


def test_it_abstains_where_the_votes_are_even() -> None:
    rows = np.zeros((2, 40))
    g = AblatedClassifier(Hashed(0.0), keep=20, copies=1, n0=20, n=50, random_state=0).fit(rows, [0, 1])
    found = g.certify(rows)
    assert found.abstained.all()
    assert found.names.tolist() == [None, None]
    assert found.radii.tolist() == [-1, -1]
    assert not found.certified([0, 1], 0).any()
    assert (g.predict(rows) >= 0).all()
    assert g.predict_or_abstain(rows).tolist() == [None, None]


def test_cores_do_not_change_the_result() -> None:
    generator = np.random.default_rng(0)
    rows, y = generator.normal(size=(150, 6)), generator.integers(0, 2, 150)
    base = DecisionTreeClassifier(max_depth=3)
    one = AblatedClassifier(base, keep=2, copies=2, random_state=3).fit(rows, y)
    two = AblatedClassifier(base, keep=2, copies=2, random_state=3, n_jobs=2).fit(rows, y)
    for name in ("labels", "radii", "counts"):
        np.testing.assert_array_equal(getattr(one.certify(rows), name), getattr(two.certify(rows), name))
    np.testing.assert_array_equal(one.predict_proba(rows), two.predict_proba(rows))


@pytest.mark.parametrize("name", ["histogram", "lightgbm"])
def test_boosted_trees_take_null_as_it_is_and_learn_from_ablated_rows(name: str) -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    rows = np.where(generator.random((400, 8)) < 0.9, y[:, None], 1 - y[:, None]).astype(float)
    base: Any = HistGradientBoostingClassifier(max_iter=20)
    if name == "lightgbm":
        base = pytest.importorskip("lightgbm", reason="LightGBM is not installed").LGBMClassifier(
            n_estimators=20, verbose=-1
        )
    g = AblatedClassifier(base, keep=3, random_state=0).fit(rows, y)
    assert isinstance(g.encoding_, NotANumber)
    assert g.score(rows, y) > 0.9
    assert g.certify(rows).certified(y, 1).mean() > 0.5


def test_a_column_without_any_value_is_ignored() -> None:
    generator = np.random.default_rng(0)
    rows = generator.random((80, 3))
    rows[:, 2] = np.nan
    labels = (rows[:, 0] > 0.5).astype(int)
    g = AblatedClassifier(HistGradientBoostingClassifier(max_iter=3), keep=2, random_state=0).fit(rows, labels)
    perturbed = np.where(np.arange(3) == 2, 7.0, rows[:10])
    np.testing.assert_array_equal(g.votes(perturbed), g.votes(rows[:10]))


def test_null_is_a_fill_value_and_an_indicator_for_others() -> None:
    rows = np.array([[1.0, np.nan], [3.0, 4.0]])
    g = AblatedClassifier(LogisticRegression(), keep=1, random_state=0).fit(rows, [0, 1], sample_weight=[1.0, 3.0])
    assert isinstance(g.encoding_.encoding, Indicator)
    seen = g.encoding_(torch.from_numpy(rows), torch.tensor([[True, True], [False, True]])).flatten(1)
    assert seen.tolist() == [[1.0, 4.0, 0.0, 1.0], [2.5, 4.0, 1.0, 0.0]]


def test_fit_treats_a_row_that_is_there_twice_as_one_of_twice_the_weight() -> None:
    generator = np.random.default_rng(0)
    rows, y = generator.normal(size=(60, 5)), generator.integers(0, 2, 60)
    times = generator.integers(0, 3, 60)
    base = DecisionTreeClassifier(max_depth=4, random_state=0)
    weighted = AblatedClassifier(base, keep=2, random_state=0).fit(rows, y, sample_weight=times)
    repeated = AblatedClassifier(base, keep=2, random_state=0).fit(np.repeat(rows, times, axis=0), np.repeat(y, times))
    np.testing.assert_array_equal(weighted.votes(rows), repeated.votes(rows))


def test_units_are_columns_or_groups_and_some_are_protected() -> None:
    assert units_of(3, None, None, None).tolist() == [0, 1, 2]
    assert units_of(5, ["a", "b", "a", -1, "c"], None, None).tolist() == [0, 1, 0, -1, 2]
    assert units_of(3, None, ["age"], ["sex", "age", "pay"]).tolist() == [0, -1, 1]
    assert units_of(3, None, [False, False, True], None).tolist() == [0, 1, -1]
    assert units_of(3, None, [-1], None).tolist() == [0, 1, -1]
    for groups, protected, message in (
        ([0, 1], None, "one entry for each of the 3 columns, got 2"),
        ("abc", None, "must be a sequence"),
        (None, [0, 1, 2], "must leave at least one column"),
        (None, [3], "from 0 to 2"),
        (None, ["age"], "has no column names"),
        (None, [True, False], "one boolean for each"),
    ):
        with pytest.raises(InputError, match=message):
            units_of(3, groups, protected, None)


def test_one_hot_columns_of_a_category_are_one_unit() -> None:
    table = np.array([["red", "s"], ["green", "m"], ["blue", "m"]])
    assert one_hot_groups(OneHotEncoder().fit(table)) == [0, 0, 0, 1, 1]
    assert one_hot_groups(OneHotEncoder(drop="first").fit(table), first=4) == [4, 4, 5]
    with pytest.raises(InputError, match="fitted OneHotEncoder"):
        one_hot_groups(OneHotEncoder())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": 4}, "keep must be a whole number between 1 and units"),
        ({"keep": 1.5}, "share between 0 and 1"),
        ({"keep": 1, "copies": 0}, "copies must be"),
        ({"keep": 1, "null": "zero"}, "null must be one of"),
    ],
)
def test_refusals_name_the_parameter(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        AblatedClassifier(Hashed(), **settings).fit(np.zeros((4, 3)), [0, 1, 0, 1])


def test_it_is_a_scikit_learn_estimator_with_names_and_parameters() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"age": [1.0, 2.0, 3.0, None], "pay": [1, 0, 1, 0], "sex": [0, 0, 1, 1]})
    g = AblatedClassifier(Hashed(), keep=1, protected=["sex"], random_state=0)
    again = clone(g).fit(frame, ["no", "yes", "no", "yes"])
    assert again.get_params()["protected"] == ["sex"]
    assert again.units_.tolist() == [0, 1, PROTECTED]
    assert list(again.feature_names_in_) == ["age", "pay", "sex"]
    assert set(again.predict(frame)) <= {"no", "yes"}


def test_the_greedy_attack_finds_the_one_feature_that_decides_and_stays_outside_certificates() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 2, (200, 6)).astype(float)
    plain = DecisionTreeClassifier(random_state=0).fit(rows, rows[:, 2].astype(int))
    found = greedy_attack(plain, rows[0], int(rows[0, 2]), rows[:20])
    assert found.fooled_at == 1
    assert found.perturbed == (2,)
    assert found.path[1, 2] != rows[0, 2]
    g = AblatedClassifier(Hashed(0.7), keep=2, copies=1, random_state=0).fit(rows, rows[:, 2].astype(int))
    certificates = g.certify(rows[:10])
    for row, answer, radius in zip(rows, certificates.names, certificates.radii, strict=False):
        found = greedy_attack(g, row, answer, rows[:10], most=3)
        assert found.wrong[0] is False
        assert found.fooled_at is None or found.fooled_at > radius
        for number, changed in enumerate(found.path):
            assert ((changed != row) & ~(np.isnan(changed) & np.isnan(row))).sum() <= number


def test_an_attack_refuses_rows_of_another_width() -> None:
    with pytest.raises(InputError, match="equally wide"):
        greedy_attack(Hashed(), np.zeros(3), 0, np.zeros((2, 4)))
