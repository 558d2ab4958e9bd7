"""How a study tells of its progress: to a terminal, or to nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from sparsecert.reproduce.cell import Cell

if TYPE_CHECKING:
    from sparsecert.training import TrainingProgress


class Bars(Protocol):
    """How a study tells of its progress."""

    def training(self, cells: Sequence[Cell]) -> AbstractContextManager[Callable[[TrainingProgress], None]]:
        """For the training of these cells together."""

    def inputs(
        self, cell: Cell, verb: str, inputs: int, copies: int | None
    ) -> AbstractContextManager[Callable[[int, int], None]]:
        """For one cell's records."""

    def plain(self, kind: str) -> AbstractContextManager[Callable[[TrainingProgress], None]]:
        """For the training of a plain network."""

    def images(self, verb: str, images: int) -> AbstractContextManager[Callable[[int, int], None]]:
        """For images that are attacked: to be told (images, evaluations) done."""

    def rows(self, rows: int) -> AbstractContextManager[Callable[[], None]]:
        """For certifying the votes of so many records files; to be called after each."""


class Quiet:
    """Tells nothing."""

    @contextmanager
    def training(self, cells: Sequence[Cell]) -> Iterator[Callable[[TrainingProgress], None]]:
        """Nothing is told."""
        yield lambda progress: None

    @contextmanager
    def inputs(self, cell: Cell, verb: str, inputs: int, copies: int | None) -> Iterator[Callable[[int, int], None]]:
        """Nothing is told."""
        yield lambda inputs, copies: None

    @contextmanager
    def plain(self, kind: str) -> Iterator[Callable[[TrainingProgress], None]]:
        """Nothing is told."""
        yield lambda progress: None

    @contextmanager
    def images(self, verb: str, images: int) -> Iterator[Callable[[int, int], None]]:
        """Nothing is told."""
        yield lambda images, evaluations: None

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """Nothing is told."""
        yield lambda: None
