from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sparsecert.datasets import load
from sparsecert.datasets.folder import FolderImages
from sparsecert.datasets.stream import IMAGES_PER_CALL, Request, Stream
from sparsecert.datasets.views import CentreCrop, RandomCrop
from sparsecert.datasets.workers import Workers, default_workers
from sparsecert.errors import InputError

from .made import write_image

SIZE = 16


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> FolderImages:
    """Forty images of various sizes, the large ones at the front of every batch."""
    folder = tmp_path_factory.mktemp("many")
    generator = np.random.default_rng(0)
    for i in range(40):
        side = 300 if i % 4 == 0 else 20
        write_image(folder / f"{i:02}.png", generator.integers(0, 256, (side, side + i, 3), dtype=np.uint8))
    return FolderImages(folder, tuple(f"{i:02}.png" for i in range(40)), SIZE)


def children() -> set[int]:
    """The processes that this one has started and that are not gone."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():
        pytest.skip("children are read from /proc")
    while True:
        try:
            return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread ended meanwhile; what it had started is listed under another


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("ahead", [1, 5])
def test_batches_are_those_of_the_folder_in_the_order_asked_for(many: FolderImages, workers: int, ahead: int) -> None:
    requests: list[Request] = [
        (range(40), RandomCrop(7, 0)),
        ([3], RandomCrop(7, 1)),
        ([39, 0, 0, 12], CentreCrop()),
        (np.arange(40)[::-1], RandomCrop(8, 1)),
        ([], CentreCrop()),
        (range(0, 40, 4), RandomCrop(7, 2**40)),
    ]
    with Stream(many, workers, ahead) as stream:
        batches = list(stream.batches(requests))
        again = list(stream.batches(requests[1:3]))
    assert len(batches) == len(requests)
    for batch, (indices, view) in zip(batches, requests, strict=True):
        assert batch.dtype == np.uint8
        assert np.array_equal(batch, many.load_views(indices, view))
    assert np.array_equal(batches[3], many.load_views(np.arange(40)[::-1], RandomCrop(8, 1)))
    assert np.array_equal(batches[2], many.batch([39, 0, 0, 12]))
    assert all(np.array_equal(one, other) for one, other in zip(again, batches[1:3], strict=True))


def test_no_more_batches_are_begun_than_may_be_ahead(many: FolderImages) -> None:
    drawn = made = 0

    def endless() -> Iterator[Request]:
        nonlocal drawn
        while True:
            drawn += 1
            yield [drawn % 40, 0], CentreCrop()

    def empty(shape: tuple[int, ...]) -> np.ndarray:
        nonlocal made
        made += 1
        return np.full(shape, 255, dtype=np.uint8)

    with Stream(many, 2, ahead=3, empty=empty) as stream:
        batches = stream.batches(endless())
        assert drawn == 0
        for taken in range(1, 6):
            batch = next(batches)
            assert drawn == made == taken + 3
            assert np.array_equal(batch, many.batch([taken % 40, 0]))
        batches.close()  # type: ignore[attr-defined]
        assert np.array_equal(next(stream.batches([([5], CentreCrop())])), many.batch([5]))


def test_a_bad_file_is_named_when_its_batch_is_due(many: FolderImages, tmp_path: Path) -> None:
    write_image(tmp_path / "good.png", np.zeros((SIZE, SIZE, 3), dtype=np.uint8))
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    images = FolderImages(tmp_path, ("good.png", "bad.jpg"), SIZE)
    with Stream(images, 2, ahead=4) as stream:
        batches = stream.batches(([i == 2] * 3, CentreCrop()) for i in range(10))
        assert not next(batches).any()
        assert not next(batches).any()
        with pytest.raises(InputError, match=r"bad\.jpg cannot be decoded as an image .*; replace or remove it"):
            next(batches)
        assert not next(stream.batches([([0], CentreCrop())])).any()  # the processes go on


def test_indices_and_numbers_are_checked(many: FolderImages) -> None:
    with Stream(many, 1) as stream, pytest.raises(InputError, match="indices must be between 0 and 39, got 0 to 40"):
        next(stream.batches([([0, 40], CentreCrop())]))
    with pytest.raises(InputError, match="workers must be a whole number between 0 and"):
        Stream(many, -1)
    with pytest.raises(InputError, match="ahead must be a whole number between 1 and"):
        Stream(many, ahead=0)
    with pytest.raises(RuntimeError, match="within its `with` block"):
        next(Stream(many, 1).batches([([0], CentreCrop())]))


def test_nothing_is_left_running(many: FolderImages) -> None:
    before, threads = children(), threading.active_count()
    with Stream(many, 3) as stream:
        assert len(children() - before) == 3
        next(stream.batches([([0], CentreCrop())] * 20))
    assert children() == before
    with pytest.raises(KeyboardInterrupt), Stream(many, 3) as stream:  # noqa: PT012
        for _ in stream.batches([(range(40), CentreCrop())] * 20):
            raise KeyboardInterrupt
    assert children() == before
    assert threading.active_count() == threads


def test_a_worker_that_is_killed_is_said_so(many: FolderImages) -> None:
    before = children()
    with Stream(many, 1, ahead=1) as stream:
        batches = stream.batches([(range(40), CentreCrop())] * 100)
        next(batches)
        (worker,) = children() - before
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(InputError, match="ended with signal 9; if memory is short, use fewer workers"):
            list(batches)
    assert children() == before


def test_what_a_worker_prints_or_raises_does_not_reach_its_answers(capfd: pytest.CaptureFixture[str]) -> None:
    with Workers(1) as workers:
        assert workers.submit(print, "hello").result() is None
        assert workers.submit(divmod, 7, 2).result() == [3, 1]
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            workers.submit(divmod, 1, 0).result()
        assert workers.submit(divmod, 9, 2).result() == [4, 1]
    assert capfd.readouterr().out == ""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read from /proc")
def test_a_script_needs_no_guard_and_its_workers_end_with_it(many: FolderImages, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from sparsecert.datasets.folder import FolderImages\n"
        "from sparsecert.datasets.stream import Stream\n"
        "from sparsecert.datasets.views import CentreCrop\n"
        "assert 'torch' not in sys.modules\n"
        f"images = FolderImages(Path({str(many.root)!r}), {many.files!r}, {SIZE})\n"
        "stream = Stream(images, 2).__enter__()\n"
        "print(next(stream.batches([([0], CentreCrop())])).sum())\n"
        "task = Path('/proc/self/task')\n"
        "print(*(pid for t in task.iterdir() for pid in (t / 'children').read_text().split()), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (-signal.SIGKILL, "")
    total, workers = done.stdout.splitlines()
    assert int(total) == int(many.batch([0]).sum())
    assert len(workers.split()) == 2
    for pid in workers.split():
        for _ in range(500):
            if not running(pid):
                break
            threading.Event().wait(0.02)
        assert not running(pid)


def running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_as_many_workers_as_cpus_at_most_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(5)), raising=False)
    assert default_workers() == 5
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)))
    assert default_workers() == 16


def test_real_imagenette(real_data: Callable[[str], Path]) -> None:
    images = load("imagenette", "train", real_data("imagenette")).images
    assert isinstance(images, FolderImages)
    requests: list[Request] = [(range(epoch, 5000, 500), RandomCrop(0, epoch)) for epoch in range(1, IMAGES_PER_CALL)]
    with Stream(images, 2, ahead=2) as stream:
        for batch, (indices, view) in zip(stream.batches(requests), requests, strict=True):
            assert np.array_equal(batch, images.load_views(indices, view))
