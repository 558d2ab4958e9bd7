"""Progress bars of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from sparsecert.cli.progress import evaluations, inputs_bar, training_bar
from sparsecert.training import TrainingProgress


@dataclass(frozen=True)
class Progress:
    """A bar on stderr for each thing that takes long, or none where they are not `shown`."""

    shown: bool = False

    def training(self, label: str) -> AbstractContextManager[Callable[[TrainingProgress], None]]:
        """For a training run, or several at once."""
        return training_bar(label) if self.shown else nullcontext(_ignore)

    def inputs(
        self, label: str, inputs: int, copies: int, noun: str = "inputs"
    ) -> AbstractContextManager[Callable[[int, int], None]]:
        """For inputs with so many copies each; call it with (inputs, copies) done."""
        return inputs_bar(label, inputs, copies, noun) if self.shown else nullcontext(_ignore)

    def images(self, label: str, images: int) -> AbstractContextManager[Callable[[int, int], None]]:
        """For images under attack; call it with (images, evaluations) done."""
        return inputs_bar(label, images, None, "images", evaluations) if self.shown else nullcontext(_ignore)

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """For certifying the votes of so many records files; call it after each."""
        with self.inputs("certifying the recorded votes", rows, 1, "rows") as on_progress:
            yield lambda: on_progress(1, 0)


def _ignore(*_: object) -> None:
    pass
