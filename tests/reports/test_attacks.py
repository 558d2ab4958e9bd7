"""Reports of attacks against hand-made records, and the watch over certificates that an attack breaks."""

from __future__ import annotations

import csv
import doctest
import io
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from sparsecert.certificates.adversary import PerturbedUnits
from sparsecert.certificates.plurality import first_choices
from sparsecert.errors import InputError
from sparsecert.procedures import exact
from sparsecert.records import (
    ATTACK,
    AttackRecord,
    AttackRecords,
    Header,
    Record,
    Records,
    Writer,
    rankings,
)
from sparsecert.reports import (
    alarm,
    attack_report,
    attacks,
    compute_gap,
    compute_gaps,
    summarise,
    summarise_attack,
    write_attack_curves,
    write_gaps,
)
from sparsecert.reports.attack_curves import _attack_figure, _gap_figure
from sparsecert.reports.attack_tables import rho_table
from sparsecert.reports.drawing import STYLES
from sparsecert.reports.gap import Gap, Pair
from sparsecert.reports.summary import certificates_of
from sparsecert.schemes import FixedMasks
from sparsecert.schemes import from_config as scheme_from_config
from tests.helpers import modules_after

from .made import ABSTAINED, AT_4, AT_6, AT_12, CHOOSE_0, certified, header

SMOOTHED: dict[str, Any] = {"masks": "common", "error": 0.05}


def made(
    found: list[tuple[int | None, int | None]],
    *,
    path: str = "runs/made/attack.jsonl",
    inputs: int | None = None,
    failed: int = 0,
    **changes: Any,
) -> AttackRecords:
    """Attack records of (distance, said) for images 0, 3, 6, ..., all of class 0."""
    base = header("predict", inputs=inputs or len(found) + failed).run
    facts = {"attack": {"name": "pointwise", "restarts": 10}, "bounds": [0.0, 1.0], "budget": None, "group": 4}
    run = {**base, **SMOOTHED, **facts, "data": {**base["data"], "shape": [1, 10, 10]}, **changes}
    lines = [
        AttackRecord(3 * i, 0, distance, said, 10 + i, 100 * (i + 1), 0.5, *_pixels(distance or 0))
        for i, (distance, said) in enumerate(found)
    ]
    lines += [AttackRecord(900 + i, 0, None, None, 0, 0, 0.1, failed="a reason") for i in range(failed)]
    return AttackRecords(Path(path), Header(ATTACK, run, {"model": "model.safetensors", "device_name": "slow"}), lines)


def _pixels(distance: int) -> tuple[tuple[int, ...], tuple[tuple[float], ...]]:
    return tuple(range(distance)), ((1.0,),) * distance


# One answered wrongly as it is, one misclassified and two brought to abstain, one never fooled.
FOUND: list[tuple[int | None, int | None]] = [(0, 2), (9, 1), (13, None), (7, None), (None, 0)]
VOTES = [AT_6, AT_6, AT_12, AT_6, ABSTAINED]  # radii 6, 6, 12, 6, none


def test_the_numbers_of_an_attack() -> None:
    found = summarise_attack(made(FOUND, failed=2))
    assert (found.inputs, found.failed, found.attacked, found.incomplete) == (7, 2, 5, False)
    assert found.clean_accuracy == 4 / 5
    assert found.median == 9
    assert (found.right, found.successes, found.abstained) == (4, 3, 2 / 3)
    assert found.mean_queries == 12
    assert found.mean_evaluations == 300
    assert [found.accuracy_at(rho) for rho in (0, 6, 7, 8, 9, 12, 13, 99)] == [0.8, 0.8, 0.6, 0.6, 0.4, 0.4, 0.2, 0.2]
    assert [found.success_at(rho) for rho in (0, 7, 13)] == pytest.approx([0, 1 / 4, 3 / 4])
    assert len(found.accuracy_under_attack) == 14


