"""Progress bars of a study."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from sparsecert.cli.progress import attack_bar, inputs_bar, training_bar
from sparsecert.progress import OnProgress, ignore


@dataclass(frozen=True)
class Progress:
    """A bar on stderr for each long step; none unless `shown`."""

    shown: bool = False

    def training(self, label: str) -> AbstractContextManager[OnProgress]:
        """For a training run, or several at once."""
        return training_bar(label) if self.shown else nullcontext(ignore)

    def inputs(self, label: str, inputs: int, copies: int, noun: str = "inputs") -> AbstractContextManager[OnProgress]:
        """For inputs with this many copies each; call it with (inputs, copies) done."""
        return inputs_bar(label, inputs, copies, noun) if self.shown else nullcontext(ignore)

    def attack(self, label: str, images: int) -> AbstractContextManager[dict[str, Any]]:
        """For images under attack; the callbacks of `attack_dataset`."""
        return attack_bar(label, images, "pixels") if self.shown else nullcontext({})

    @contextmanager
    def rows(self, rows: int) -> Iterator[Callable[[], None]]:
        """For certifying the votes of this many records files; call it after each."""
        with self.inputs("certifying the recorded votes", rows, 1, "rows") as on_progress:
            yield lambda: on_progress(1, 0)
