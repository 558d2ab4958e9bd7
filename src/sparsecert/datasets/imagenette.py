"""Imagenette: ten classes of ImageNet, as photographs in ImageNet's layout."""

from __future__ import annotations

from pathlib import Path

from sparsecert.datasets import folder
from sparsecert.datasets.entry import DatasetEntry, RemoteFile
from sparsecert.datasets.location import not_found
from sparsecert.inputs.images import Dataset
from sparsecert.registry import DATASETS


def load(split: str, data_dir: Path) -> Dataset:
    """One split, from `data_dir`/imagenette."""
    if not (data_dir / "imagenette").is_dir():
        raise not_found("imagenette", data_dir)
    return folder.load(data_dir / "imagenette", split, name="imagenette")


ARCHIVE = RemoteFile(
    url="https://s3.amazonaws.com/fast-ai-imageclas/imagenette2-320.tgz",
    md5="3df6f0d01a2c9592104656642f5e78a3",
    path="imagenette2-320.tgz",
    archive_root="imagenette2-320",
    unpacked="imagenette",
)
FINGERPRINTS = {
    "train": "8bb37947363d49ff476ea10e9613e25fcf20674466e327d744918b6e96563130",
    "test": "17d50ddde76ab9ee11c744250198dd35ce9ab8ca1c9ca1d6391afd49ef3bf801",
}
DATASETS.register("imagenette")(
    DatasetEntry(load, sources=(ARCHIVE,), folder="imagenette", title="Imagenette", fingerprints=FINGERPRINTS)
)