def test_the_median_counts_every_image() -> None:
    assert summarise_attack(made([(None, 0), (None, 0), (3, 1)])).median == math.inf
    assert summarise_attack(made([(0, 1), (0, 2), (3, 1)])).median == 0
    assert summarise_attack(made([(4, 1), (5, 1)])).median == 4.5
    assert summarise_attack(made([(None, 0)])).to_dict()["median_adversarial_attack_magnitude"] is None
    with pytest.raises(InputError, match="holds no attacked inputs yet"):
        summarise_attack(made([], inputs=3))
    with pytest.raises(InputError, match="only inputs that could not be attacked; the first: a reason"):
        summarise_attack(made([], failed=2))
    results = doctest.testmod(attacks)
    assert results.attempted >= 2
    assert results.failed == 0


def test_certificates_against_an_attack_that_breaks_none() -> None:
    records = certified([AT_4, *VOTES[1:]])
    gap = compute_gap(records, made([(5, None), *FOUND[1:]]), summarise(records))
    assert [(pair.radius, pair.distance) for pair in gap.pairs] == [(4, 5), (6, 9), (12, 13), (6, 7), (None, None)]
    assert (gap.certified, gap.broken, gap.abstained_within) == (4, (), 0)
    assert alarm(gap) is None
    assert gap.median_certified == 6
    assert gap.median_attacked == 9
    for rho, (low, high) in enumerate(zip(gap.certified_accuracy, gap.accuracy_under_attack, strict=False)):
        assert low <= high, rho
    text = attack_report([summarise(records)], [summarise_attack(made(FOUND))], [gap], "terminal")
    assert "attacks that succeed within the certified radius: 0 of 4" in text.splitlines()
    assert "NOT SOUND" not in text


@pytest.mark.parametrize(
    ("exact", "attacked", "fault"),
    [(True, "cpu in bf16", "NOT COMPARABLE"), (True, "cuda in bf16", "NOT SOUND"), (False, "cpu in bf16", "NOT SOUND")],
)
def test_exact_certificates_of_another_device_are_not_called_unsound(exact: bool, attacked: str, fault: str) -> None:
    """There scores are rounded differently, and a vote more or less moves a radius."""
    pair = Pair(example=7, true=1, label=1, proved=4, distance=4, answer=2)
    found = alarm(Gap(Path("certify.jsonl"), Path("attack.jsonl"), (pair,), exact, ("cuda in bf16", attacked)))
    assert found is not None
    assert found.startswith(f"{fault}: attack.jsonl changes the answer to 1 of 1 certified inputs")


def test_how_far_beyond_the_radius_the_nearest_misclassification_is() -> None:
    """Of certified images only, and not where the classifier abstains."""
    records = certified([AT_4, *VOTES[1:]])
    found = made([(6, 3), (9, 1), (13, None), (20, 2), (2, 1)], goal="misclassify")
    gap = compute_gap(records, found, summarise(records))
    assert gap.beyond == (2, 3, 14)  # 6 - 4, 9 - 6, 20 - 6
    values = gap.to_dict()
    names = "misclassifications", "least_pixels_beyond_radius", "median_pixels_beyond_radius"
    assert [values[name] for name in names] == [3, 2, 3]
    said = "certified inputs misclassified, and how far beyond the radius: 3, by 2 at least, 3 at median"
    summary = summarise_attack(made([(6, 3)], goal="misclassify"))
    text = attack_report([summarise(records)], [summary], [gap], "terminal")
    assert said in text.splitlines()
    assert "goal " in text
    assert "abstentions not counting as fooled" in " ".join(text.split())
    assert summary.to_dict()["goal"] == "misclassify"
    both = attack_report([], [summary, summarise_attack(made(FOUND))], [], "terminal")
    assert "abstentions counting as fooled unless the goal is to misclassify" in " ".join(both.split())
    none = compute_gap(records, made([(5, None)]), summarise(records))
    assert none.beyond == ()
    assert none.to_dict()["least_pixels_beyond_radius"] is None
    assert "how far beyond the radius: none" in attack_report([summarise(records)], [summary], [none], "terminal")
    assert "3, by 2 at least" in attack_report([summarise(records)], [summary], [gap], "markdown")


