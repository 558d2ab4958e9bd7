"""The records of a study: found, checked against the study's settings, and created if missing.

Complete records files are used, partial ones resumed, missing ones created. Files may be compressed (.gz, .xz);
complete ones need neither model nor data. Unless a number of inputs is asked for, records of more inputs than the
default are preferred.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparsecert import datasets, records
from sparsecert.errors import InputError
from sparsecert.procedures import Fixed, check_settings, procedure_for
from sparsecert.records import Header, Records, find_records
from sparsecert.runs import Limit, RandomSample, record_run
from sparsecert.runs.groups import indices_of, selection_info
from sparsecert.runs.local import DatasetRun
from sparsecert.runs.run_spec import RunSpec
from studies.levine_feizi_2020 import models
from studies.levine_feizi_2020.model_spec import ModelSpec
from studies.levine_feizi_2020.models import CERTIFY, PREDICT
from studies.levine_feizi_2020.published import Sampling
from studies.levine_feizi_2020.study import Study

FINGERPRINT = "data fingerprint"
BOUND = "two-sided"  # its votes answer for both of the paper's corollaries

Settings = dict[str, Any]


def settings_in(header: Header) -> Settings:
    """The settings that a records file states, under the names that refusals use."""
    run, data, scheme = header.run, header.run["data"], header.run.get("scheme", {})
    return {
        **scheme,
        **run,
        "kind": header.kind,
        "scheme": scheme.get("kind"),
        "encoding": run.get("encoding", {}).get("kind"),
        "model": run.get("model", {}).get("sha256"),
        "data name": data.get("name"),
        "split": data.get("split"),
        FINGERPRINT: data.get("fingerprint"),
        "limit": inputs_in(header),
    }


def inputs_in(header: Header) -> int:
    """How many inputs the run of a records file has."""
    return int(header.run["data"]["inputs"])


def difference(there: Settings, wanted: Settings) -> str | None:
    """The first setting that is not as wanted, in words."""
    differing = (name for name, value in wanted.items() if there.get(name) != value)
    return next((f"{name} {there.get(name)}, not {wanted[name]}" for name in differing), None)


def refuse_difference(path: Path, there: Settings, wanted: Settings) -> None:
    """Refuses a file that was made with other settings."""
    if differing := difference(there, wanted):
        raise InputError(f"{path} was made with {differing}; name another --out folder")


def is_finished(path: Path, wanted: Callable[[Header], Settings], of: tuple[Study, ModelSpec] | None = None) -> bool:
    """Whether the records file is complete.

    Refuses one of other settings than `wanted` and, if `of` is given, of another model than the one in its folder.
    """
    seen = records.read_header(path) if path.is_file() else None
    if seen is None:
        return False
    header, lines = seen
    refuse_difference(path, settings_in(header), wanted(header))
    if of is not None:
        _refuse_other_model(*of, path, header)
    return lines == inputs_in(header)


def _refuse_other_model(study: Study, spec: ModelSpec, path: Path, header: Header) -> None:
    model = models.fingerprint(study, spec)
    if model is not None and settings_in(header)["model"] != model:
        raise InputError(f"{path} was made with another model than {study.folder(spec)}; name another --out folder")


def refuse_two_test_sets(study: Study, paths: Iterable[Path], making: bool) -> None:
    """Refuses records of different test sets in one table; `making`: more records of the loaded one will follow.

    A name alone does not identify a data set: a second folder may hold the same photographs in another size.
    """
    seen = [(path, records.read_header(path)) for path in paths if path.is_file()]
    found = {one[0].run["data"].get("fingerprint"): str(path) for path, one in seen if one is not None}
    found.pop(None, None)
    if making and found:
        found.setdefault(study.test.fingerprint(), f"the {study.test.name} that is here")
    if len(found) > 1:
        first, second, *_ = found.values()
        raise InputError(f"{first} is of other test images than {second}; name another --out folder")


def complete(study: Study, specs: Sequence[ModelSpec], sampling: Sampling) -> None:
    """Trains, certifies and predicts what these models lack, model by model, so that finished rows stay finished.

    Small models are trained together on a GPU, all of them before the first is certified.
    """
    lacking = {
        spec: [kind for kind in _kinds(sampling) if not is_complete(study, spec, kind, sampling)]
        for spec in dict.fromkeys(specs)
    }
    lacking = {spec: missing for spec, missing in lacking.items() if missing}
    there = [locate(study, spec, kind, sampling) for spec in specs for kind in _kinds(sampling)]
    refuse_two_test_sets(study, there, making=bool(lacking))
    for spec in lacking:  # refuse what cannot be done before hours of work
        scheme = spec.scheme(study.test.images.shape)
        check_settings(scheme, study.seed, sampling.alpha, n0=sampling.n0, n=sampling.n)
        models.refuse_orphans(study, spec)
    for together in models.batches(study, list(lacking)):
        models.train(study, together)
        for spec in together:
            for kind in lacking[spec]:
                make(study, spec, kind, sampling)


def has(study: Study, spec: ModelSpec, sampling: Sampling) -> bool:
    """Whether the model has complete records with the study's settings."""
    try:
        return all(is_complete(study, spec, kind, sampling) for kind in _kinds(sampling))
    except InputError:
        return False


