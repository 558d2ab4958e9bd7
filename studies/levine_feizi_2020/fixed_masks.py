"""The models of fixed sets of masks in a study, and their exact records; both are created if missing.

    OUT/mnist/lattice-28x1/model.safetensors   training.jsonl   certify.jsonl
    OUT/mnist/lattice-28x1/certify-500.jsonl   of fewer test images than all

Blocks are hundreds of masks: unless the study sets a limit, `BY_BLOCKS` evenly spaced test images are certified.
Every rule is certified from the recorded rankings, whatever the rule of the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sparsecert import records
from sparsecert.procedures.exact import Exact
from sparsecert.records import Header, Records, find_records
from sparsecert.reports import Summary, summarise
from sparsecert.runs.run_spec import RunSpec
from sparsecert.schemes import FixedMasks, SchemeSpec, from_config
from studies.levine_feizi_2020 import models, record_files
from studies.levine_feizi_2020.model_spec import FixedMasksSpec
from studies.levine_feizi_2020.models import CERTIFY
from studies.levine_feizi_2020.study import Study
from studies.levine_feizi_2020.tables import subset_note

BY_BLOCKS = 1_000


@dataclass(frozen=True)
class FixedRow:
    """One model: its set of masks, and its certificates by each rule."""

    scheme_spec: SchemeSpec
    found: Records

    @cached_property
    def scheme(self) -> FixedMasks:
        scheme = from_config(self.found.header.run["scheme"])
        assert isinstance(scheme, FixedMasks)
        return scheme

    def by(self, rule: str) -> Summary:
        """The certificates by this rule."""
        if rule not in self._summaries:
            self._summaries[rule] = summarise(self.found, rule=rule)
        return self._summaries[rule]

    @cached_property
    def _summaries(self) -> dict[str, Summary]:
        return {}

    @property
    def default(self) -> Summary:
        """The certificates by the rule that these masks have unless another is asked for."""
        return self.by(self.scheme.rule)

    @property
    def of(self) -> int:
        """The number of test images."""
        return int(self.found.header.run["data"]["of"])

    @property
    def name(self) -> str:
        """The name in tables."""
        return str(self.scheme_spec)

    @property
    def retained(self) -> str:
        """The pixels that a mask retains: one number, or a range."""
        sizes = self.scheme.table.sum(axis=1)
        return str(sizes.min()) if sizes.min() == sizes.max() else f"{sizes.min()}-{sizes.max()}"

    @property
    def masks(self) -> int:
        """Forward passes per input."""
        return len(self.scheme.table)


def fixed_rows(study: Study, scheme_specs: Sequence[SchemeSpec]) -> list[FixedRow]:
    """The rows of these sets of masks; missing models and records are created."""
    specs = {scheme_spec: study.fixed_masks_spec(scheme_spec) for scheme_spec in scheme_specs}
    lacking = [spec for spec in specs.values() if not _is_complete(study, spec)]
    there = [_find(study, spec) for spec in specs.values()]
    record_files.refuse_two_test_sets(study, there, making=bool(lacking))
    _complete(study, lacking)
    rows = []
    with study.progress.rows(len(specs)) as on_progress:
        for scheme_spec, spec in specs.items():
            rows.append(FixedRow(scheme_spec, records.read(_find(study, spec))))
            rows[-1].default  # noqa: B018  certified here, while the bar is shown; by other rules only if asked for
            on_progress()
    return rows


def _complete(study: Study, specs: Sequence[FixedMasksSpec]) -> None:
    """Trains and certifies these models; refuses invalid ones before hours of work."""
    for spec in specs:
        Exact().adversary(spec.scheme(study.test.images.shape))
        models.refuse_orphans(study, spec)
    for together in models.batches(study, specs):
        models.train(study, together)
        for spec in together:
            run = RunSpec(CERTIFY, Exact(), None, study.seed)
            record_files.vote(study, spec, run, _path(study, spec), _limit(study, spec))


def _limit(study: Study, spec: FixedMasksSpec) -> int | None:
    """How many test images are certified, if not all."""
    usual = BY_BLOCKS if spec.scheme_spec.kind == "blocks" else None
    return usual if study.limit is None else study.limit


def _path(study: Study, spec: FixedMasksSpec) -> Path:
    """The records file, named after the number of test images unless it is all."""
    limit = _limit(study, spec)
    return study.folder(spec) / f"{CERTIFY}{'' if limit is None else f'-{limit}'}.jsonl"


def _find(study: Study, spec: FixedMasksSpec) -> Path:
    path = _path(study, spec)
    return find_records(path) or path


def _is_complete(study: Study, spec: FixedMasksSpec) -> bool:
    """Whether the records are complete; refuses those of other settings or of another model."""
    return record_files.is_finished(_find(study, spec), lambda header: _wanted(study, spec, header), (study, spec))


def _wanted(study: Study, spec: FixedMasksSpec, header: Header) -> record_files.Settings:
    """The settings that the study would have written into this file."""
    of, asked = int(header.run["data"]["of"]), _limit(study, spec)
    return {
        **spec.settings,
        "data name": study.data,
        "split": "test",
        "limit": of if asked is None else min(asked, of),
        "chosen": None,
        **record_files.wanted_precision(study),
    }


def subset_notes(rows: Sequence[FixedRow]) -> list[str]:
    """How uncertain the numbers are where only some of the test images were certified."""
    some = dict.fromkeys((row.default.inputs, row.of) for row in rows if row.default.inputs < row.of)
    return [subset_note(inputs, of, "evenly spaced") for inputs, of in some]
