"""Attacks on the classifiers of Table 2, and their records.

    OUT/mnist/attacks/k45-pointwise.jsonl      on the paper's number of test images, evenly spaced
    OUT/mnist/attacks/k45-pointwise-50.jsonl   on another number of them

Complete records are used, compressed or not; partial ones are resumed, missing ones created.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert import records
from sparsecert.attacks import Attack, attack_named
from sparsecert.attacks.attack import config_of
from sparsecert.errors import InputError
from sparsecert.modelfile import MODEL_NAME, fingerprint
from sparsecert.records import AttackRecords, Header, Records, find_records
from sparsecert.reports.classification import first_difference
from sparsecert.reports.gap import SAME_IMAGES
from sparsecert.runs import Target, attack_dataset, target_of
from sparsecert.runs.attacks import BYTES_PER_COPY, BYTES_PER_VALUE
from studies.levine_feizi_2020 import record_files
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.models import CERTIFY, PREDICT
from studies.levine_feizi_2020.plain_classifiers import BINARY_ABS, is_known, plain_info, plain_model
from studies.levine_feizi_2020.published import PublishedAttackedRow, published_attacks
from studies.levine_feizi_2020.study import Study

PUBLISHED = "pointwise"  # the paper's attack, without the rounds that this package adds
FRESH = "pointwise-fresh"  # the same, every query answered by all copies of fresh masks, as in the paper
WITH_ROUNDS = "pointwise-rounds"
BY_GRADIENTS = "saliency", "jsma", "carlini-wagner"
ATTACKS = PUBLISHED, FRESH, WITH_ROUNDS, "sparse-rs", *BY_GRADIENTS, "noise"
WITHOUT_GRADIENTS = "binarized", BINARY_ABS
NEED_GPU = "abs", BINARY_ABS
GPU_BYTES = 8 << 30  # of cached votes on a GPU


@dataclass(frozen=True)
class AttackStudy:
    """The attacks on the classifiers of the paper's Table 2, on the same images of a study's test set.

    The study's limit, n and seed are those of the attacks; its epochs are those of the plain networks. `restarts`
    replaces the paper's number. `group`: images side by side; the default is all on a GPU, elsewhere the attack's own.
    """

    study: Study
    restarts: int | None = None
    group: int | None = None
    known = published_attacks("table-2")

    @property
    def rows(self) -> dict[str, PublishedAttackedRow]:
        """The paper's rows that are measured here, by the classifier's name: a plain one's, or k45.

        Analysis by synthesis is only where its files are, or a GPU: on a CPU it would take a day or more.
        """
        named = {_name(row): row for row in self.known.rows if row.model is not None}
        gpu = self.study.device.startswith("cuda")
        return {name: row for name, row in named.items() if gpu or name not in NEED_GPU or is_known(self.study, name)}

    @property
    def ours(self) -> str:
        """The name of the smoothed classifier."""
        return next(name for name, row in self.rows.items() if row.keep is not None)

    @property
    def spec(self) -> ModelSpec:
        """The spec of the smoothed classifier."""
        keep = self.rows[self.ours].keep
        assert keep is not None
        return self.study.spec(keep)

    @property
    def model(self) -> str | Path:
        """The smoothed classifier's model: the study's own if it exists, else the shipped one."""
        return self._own_model() or f"mnist-k{self.spec.keep}"

    def applies(self, model: str, attack: str) -> bool:
        """Whether the attack applies to the classifier: only ours has masks, a binarized one has no gradients."""
        if attack == FRESH:
            return model == self.ours
        return not (model in WITHOUT_GRADIENTS and attack in BY_GRADIENTS)

    def attack_records(self, model: str, attack: str) -> AttackRecords:
        """The records of the attack on that classifier, created if missing."""
        path = self._find(model, attack)
        if not self._is_complete(path, model, attack):
            self._make(model, attack)
            path = self._find(model, attack)
        return records.read_attack(path)

    def has(self, model: str, attack: str) -> bool:
        """Whether complete records with these settings exist."""
        try:
            return self._is_complete(self._find(model, attack), model, attack)
        except InputError:
            return False

    def certificates(self, attack_records: AttackRecords) -> tuple[Records | None, str]:
        """The study's certificates of the attacked classifier and images, or None and the reason."""
        found, reason = self.votes(CERTIFY, attack_records)
        if found is None:
            return None, reason
        attacked = {line.example for line in attack_records.lines}
        lines = tuple(line for line in found.lines if line.example in attacked)
        if not lines:
            return None, f"{found.path} has none of the images attacked"
        return Records(found.path, found.header, lines), ""

    def votes(self, kind: str, attack_records: AttackRecords) -> tuple[Records | None, str]:
        """The study's records of that kind of the attacked classifier, or None and the reason."""
        path = self.study.folder(self.spec) / f"{kind}.jsonl"
        there = find_records(path)
        if there is None:
            return None, f"there is no {path}"
        found = records.read(there)
        differing = first_difference(found, attack_records, SAME_IMAGES)
        if differing is None:
            return found, ""
        name, attacked, voted = differing
        return None, f"{there} is of another classifier or data: its {name} is {voted}, not {attacked}"

    def predictions(self, attack_records: AttackRecords) -> Records | None:
        """The votes that give the smoothed classifier's accuracy: of prediction, else of estimation."""
        return self.votes(PREDICT, attack_records)[0] or self.votes(CERTIFY, attack_records)[0]

    def attack(self, name: str) -> Attack:
        """The attack of that name, with its settings."""
        if name not in ATTACKS:
            raise InputError(f"--attack must be of {', '.join(ATTACKS)}, got {name!r}")
        restarts = self.restarts or self.known.restarts
        if name in (PUBLISHED, FRESH):
            return attack_named("pointwise", restarts=restarts, rounds=0)
        if name == WITH_ROUNDS:
            return attack_named("pointwise", restarts=restarts)
        return attack_named(name, restarts=restarts if name == "noise" else None)

    @property
    def _limit(self) -> int:
        return self.study.limit or self.known.images

    @property
    def _n(self) -> int:
        return self.study.n or self.known.predict_n

    def _own_model(self) -> Path | None:
        folder = self.study.folder(self.spec)
        return folder if (folder / MODEL_NAME).is_file() else None

    def _path(self, model: str, attack: str) -> Path:
        suffix = "" if self._limit == self.known.images else f"-{self._limit}"
        return self.study.data_folder / "attacks" / f"{model}-{attack}{suffix}.jsonl"

    def _find(self, model: str, attack: str) -> Path:
        path = self._path(model, attack)
        return find_records(path) or path

    def _is_complete(self, path: Path, model: str, attack: str) -> bool:
        """Whether the records are complete; refuses those of other settings or of another model."""
        return record_files.is_finished(path, lambda header: self._wanted(path, model, attack, header))

    def _wanted(self, path: Path, model: str, attack: str, header: Header) -> record_files.Settings:
        """The settings that these attacks would have written into this file."""
        common = {
            "kind": records.ATTACK,
            "attack": config_of(self.attack(attack)),
            "data name": self.study.data,
            "split": "test",
            "limit": min(self._limit, int(header.run["data"]["of"])),
            "chosen": None,
            "budget": None,
            "seed": self.study.seed,
        }
        if model != self.ours:
            return {**common, "model": plain_info(self.study, model, attacked=path).sha256}
        own, masks = self._own_model(), "fresh" if attack == FRESH else "common"
        return {
            **common,
            "keep": self.spec.keep,
            "n": self._n,
            "alpha": self.known.alpha,
            "masks": masks,
            **record_files.wanted_precision(self.study),
            **({} if own is None else {"model": fingerprint(own)}),
        }

    def _make(self, model: str, attack: str) -> None:
        data, chosen, target = self.study.test, self.attack(attack), self._target(model, full=attack == FRESH)
        images = min(self._limit, len(data))
        with self.study.progress.attack(f"attacking {model} by {attack}", images) as callbacks:
            attack_dataset(
                target,
                chosen,
                data,
                self._path(model, attack),
                seed=self.study.seed,
                limit=self._limit,
                group=self._group(target, attack, images),
                **callbacks,
            )

    def _target(self, model: str, full: bool) -> Target:
        study, device = self.study, self.study.device
        data_dir = None if study.data_dir is None else str(study.data_dir)
        if model != self.ours:
            plain_info(study, model)
            return target_of(plain_model(study, model), study.test, device, data_dir)
        settings: dict[str, Any] = {"precision": study.precision, "n": self._n, "alpha": self.known.alpha, "full": full}
        return target_of(str(self.model), study.test, device, data_dir, **settings)

    def _group(self, target: Target, attack: str, images: int) -> int | None:
        """Images attacked at once: as asked, else all that fit on a GPU; None leaves it to the run."""
        if self.group is not None or target.device.type != "cuda" or attack in BY_GRADIENTS:
            return self.group
        restarts = self.restarts or self.known.restarts
        return images_at_once(images, target.copies, restarts, self.study.test.images.shape)


def images_at_once(images: int, copies: int, restarts: int, shape: tuple[int, ...]) -> int:
    """How many images to attack at once on a GPU: as many as fit into 8 GiB; independent of the GPU."""
    line = BYTES_PER_COPY * copies + BYTES_PER_VALUE * math.prod(shape)
    return max(1, min(images, GPU_BYTES // (line * restarts)))


def _name(row: PublishedAttackedRow) -> str:
    """The name of a row's classifier in files and messages."""
    assert row.model is not None
    return row.model if row.keep is None else f"k{row.keep}"