@pytest.mark.parametrize(
    ("found", "broken", "abstained"),
    [
        ((6, 1), (3,), 0),  # at the radius
        ((7, 1), (), 0),  # beyond
        ((6, None), (), 1),  # an abstention is outside the certificate
        ((0, 2), (3,), 0),  # misclassified as it is, though certified
        ((None, 0), (), 0),
    ],
)
def test_an_attack_within_the_certified_radius_is_flagged(
    found: tuple[int | None, int | None], broken: tuple[int, ...], abstained: int
) -> None:
    records = certified([AT_12, AT_6])
    gap = compute_gap(records, made([(20, 1), found]), summarise(records))
    assert (gap.broken, gap.abstained_within) == (broken, abstained)
    reported = alarm(gap)
    assert (reported is not None) == bool(broken)
    if reported is not None:
        assert reported.startswith("NOT SOUND: runs/made/attack.jsonl changes the answer to 1 of 2 certified inputs")
        assert "(inputs 3)" in reported


@pytest.mark.parametrize(
    ("found", "broken"), [((0, 0), ()), ((0, 2), (0,)), ((12, 2), (0,)), ((13, 2), ()), ((0, None), ())]
)
def test_a_certificate_for_a_wrong_class_is_checked_against_other_answers_than_its_own(
    found: tuple[int, int | None], broken: tuple[int, ...]
) -> None:
    """Image 0 is of class 1 and certified for class 0 up to 12; it counts as not certified in the curves."""
    records = certified([AT_12, AT_12], [1, 0])
    gap = compute_gap(records, made([found, (20, 1)]), summarise(records))
    assert (gap.certified, gap.broken) == (2, broken)
    assert gap.certified_accuracy == (0.5,) * 13


LATTICE: dict[str, Any] = {"kind": "lattice", "height": 10, "width": 10, "parts": 5, "rounds": 1}
ALL_MASKS: dict[str, Any] = {"scheme": LATTICE, "rule": "plurality", "masks": 5, "error": None}


def exactly(ranked: list[str], **changes: Any) -> Records:
    """Certify records of the vote of five masks; images 0, 3, 6, ..., all of class 0."""
    votes = {"scheme": LATTICE, "rule": "plurality", "masks": 5, "against": "pixels", "seconds": 0.0}
    head = header("predict", inputs=len(ranked), **{**votes, **changes})
    run = {key: value for key, value in head.run.items() if key not in ("n", "alpha", "seed")}
    scheme = scheme_from_config(run["scheme"])
    assert isinstance(scheme, FixedMasks)
    lines = []
    for place, text in enumerate(ranked):
        ranks = rankings.from_text(text, 3)[None]
        (label,), (radius,) = exact.elect(ranks, run["rule"], PerturbedUnits(scheme.table))
        lines.append(Record(3 * place, 0, first_choices(ranks)[0], int(label), 0.1, radius=int(radius), rankings=text))
    return Records(Path("runs/made/certify.jsonl"), Header("certify", run, head.environment), lines)


@pytest.mark.parametrize(("found", "broken"), [((2, 1), (0,)), ((3, 1), ()), ((0, 2), (0,)), ((None, 0), ())])
def test_exact_certificates_are_checked_against_an_attack_on_all_masks(
    found: tuple[int | None, int | None], broken: tuple[int, ...]
) -> None:
    """Five votes of a partition: a changed pixel moves one, so that two leave 3 to 2, and three do not."""
    records = exactly([" ".join(["012"] * 5), " ".join(["012"] * 3 + ["102"] * 2)])
    assert [line.radius for line in records.lines] == [2, 0]
    attack_records = made([found, (1, 1)], n=None, alpha=None, **ALL_MASKS)
    gap = compute_gap(records, attack_records, summarise(records))
    assert [pair.radius for pair in gap.pairs] == [2, 0]
    assert (gap.exact, gap.certified, gap.broken, gap.abstained_within) == (True, 2, broken, 0)
    reported = alarm(gap)
    assert (reported is None) == (not broken)
    assert reported is None or "an exact certificate never fails" in reported
    text = attack_report([summarise(records)], [summarise_attack(attack_records)], [gap], "terminal")
    assert "plurality of all 5 masks" in text


