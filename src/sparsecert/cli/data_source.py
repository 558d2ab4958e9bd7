"""The data that a command line names, and how it is loaded."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sparsecert.cli.options import given, refuse_given
from sparsecert.errors import InputError

if TYPE_CHECKING:
    from sparsecert.datasets import Dataset
    from sparsecert.inputs import Inputs


@dataclass(frozen=True)
class DataSource:
    """The values of --data, --split, --data-dir, --skip-bad, --resize and --limit."""

    name: str
    split: str
    data_dir: str | None = None
    skip_bad: bool = False
    resize: int | None = None
    limit: int | None = None

    def load(self, facts: Mapping[str, Any]) -> Inputs:
        """Texts or rows if the model was trained on such, else images; `facts` are of the model's file."""
        if "text" in facts:
            from sparsecert.inputs.texts import Texts

            refuse_given(["split", "skip_bad", "resize"], "is for images; leave it out for texts")
            return Texts.read(self.name, facts)
        if "table" not in facts and not self._is_table():
            return self.load_images(facts)
        from sparsecert.inputs.rows import Rows

        if not Path(self.name).expanduser().is_file():
            raise InputError(f"the model was trained on a table; --data must be a table file, got {self.name}")
        refuse_given(["split", "skip_bad", "resize"], "is for images; leave it out for a table")
        rows = Rows.read(self.name, facts)
        for line in rows.notes:
            click.echo(line, err=True)
        return rows

    def load_images(self, facts: Mapping[str, Any] | None = None) -> Dataset:
        """A split of a data set; reports skipped files, a `limit` above its size, and other images than its name says.

        facts: of the model's file; images of another shape are refused, those of another data set reported.
        """
        from sparsecert import datasets
        from sparsecert.cli.progress import files_bar
        from sparsecert.datasets.provenance import check_data, doubts

        self.refuse_in_memory(["skip_bad"])
        with files_bar(f"checking files of {self.split}") as on_progress:
            data = datasets.load(self.name, self.split, self.data_dir, self.skip_bad, on_progress, size=self.resize)
        report_non_images(data)
        if data.skipped:
            from sparsecert.datasets.bad_files import describe_skipped

            click.echo(describe_skipped(data), err=True)
        check_data(facts or {}, data)
        for line in (*data.notes, *(f"warning: {doubt}" for doubt in doubts(data, facts or {}))):
            click.echo(line, err=True)
        if self.limit is not None and self.limit > len(data):
            where = f"{self.name} {self.split}"
            click.echo(f"--limit {self.limit:,} exceeds {where}: using all {len(data):,} inputs", err=True)
        return data

    def refuse_in_memory(self, names: Collection[str]) -> None:
        """Refuses options for image folders if the data set is held in memory."""
        from sparsecert.datasets import in_memory

        if in_memory(self.name):
            refuse_given(names, f"is for folders of image files, and {self.name} is held in memory; leave it out")

    def words(self, split: str = "train") -> str:
        """The options that name the same data on another command line; test images that are lacking are the user's."""
        from sparsecert.datasets import has_test_images

        name = self.name if split == "train" or has_test_images(self.name) else "YOUR-TEST-IMAGES"
        where = ["--data-dir", self.data_dir] if self.data_dir is not None and "data_dir" in given() else []
        size = [] if self.resize is None else ["--resize", str(self.resize)]
        return shlex.join(["--data", name, *where, *size])

    def _is_table(self) -> bool:
        path = Path(self.name).expanduser()
        return path.is_file() and path.suffix.lower() not in (".npz", ".npy")


def report_non_images(data: Dataset) -> None:
    """Reports the files of an image folder that are not images, if any."""
    if data.non_images:
        from sparsecert.datasets.folder import describe_non_images

        click.echo(describe_non_images(data), err=True)
