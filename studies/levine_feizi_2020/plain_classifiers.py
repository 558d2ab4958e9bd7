"""The plain classifiers of a study, which Table 2 attacks beside the smoothed one.

    OUT/mnist/plain/cnn/model.safetensors       a network, trained if missing
    OUT/mnist/plain/abs/binarized.safetensors   the second classifier of a training run: binary ABS
    OUT/mnist/attacks/plain.json                the accuracy of each on all test images

With the second file a table can be printed without networks or data.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from sparsecert.errors import InputError
from sparsecert.files import write_atomically
from sparsecert.modelfile import MODEL_NAME, fingerprint
from sparsecert.plain import (
    BINARIZED_NAME,
    NEAREST_NEIGHBOUR,
    PlainRecipe,
    defender_for,
    load,
    plain_recipe,
    train_plain,
)
from sparsecert.runs.groups import groups, load_batch
from studies.levine_feizi_2020.study import Study

INFO_NAME = "plain.json"
BINARY_ABS = "abs-binarized"
AT_ONCE = 1_000  # test images per query of the nearest neighbour


@dataclass(frozen=True)
class PlainInfo:
    """A plain classifier: the hash of its file or training set, and its accuracy on all `images` of the test set.

    seed and epochs are those of a network's training; under_attack is the accuracy of an adversarially trained one
    under the ascent that it was trained with.
    """

    sha256: str
    images: int
    accuracy: float
    seed: int | None = None
    epochs: int | None = None
    under_attack: float | None = None


def plain_file(study: Study, kind: str) -> Path:
    """The model file of the network of that kind."""
    folder, name = ("abs", BINARIZED_NAME) if kind == BINARY_ABS else (kind, MODEL_NAME)
    return study.data_folder / "plain" / folder / name


def plain_model(study: Study, kind: str) -> str:
    """What `sparsecert attack` calls the classifier: its file, which must exist, or its name."""
    if kind == NEAREST_NEIGHBOUR:
        return kind
    file = plain_file(study, kind)
    if not _exists(study, kind):
        raise InputError(f"{info_path(study)} tells of a model that is not in {file.parent}; name another --out folder")
    return str(file)


def _exists(study: Study, kind: str) -> bool:
    return kind == NEAREST_NEIGHBOUR or plain_file(study, kind).is_file()


def is_known(study: Study, kind: str) -> bool:
    """Whether the classifier's accuracy is on file."""
    return kind in _stored(study)


def plain_info(study: Study, kind: str, attacked: Path | None = None) -> PlainInfo:
    """Hash and accuracy of the classifier.

    A missing network is trained first, unless the records `attacked` are of it: retrained, it would be another one.
    """
    known = _stored(study)
    if kind in known:
        _check(study, kind, known[kind])
        return known[kind]
    if attacked is not None and not _exists(study, kind):
        raise InputError(
            f"{attacked} is of a model that is not in {plain_file(study, kind).parent}; name another --out folder"
        )
    found = _nearest_neighbour(study) if kind == NEAREST_NEIGHBOUR else _network(study, kind)
    text = json.dumps({name: asdict(info) for name, info in {**_stored(study), kind: found}.items()}, indent=1)
    write_atomically(info_path(study), f"{text}\n".encode())
    return found


def info_path(study: Study) -> Path:
    """The file that stores `plain_info`."""
    return study.data_folder / "attacks" / INFO_NAME


def _stored(study: Study) -> dict[str, PlainInfo]:
    path = info_path(study)
    if not path.is_file():
        return {}
    try:
        known = {name: PlainInfo(**info) for name, info in json.loads(path.read_text()).items()}
        for info in known.values():
            if info.images < 1 or not 0 <= info.accuracy <= 1:
                raise ValueError(f"accuracy {info.accuracy} on {info.images} images")
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it and run the command again") from error
    return known


def _check(study: Study, kind: str, info: PlainInfo) -> None:
    """Refuses a network trained with other settings, or other than the one in its folder."""
    if kind == NEAREST_NEIGHBOUR:
        return

    path = info_path(study)
    wanted = {"seed": study.seed, "epochs": _recipe(study, kind).epochs}
    for name, value in wanted.items():
        if getattr(info, name) != value:
            raise InputError(
                f"{path} has a {kind} of {name} {getattr(info, name)}, not {value}; name another --out folder"
            )
    file = plain_file(study, kind)
    if _exists(study, kind) and fingerprint(file) != info.sha256:
        raise InputError(f"{path} is of another model than {file}; name another --out folder")


def _recipe(study: Study, kind: str) -> PlainRecipe:
    recipe = plain_recipe(study.data, "abs" if kind == BINARY_ABS else kind)
    return recipe if study.epochs is None else replace(recipe, epochs=study.epochs)


def _network(study: Study, kind: str) -> PlainInfo:
    file, recipe = plain_file(study, kind), _recipe(study, kind)
    with study.progress.training(f"training {kind}") as on_progress:
        train_plain(
            study.training,
            study.test,
            recipe,
            file.parent,
            seed=study.seed,
            device=study.device,
            checkpoint_seconds=study.checkpoint_seconds,
            on_progress=on_progress,
        )
    test = load(file)[1]["test"]
    return PlainInfo(
        sha256=fingerprint(file),
        images=test["images"],
        accuracy=test["accuracy"],
        seed=study.seed,
        epochs=recipe.epochs,
        under_attack=test.get("accuracy_under_attack"),
    )


def _nearest_neighbour(study: Study) -> PlainInfo:
    test = study.test
    defender, right = defender_for(NEAREST_NEIGHBOUR, test, study.device, study.data_dir), 0
    with study.progress.inputs(f"classifying by {NEAREST_NEIGHBOUR}", len(test), 1, "images") as on_progress:
        for examples in groups(test.spaced_indices(None), AT_ONCE):
            labels = torch.from_numpy(test.labels[examples])
            right += int((defender.answers(load_batch(test, examples)).labels == labels).sum())
            on_progress(len(examples), len(examples))
    return PlainInfo(sha256=study.training.fingerprint(), images=len(test), accuracy=right / len(test))