def test_an_exact_certificate_is_of_one_vote() -> None:
    records = exactly([" ".join(["012"] * 5)])
    by_run_off = made([(3, 1)], n=None, alpha=None, **{**ALL_MASKS, "rule": "run-off"})
    with pytest.raises(
        InputError, match=r"attacks the vote by run-off: .*add --rule run-off, or report them separately"
    ):
        compute_gap(records, by_run_off, summarise(records))
    (gap,) = compute_gaps([(records, summarise(records)), (records, summarise(records, rule="run-off"))], [by_run_off])
    assert gap.exact
    with pytest.raises(InputError, match="attacks a vote of random masks: they cannot be compared"):
        compute_gap(records, made([(3, 1)], scheme=LATTICE), summarise(records))
    patches = summarise(records, against="patches")
    of_pixels = made([(3, 1)], n=None, alpha=None, **ALL_MASKS)
    with pytest.raises(InputError, match=r"the side of a square, .*; add --against pixels, or report them separately"):
        compute_gap(records, of_pixels, patches)


def test_only_images_of_both_runs_count() -> None:
    records = certified([AT_12] * 4)
    gap = compute_gap(records, made([(14, 1), (15, 1)], failed=1), summarise(records))
    assert [pair.example for pair in gap.pairs] == [0, 3]
    lone = certified([AT_12])
    none = AttackRecords(Path("a"), made([(5, 1)]).header, [AttackRecord(4, 0, None, 0, 1, 1, 0.1)])
    with pytest.raises(InputError, match="have no input in common"):
        compute_gap(lone, none, summarise(lone))


def test_another_alpha_moves_the_radii() -> None:
    records, attack_records = certified([AT_6]), made([(6, 1)])
    assert compute_gap(records, attack_records, summarise(records)).broken == (0,)
    assert compute_gap(records, attack_records, summarise(records, alpha=1e-12)).broken == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"sha256": "b" * 64}}, "its model sha256 is b"),
        ({"precision": "bf16"}, "its precision is bf16, not fp32"),
        ({"data": {**header().run["data"], "split": "train", "shape": [1, 10, 10]}}, "its data split is train, not"),
        ({"data": {**header().run["data"], "fingerprint": "e", "shape": [1, 10, 10]}}, "its data fingerprint is e"),
        ({"scheme": None}, "its scheme is None"),
    ],
)
def test_runs_of_other_models_and_data_are_refused(changes: dict[str, Any], message: str) -> None:
    records = certified([AT_12])
    with pytest.raises(InputError, match=f"attack.jsonl does not belong to runs/made/certify.jsonl: {message}"):
        compute_gaps([(records, summarise(records))], [made([(13, 1)], **changes)])


def test_each_attack_meets_the_certificates_of_its_own_model() -> None:
    model = {"model": {"sha256": "b" * 64}}
    pairs = [(records, summarise(records)) for records in (certified([AT_12]), certified([AT_6], path="b", **model))]
    gaps = compute_gaps(pairs, [made([(13, 1)], path="x"), made([(7, 1)], path="y", **model), made([(8, 1)], path="z")])
    assert [(str(gap.certificates), str(gap.attack)) for gap in gaps] == [
        ("runs/made/certify.jsonl", "x"),
        ("b", "y"),
        ("runs/made/certify.jsonl", "z"),
    ]
    assert compute_gaps([], [made([(13, 1)])]) == []


