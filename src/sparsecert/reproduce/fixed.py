"""The classifiers of fixed sets of masks in a study, and their exact records: each made once and found again.

    OUT/mnist/lattice-28x1/model.safetensors   training.jsonl   certify.jsonl
    OUT/mnist/lattice-28x1/certify-500.jsonl   of fewer test images than all

Blocks are hundreds of masks: by them `BY_BLOCKS` evenly spaced test images are certified, if the study says no number.
Records are certified by the run-off; by plurality they are certified again from the same rankings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from sparsecert import records
from sparsecert.errors import InputError
from sparsecert.procedures.exact import Exact
from sparsecert.records import Header, Records, find_records
from sparsecert.reports import Summary, summarise
from sparsecert.reproduce.cell import FixedCell
from sparsecert.reproduce.study import CERTIFY, Study
from sparsecert.schemes import Choice, FixedMasks, from_config

BY_BLOCKS = 1_000


@dataclass(frozen=True)
class FixedRow:
    """One classifier: the masks that vote, and what is certified by each rule, of all test images or some."""

    choice: Choice
    found: Records

    @cached_property
    def scheme(self) -> FixedMasks:
        """The masks."""
        scheme = from_config(self.found.header.run["scheme"])
        assert isinstance(scheme, FixedMasks)
        return scheme

    @cached_property
    def run_off(self) -> Summary:
        """What is certified by the run-off."""
        return summarise(self.found, rule="run-off")

    @cached_property
    def plurality(self) -> Summary:
        """What is certified by plurality."""
        return summarise(self.found, rule="plurality")

    @property
    def of(self) -> int:
        """How many test images there are."""
        return int(self.found.header.run["data"]["of"])

    @property
    def name(self) -> str:
        """As a table shows it."""
        return str(self.choice)

    @property
    def retained(self) -> str:
        """How many pixels a mask retains: one number, or the least and the most."""
        sizes = self.scheme.table.sum(axis=1)
        return str(sizes.min()) if sizes.min() == sizes.max() else f"{sizes.min()}-{sizes.max()}"

    @property
    def masks(self) -> int:
        """Forward passes per input."""
        return len(self.scheme.table)


def fixed_rows(study: Study, choices: Sequence[Choice]) -> list[FixedRow]:
    """The classifiers of these sets of masks; what they lack is made."""
    cells = {choice: study.fixed_cell(choice) for choice in choices}
    lacking = [cell for cell in cells.values() if not _is_complete(study, cell)]
    study.refuse_two_test_sets([_located(study, cell) for cell in cells.values()], making=bool(lacking))
    _complete(study, lacking)
    rows = []
    with study.bars.rows(len(cells)) as on_progress:
        for choice, cell in cells.items():
            rows.append(FixedRow(choice, records.read(_located(study, cell))))
            rows[-1].run_off  # noqa: B018  certified here, while the bar is shown; by plurality only if asked for
            on_progress()
    return rows


def _complete(study: Study, cells: Sequence[FixedCell]) -> None:
    """Trains and certifies these cells; refuses what cannot be made before hours of work are done for it."""
    from sparsecert.runs import certify_dataset
    from sparsecert.runs.inputs import indices_of

    for cell in cells:
        Exact().adversary(cell.scheme(study.test.images.shape))
        study.refuse_orphans(cell)
    for together in study.side_by_side(cells):
        study.train(together)
        for each in together:
            smoothed, folder = study.load(each), study.folder(each)
            assert isinstance(smoothed.scheme, FixedMasks)
            limit = _limit(study, each)
            inputs, masks = len(indices_of(study.test, limit)), len(smoothed.scheme.table)
            with study.bars.inputs(each, "certifying", inputs, masks) as on_progress:
                certify_dataset(
                    smoothed,
                    folder,
                    study.test,
                    _path(study, each),
                    exactly=Exact(),
                    limit=limit,
                    on_progress=on_progress,
                )


def _limit(study: Study, cell: FixedCell) -> int | None:
    """How many test images are certified, if not all."""
    usual = BY_BLOCKS if cell.choice.kind == "blocks" else None
    return usual if study.limit is None else study.limit


def _path(study: Study, cell: FixedCell) -> Path:
    """The file of all test images bears the kind's name alone."""
    limit = _limit(study, cell)
    return study.folder(cell) / f"{CERTIFY}{'' if limit is None else f'-{limit}'}.jsonl"


def _located(study: Study, cell: FixedCell) -> Path:
    path = _path(study, cell)
    return find_records(path) or path


def _is_complete(study: Study, cell: FixedCell) -> bool:
    """Whether the records are there with every input; refuses those of other settings, or of another model."""
    path = _located(study, cell)
    seen = records.read_header(path) if path.is_file() else None
    if seen is None:
        return False
    header, lines = seen
    differing = _differing(study, cell, header)
    if differing is not None:
        raise InputError(f"{path} was made with {differing}; name another --out folder")
    known = study.model_of(cell)
    if known is not None and header.run.get("model") != {"sha256": known}:
        raise InputError(f"{path} was made with another model than {study.folder(cell)}; name another --out folder")
    return lines == int(header.run["data"]["inputs"])


def _differing(study: Study, cell: FixedCell, header: Header) -> str | None:
    """The first setting in which a records file is not what this study would have written, in words."""
    run = header.run
    of = int(run["data"]["of"])
    scheme = run.get("scheme", {})
    there = {**scheme, "scheme": scheme.get("kind"), "limit": run["data"]["inputs"], "data": run["data"]["name"]}
    there |= {"split": run["data"]["split"], "encoding": run.get("encoding", {}).get("kind")}
    there |= {name: run.get(name) for name in ("rule", "precision", "chosen")}
    asked = _limit(study, cell)
    limit = of if asked is None else min(asked, of)
    precision = {} if study.precision is None else {"precision": study.precision}
    wanted: dict[str, Any] = dict(cell.facts)
    wanted |= {"rule": "run-off", "data": study.data, "split": "test", "limit": limit, "chosen": None, **precision}
    for name, value in wanted.items():
        if there.get(name) != value:
            return f"{name} {there.get(name)}, not {value}"
    return None


def subset_notes(rows: Sequence[FixedRow]) -> list[str]:
    """How uncertain the numbers are where only some of the test images were certified."""
    some = dict.fromkeys((row.run_off.inputs, row.of) for row in rows if row.run_off.inputs < row.of)
    return [
        f"{inputs} of the {of} test images, evenly spaced: a share near one half is uncertain by "
        f"{50 / inputs**0.5:.1f} points (one standard error)"
        for inputs, of in some
    ]
