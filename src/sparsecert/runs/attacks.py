"""Attacks a data set and records the results: what `sparsecert attack` does.

Images are attacked in groups, batched. Group g holds the inputs at positions g * group, g * group + 1, ... of the run's
selection; its randomness, the attack's and the defender's masks, depends on the seed and g alone. So results do not
depend on when a run was interrupted: a group that is not completely recorded is attacked again as a whole. They do
depend on the group size, which the header therefore names.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from sparsecert.attacks import ABSTAINS, ANY, Attack, Defender, Outcome
from sparsecert.attacks.attack import FATAL, config_of, reason
from sparsecert.attacks.counting import CountingDefender
from sparsecert.attacks.defenders import check_unprotected
from sparsecert.attacks.judge import OnSearch, changed_pixels
from sparsecert.attacks.table_rows import RowsDefender, TableRows
from sparsecert.encodings import Grouped
from sparsecert.errors import InputError, check_int
from sparsecert.inputs import Inputs
from sparsecert.inputs.words import PADDING
from sparsecert.progress import OnProgress, ignore
from sparsecert.records import ATTACK, AttackRecord, AttackRecords, Header, Writer
from sparsecert.runs.groups import Limit, groups, indices_of, load_batch, load_group, selection_info
from sparsecert.runs.header import check_inputs, data_info, environment
from sparsecert.runs.run_spec import Group
from sparsecert.runs.targets import AblatedTarget, Target
from sparsecert.schemes.philox import key_of

BOUNDS = (0.0, 1.0)  # of the values of images, and of rows as an attack sees them
MOST_GROUP = 1 << 16
MOST_BYTES = 1 << 30  # of a group's cached votes, about
BYTES_PER_COPY, BYTES_PER_RANK, BYTES_PER_VALUE = 48, 16, 256
PLAIN_GROUP, CPU_GROUP, GPU_GROUP = 64, 4, 32  # fills forward passes, but little is lost when killed
FEW_COPIES, FEW_COPIES_GROUP = 64, 16  # fixed masks: a query takes one or two, so more images fill a pass
TOO_LARGE = "the device has too little memory for {} images at once; use a smaller group and another file"
TOO_LARGE_ALONE = "the device has too little memory to attack one image; use fewer restarts or samples, or the CPU"


@dataclass(frozen=True)
class GroupAttack:
    """An attack and everything that determines its results, except the images."""

    attack: Attack
    target: Target
    budget: int | None
    seed: int
    goal: str = ANY
    table: TableRows | None = None  # where rows are attacked
    on_progress: OnProgress = ignore
    on_search: OnSearch | None = None

    def run(self, group: Group, number: int) -> list[AttackRecord]:
        """The records of a group.

        Images that the model fails on are recorded as failed. If it fails on all of several images, or on a single one
        and on a black image too, the error is raised.
        """
        images = len(group.examples)
        try:
            return self._attack(group, group_seed(self.seed, number))
        except torch.cuda.OutOfMemoryError as error:
            raise InputError(TOO_LARGE_ALONE if images == 1 else TOO_LARGE.format(images)) from error
        except FATAL:
            raise
        except Exception as error:
            if images == 1 and self._answers_black(group):
                return [_failed(group.examples[0], group.labels[0], reason(error))]
            raise

    def _answers_black(self, group: Group) -> bool:
        """Whether the model answers at all, on a black image or a row of zeros."""
        try:
            self.target.defenders(self.seed)[0].answers(torch.zeros_like(group.inputs))
        except Exception:
            return False
        return True

    def _attack(self, group: Group, seed: int) -> list[AttackRecord]:
        target = self.target.for_units(group.inputs.shape[-1]) if has_lengths(self.target) else self.target
        defender, final = target.defenders(seed, self.goal)
        outcome = self.attack(
            self._shown(defender),
            group.inputs if self.table is None else self.table.encode(group.inputs),
            torch.tensor(group.labels),
            bounds=bounds_of(self.target),
            budget=self.budget,
            seed=seed,
            final=None if final is None else self._shown(final),
            goal=self.goal,
            on_search=self.on_search,
        )
        return [_checked(record, self.target) for record in records_of(outcome, group, self.table)]

    def _shown(self, defender: Defender) -> Defender:
        """The defender as the attack sees it."""
        seen = defender if self.table is None else RowsDefender(defender, self.table)
        return CountingDefender(seen, self.on_progress)


def attack_dataset(
    target: Target,
    attack: Attack,
    data: Inputs,
    out: str | Path,
    *,
    budget: int | None = None,
    goal: str = ANY,
    seed: int = 0,
    limit: Limit = None,
    group: int | None = None,
    on_progress: OnProgress = ignore,
    on_search: OnSearch | None = None,
    on_records: Callable[[Sequence[AttackRecord]], None] | None = None,
) -> None:
    """Attacks `limit` evenly spaced inputs (all by default) and records each group as it is done; resumes a killed run.

    `budget`: the most pixels that may be changed. `goal`: see `Attack`; making the model abstain is a success by
    default, and not with "misclassify". `limit` may be `RandomSample(400, seed)`. `group`: images attacked at
    once; the default keeps memory bounded. `on_progress(images, evaluations)` gets what was done since its last call,
    `on_search` how far the search in a group is (see `Attack`), `on_records` each group's records.

    Of rows of a table (`inputs.rows.Rows`), units take values that they have in some row, or none: see `TableRows`.
    """
    key_of(seed)
    if data.labels is None:
        raise InputError(f"{data.name} has no target column, and an attack needs the true classes; add that column")
    target = target.with_recorded_precision(out)
    shape, config = data.shape, config_of(attack)
    table = table_rows(target, data)
    if budget is not None:
        most, noun = (math.prod(shape[1:]), "pixels of an image") if table is None else (table.units, "units of a row")
        budget = check_int("budget", budget, 1, most, f"the {most} {noun}")
    usual = group_size(target, config.get("restarts", 1), shape, len(data.classes))
    most_group = 1 if has_lengths(target) else MOST_GROUP
    size = check_int("group", usual if group is None else group, 1, most_group)
    indices = indices_of(data, limit)
    run = {
        **target.run_info(data),
        "attack": config,
        "bounds": list(bounds_of(target)) if table is None else None,
        "budget": budget,
        **({} if goal == ANY else {"goal": goal}),
        "seed": int(seed),
        "group": size,
        "data": {**data_info(data, limit), "shape": list(shape)},
        **selection_info(limit, len(data)),
    }
    rows = target.rows(data)
    some = target.for_units(1) if has_lengths(target) else target
    some.defenders(group_seed(seed, 0), goal)  # refuses invalid settings before a file is written
    made_by = {**environment(target.device, target.model, rows), "attack_version": attack.version}
    with Writer(out, Header(ATTACK, run, made_by)) as writer:
        check_inputs(writer, indices)
        if len(writer.done) < len(indices):
            _check_version(writer, config["name"], attack.version)
        each = GroupAttack(attack, target.with_recorded_rows(writer), budget, seed, goal, table, on_progress, on_search)
        on_progress(len(writer.done), 0)
        for number, examples in enumerate(groups(indices, size)):
            if writer.done.issuperset(examples):
                continue
            before = time.perf_counter()
            found = each.run(load_group(data, examples), number)
            seconds = (time.perf_counter() - before) / len(found)
            fresh = [replace(one, seconds=seconds) for one in found if one.example not in writer.done]
            writer.append(fresh)
            if on_records is not None:
                on_records(fresh)
            on_progress(len(fresh), 0)


def _check_version(writer: Writer, name: str, version: int) -> None:
    """Refuses to mix results of two versions of an attack; the oldest records name none."""
    recorded = writer.header.environment.get("attack_version")
    if recorded != version:
        there = "a version before 1" if recorded is None else f"version {recorded}"
        raise InputError(
            f"{writer.path} was started with {there} of the {name} attack, this is version {version}; results "
            "of two versions cannot be mixed; name another file, or finish it with the sparsecert that started it"
        )


def group_seed(seed: int, group: int) -> int:
    """The 64-bit seed of a group: the beginning of the SHA-256 of "seed/attack/group".

    Nothing else uses it, not even predict or certify with the same seed.
    """
    return int.from_bytes(hashlib.sha256(f"{int(seed)}/attack/{group}".encode()).digest()[:8], "little")


def group_size(target: Target, restarts: int, shape: tuple[int, ...], classes: int) -> int:
    """Images to attack at once, a power of two: enough for full forward passes, within memory.

    It depends on the header alone, so the same command gives the same groups on every machine with such a device.
    """
    if has_lengths(target):
        return 1
    on_cpu = FEW_COPIES_GROUP if target.copies <= FEW_COPIES else CPU_GROUP
    suited = PLAIN_GROUP if target.copies == 1 else on_cpu if target.device.type == "cpu" else GPU_GROUP
    per_copy = BYTES_PER_COPY + (BYTES_PER_RANK * classes if target.ranks else 0)
    line = per_copy * target.copies + BYTES_PER_VALUE * math.prod(shape)
    fitting = max(1, min(suited, MOST_BYTES // (line * restarts)))
    return 1 << (fitting.bit_length() - 1)


def has_lengths(target: Target) -> bool:
    """Whether inputs differ in their number of units; each is then attacked by itself."""
    return isinstance(target, AblatedTarget) and target.smoothed.scheme.is_open


def bounds_of(target: Target) -> tuple[float, float]:
    """Of the values that an attack sees: those of images, or the numbers of words."""
    if isinstance(target, AblatedTarget) and target.smoothed.encoding.takes_integers:
        return float(PADDING), float(target.smoothed.encoding.channels(1) - 1)
    return BOUNDS


def table_rows(target: Target, data: Inputs) -> TableRows | None:
    """What an attack on rows of a table may set their units to; None for images."""
    if len(data.shape) > 1:
        return None
    if not isinstance(target, AblatedTarget):
        raise InputError(f"{target.model} is no model of a table, and {data.name} is one; use images")
    encoding = target.smoothed.encoding
    check_unprotected(target.smoothed)
    units = encoding.groups if isinstance(encoding, Grouped) else np.arange(data.shape[0])
    return TableRows(data.batch(range(len(data))), units)


def records_of(outcome: Outcome, group: Group, table: TableRows | None = None) -> list[AttackRecord]:
    """An outcome as records, without the seconds."""
    if table is None:
        adversarial, differs = outcome.adversarial, changed_pixels(outcome.adversarial, group.inputs)
    else:
        adversarial = table.decode(outcome.adversarial)
        differs = table.changed(adversarial, group.inputs)  # two numbers may stand for the same values
    records = []
    for row, (example, true) in enumerate(zip(group.examples, group.labels, strict=True)):
        why = outcome.failed[row]
        if why is not None:
            records.append(_failed(example, true, why))
            continue
        places, answer = differs[row].nonzero()[:, 0].tolist(), int(outcome.answers[row])
        found = outcome.distances[row] == 0 or bool(places)  # not by the same values under another number
        records.append(
            AttackRecord(
                example=example,
                true=true,
                distance=len(places) if found else None,
                answer=(None if answer == ABSTAINS else answer) if found else true,
                queries=int(outcome.queries[row]),
                evaluations=int(outcome.evaluations[row]),
                seconds=0.0,
                pixels=tuple(places),
                values=tuple(_values(adversarial[row], place, table) for place in places),
            )
        )
    return records


def _values(found: torch.Tensor, place: int, table: TableRows | None) -> tuple[float | None, ...]:
    """The channels of a pixel, or the columns of a unit; None for a missing value."""
    entries = found.flatten(1)[:, place] if table is None else found[table.columns[place]]
    return tuple(None if math.isnan(value) else value for value in entries.tolist())


def _failed(example: int, true: int, why: str) -> AttackRecord:
    return AttackRecord(example, true, None, None, queries=0, evaluations=0, seconds=0.0, failed=why)


def _checked(record: AttackRecord, target: Target) -> AttackRecord:
    """The record, or a failure where a model that never abstains gives no answer to the original image."""
    if record.distance == 0 and record.answer is None and not target.abstains:
        return _failed(record.example, record.true, "the model's scores for the image are not finite")
    return record


def adversarial_images(found: AttackRecords, data: Inputs) -> torch.Tensor:
    """Float[records, c, h, w]: the adversarial images, bit for bit; the original where none was found.

    `data` must be the data set that was attacked. Of a table, Float[records, columns].
    """
    if found.header.run["data"]["fingerprint"] != data.fingerprint():
        raise InputError(f"{found.path} is of other data than {data.name} {data.split}; load what was attacked")
    images = load_batch(data, [line.example for line in found.lines])
    units = np.asarray((found.header.run.get("encoding") or {}).get("units", range(data.shape[0])))
    for image, line in zip(images, found.lines, strict=True):
        for pixel, values in zip(line.pixels, line.values, strict=True):
            entries = torch.tensor([math.nan if value is None else value for value in values], dtype=image.dtype)
            if image.ndim == 1:
                image[units == pixel] = entries
            else:
                image.view(len(image), -1)[:, pixel] = entries
    return images