def test_certificates_of_the_class_that_beats_all_are_not_of_the_class_with_most_votes_which_is_attacked() -> None:
    selection, compared = replace(CHOOSE_0, chosen=0), replace(AT_12, above=(400, 400, 400))
    records = certified([compared], bound="pairwise", selection=selection)
    with pytest.raises(InputError, match=r"by pairwise, but .* attacks the vote by plurality.* add --bound two-sided"):
        compute_gap(records, made([(13, 1)]), summarise(records))
    assert compute_gap(records, made([(13, 1)]), summarise(records, bound="two-sided")).broken == ()


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_every_form_tells_the_same(form: str) -> None:
    records, attack_records = certified(VOTES), made(FOUND)
    summary, attack = summarise(records), summarise_attack(attack_records)
    gap = compute_gap(records, attack_records, summary)
    alone = attack_report([], [attack], [], form, [7, 50])
    for text in ("80.00%", "median adversarial attack magnitude", "9", "pointwise restarts=10", "no budget", "60.00"):
        assert text.replace("%", "\\%" if form == "latex" else "%") in alone
    assert "50" in alone
    both = attack_report([summary], [attack, summarise_attack(made(FOUND, budget=20))], [gap], form)
    assert "certified accuracy" in both
    assert "at most 20 pixels" in both
    assert "NOT SOUND" in both  # image 0 is misclassified as it is, and certified at 6
    assert "1 of 4" in both


@pytest.mark.parametrize("largest", [0, 1, 19, 20, 21, 128, 784])
def test_the_table_spreads_its_rows_over_all_rhos(largest: int) -> None:
    table = rho_table([summarise_attack(made([(largest, 1)]))], [])
    rhos = [int(row[0]) for row in table.rows]
    assert (rhos[0], rhos[-1]) == (0, largest)
    assert rhos == sorted(set(rhos))
    assert len(rhos) <= 21
    assert bool(table.notes) == (len(rhos) < largest + 1)


def test_json_and_csv() -> None:
    records, attack_records = certified(VOTES), made(FOUND, failed=1)
    summary, attack = summarise(records), summarise_attack(attack_records)
    one = json.loads(attack_report([], [attack], [], "json"))
    assert one == json.loads(json.dumps(attack.to_dict()))
    assert (one["kind"], one["clean_accuracy"], one["failed"]) == ("attack", 0.8, 1)
    all_of_it = json.loads(attack_report([summary], [attack], [compute_gap(records, attack_records, summary)], "json"))
    assert list(all_of_it) == ["certify", "attack", "gap"]
    assert all_of_it["gap"][0]["attacks_within_certified_radius"] == 1
    assert all_of_it["gap"][0]["broken_certificates"] == [0]
    plain = summarise_attack(made([(2, 1)], attack={"name": "jsma", "most": 0.1}, scheme=None, n=None, masks=None))
    rows = list(csv.DictReader(io.StringIO(attack_report([], [attack, plain], [], "csv"))))
    assert [row["attack_name"] for row in rows] == ["pointwise", "jsma"]
    assert float(rows[0]["accuracy_under_attack_7"]) == 0.6
    assert float(rows[1]["accuracy_under_attack_7"]) == 0
    with pytest.raises(InputError, match="csv has one kind of row"):
        attack_report([summary], [attack], [], "csv")