def read(study: Study, spec: ModelSpec, sampling: Sampling) -> tuple[Records, Records | None]:
    """The model's records of certify and, where the sampling predicts, of predict."""
    certified = records.read(locate(study, spec, CERTIFY, sampling))
    predicts = sampling.predict_n is not None
    return certified, records.read(locate(study, spec, PREDICT, sampling)) if predicts else None


def make(study: Study, spec: ModelSpec, kind: str, sampling: Sampling) -> None:
    """Creates or completes the model's records of this kind."""
    if kind == CERTIFY:
        procedure = Fixed(sampling.n0, sampling.n, BOUND)
    else:
        assert sampling.predict_n is not None
        procedure = Fixed(n=sampling.predict_n, bound=BOUND)
    run = RunSpec(kind, procedure, sampling.alpha, study.seed)
    vote(study, spec, run, _path(study, spec, kind, sampling), study.inputs)


def vote(study: Study, spec: ModelSpec, run: RunSpec, out: Path, limit: Limit) -> None:
    """Creates or completes the records of a run over test inputs."""
    smoothed, data = models.load(study, spec), study.test
    run = replace(run, procedure=procedure_for(smoothed, run.procedure))
    copies = (run.procedure.first_votes if run.kind == PREDICT else run.procedure.most_votes)(smoothed.scheme)
    with study.progress.inputs(f"{run.kind}ing {spec.folder}", len(indices_of(data, limit)), copies) as on_progress:
        record_run(DatasetRun(run, smoothed, study.folder(spec), data, out, limit, on_progress=on_progress))


def is_complete(study: Study, spec: ModelSpec, kind: str, sampling: Sampling) -> bool:
    """Whether the records are complete; refuses those of other settings or of another model."""
    path = locate(study, spec, kind, sampling)
    return is_finished(path, lambda header: _wanted(study, spec, kind, sampling, header), (study, spec))


def locate(study: Study, spec: ModelSpec, kind: str, sampling: Sampling) -> Path:
    """The model's records file: unless a number of inputs is asked for, the largest that is complete."""
    path = _path(study, spec, kind, sampling)
    larger = _larger(study, path) if study.limit is None and study.defaults.limit is not None else []
    whole = (other for other in larger if _is_whole(study, other, spec, kind, sampling))
    return next(whole, find_records(path) or path)


def _kinds(sampling: Sampling) -> list[str]:
    """The kinds of records that a sampling needs."""
    return [CERTIFY] if sampling.predict_n is None else [CERTIFY, PREDICT]


def _path(study: Study, spec: ModelSpec, kind: str, sampling: Sampling) -> Path:
    """The file is named after its kind, and after alpha and the number of inputs where they are not the default."""
    alpha = "" if sampling.alpha == 0.05 else f"-alpha-{sampling.alpha}"
    usual = study.limit is None or study.defaults.limit in (None, study.limit)
    return study.folder(spec) / f"{kind}{alpha}{'' if usual else f'-{study.limit}'}.jsonl"


def _is_whole(study: Study, path: Path, spec: ModelSpec, kind: str, sampling: Sampling) -> bool:
    """Whether the file has every input of a run of the study's settings."""
    try:
        return is_finished(path, lambda header: _wanted(study, spec, kind, sampling, header))
    except InputError:
        return False


def _larger(study: Study, path: Path) -> list[Path]:
    """Files beside this one that name a number of inputs above the default, the largest first."""
    found: dict[int, Path] = {}
    for other in sorted(path.parent.glob(f"{path.stem}-*.jsonl*"), reverse=True):
        named = re.fullmatch(rf"{re.escape(path.stem)}-(\d+)\.jsonl(\.gz|\.xz)?", other.name)
        if named and int(named[1]) > (study.defaults.limit or 0):
            found[int(named[1])] = other
    return [found[inputs] for inputs in sorted(found, reverse=True)]


def _wanted(study: Study, spec: ModelSpec, kind: str, sampling: Sampling, header: Header) -> Settings:
    """The settings that the study would have written into this file."""
    of, number = int(header.run["data"]["of"]), study.inputs
    number = number.limit if isinstance(number, RandomSample) else number
    limit = of if number is None else min(number, of)
    if study.limit is None:
        limit = max(limit, inputs_in(header))  # more than the default is as good
    chosen = selection_info(RandomSample(limit, study.seed), of) if study.defaults.random else {}
    samples = {"n0": sampling.n0, "n": sampling.n} if kind == CERTIFY else {"n": sampling.predict_n}
    return {
        **spec.settings,
        "seed": study.seed,
        "alpha": sampling.alpha,
        **samples,
        "sampling": None,
        **_wanted_data(study),
        "limit": limit,
        "chosen": chosen.get("chosen"),
        **wanted_precision(study),
    }


def wanted_precision(study: Study) -> Settings:
    """The precision, if the study asks for one."""
    return {} if study.precision is None else {"precision": study.precision}


def _wanted_data(study: Study) -> Settings:
    """Which data set it must be; folders may share a name, so they are identified by content."""
    if study.data in datasets.DATASETS:
        return {"data name": study.data, "split": "test"}
    at_hand = Path(study.data).expanduser().is_dir()
    return {"split": "test", **({FINGERPRINT: study.test.fingerprint()} if at_hand else {})}