def test_what_is_drawn(tmp_path: Path) -> None:
    records, attack_records = certified([*VOTES]), made(FOUND)
    attack, gap = summarise_attack(attack_records), compute_gap(records, attack_records, summarise(records))
    (axes,) = _attack_figure([attack, summarise_attack(made([(3, 1)], seed=9))]).axes
    steps = [line for line in axes.lines if line.get_drawstyle() == "steps-mid"]
    assert len(steps) == 2
    drawn = dict(zip(steps[0].get_xdata(), steps[0].get_ydata(), strict=True))
    assert all(drawn[rho] == 100 * attack.accuracy_at(rho) for rho in range(14))
    left, right = _gap_figure([gap], [attack]).axes
    above, below = [line for line in left.lines if line.get_drawstyle() == "steps-mid"]
    heights = [dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in (above, below)]
    assert [heights[0][rho] for rho in (0, 7, 13)] == [80, 60, 20]
    assert [heights[1][rho] for rho in (0, 6, 7, 12, 13)] == [80, 80, 20, 20, 0]
    assert len(left.collections) == 2  # the bands of both curves: 5 of 1000 images
    (alone,) = _gap_figure([gap], [attack], STYLES["paper"]).axes
    assert alone.get_xlabel() == "perturbed pixels"
    spots = {tuple(spot) for dots in right.collections for spot in np.asarray(dots.get_offsets()).tolist()}
    assert spots == {(6, 0), (6, 9), (12, 13), (6, 7), (-1, 14)}
    assert write_attack_curves([attack], tmp_path / "a") == [tmp_path / "a.png", tmp_path / "a.svg"]
    assert ElementTree.parse(tmp_path / "a.svg").getroot().tag == "{http://www.w3.org/2000/svg}svg"
    for name in "gh":
        write_gaps([gap, gap], [attack], tmp_path / f"{name}.png")
    assert (tmp_path / "g.png").read_bytes() == (tmp_path / "h.png").read_bytes()
    with Image.open(tmp_path / "g.png") as image:
        assert (np.asarray(image.convert("RGB")) == (0x00, 0x72, 0xB2)).all(axis=2).sum() > 500


def test_a_report_of_attacks_needs_no_torch(tmp_path: Path) -> None:
    attack_records = made(FOUND)
    with Writer(tmp_path / "a.jsonl", attack_records.header) as writer:
        writer.append(attack_records.lines)
    program = (
        "from sparsecert.reports import attack_report, summarise_attack, write_attack_curves\n"
        "from sparsecert.records import read_attack\n"
        "attacks = [summarise_attack(read_attack(sys.argv[1]))]\n"
        "write_attack_curves(attacks, sys.argv[2]); attack_report([], attacks, [], 'terminal')"
    )
    assert not modules_after(program, tmp_path / "a.jsonl", tmp_path / "c.svg") & {"matplotlib.pyplot", "torch"}


def test_where_channels_are_units_a_certificate_covers_fewer_pixels() -> None:
    """An attack counts a pixel once however many of its three channels it changes."""
    scheme = {"kind": "random-values", "units": 300, "kappa": 0.1, "values": 256}
    data = {**header().run["data"], "inputs": 1, "shape": [3, 10, 10]}
    records = certified([AT_12], scheme=scheme)
    colours = made([(2, 1)], scheme=scheme, data=data)
    (line, certificate), *_ = certificates_of(records, scheme_from_config(scheme), 0.05, "two-sided")
    assert line.example == 0
    assert certificate.radius is not None
    assert certificate.radius >= 6
    (pair,) = compute_gap(records, colours, summarise(records)).pairs
    assert pair.proved == certificate.radius // 3
    grey = {**scheme, "units": 100}
    records, greys = certified([AT_12], scheme=grey), made([(2, 1)], scheme=grey)
    (pair,) = compute_gap(records, greys, summarise(records)).pairs
    assert pair.proved == certificate.radius


def test_where_groups_keep_channels_apart_a_pixel_may_perturb_several() -> None:
    """100 groups in 3 x 10 x 10 entries: each pixel has an entry in three of them, so 6 groups are two pixels."""
    apart = (np.arange(300) % 100).reshape(10, 10, 3).transpose(2, 0, 1).tolist()
    encoding = {"kind": "grouped", "encoding": {"kind": "null-channels"}, "groups": apart}
    records = certified([AT_6], encoding=encoding)
    data = {**made([]).header.run["data"], "shape": [3, 10, 10]}
    for distance, broken in ((2, (0,)), (3, ())):
        attack_records = made([(distance, 1)], encoding=encoding, data=data)
        assert compute_gap(records, attack_records, summarise(records)).broken == broken
    together = {**encoding, "groups": np.arange(100).reshape(10, 10).tolist()}
    attack_records = made([(6, 1)], encoding=together, data=data)
    assert compute_gap(certified([AT_6], encoding=together), attack_records, summarise(records)).broken == (0,)
