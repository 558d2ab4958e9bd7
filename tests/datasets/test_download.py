from __future__ import annotations

import errno
import functools
import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from sparsecert.datasets import DATASETS, load
from sparsecert.datasets.download import RemoteFile, fetch, get
from sparsecert.errors import InputError

from .made import idx_bytes

TEXT = bytes(range(256)) * 4_000


class Server:
    """Serves `files` by name; `short` names are cut in the middle; `asked` counts the requests."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.short: set[str] = set()
        self.asked: list[str] = []
        self.httpd = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, self))
        self.url = f"http://127.0.0.1:{self.httpd.server_port}"

    def source(self, name: str, content: bytes, **fields: str) -> RemoteFile:
        self.files[name] = content
        return RemoteFile(f"{self.url}/{name}", md5(content), **{"path": name, **fields})


class Handler(BaseHTTPRequestHandler):
    def __init__(self, server: Server, *arguments: object) -> None:
        self.served = server
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        name = self.path.rpartition("/")[2]
        self.served.asked.append(name)
        content = self.served.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if name in self.served.short else content)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    thread = threading.Thread(target=made.httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.httpd.shutdown()
    made.httpd.server_close()
    thread.join()


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def tar(files: dict[str, bytes], *special: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as out:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
        for member in special:
            out.addfile(member)
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def refusal(source: RemoteFile, folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        fetch(source, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_arrives_whole_with_progress(server: Server, tmp_path: Path) -> None:
    steps: list[tuple[int, int | None]] = []
    source = server.source("a.bin", TEXT, path="in/side/a.bin")
    assert fetch(source, tmp_path, lambda done, total: steps.append((done, total)))
    assert (tmp_path / "in/side/a.bin").read_bytes() == TEXT
    assert steps[-1] == (len(TEXT), len(TEXT))
    assert steps == sorted(steps)
    assert everything(tmp_path) == ["in", "in/side", "in/side/a.bin"]


def test_a_file_in_place_is_not_fetched_again_and_a_damaged_one_is(server: Server, tmp_path: Path) -> None:
    source = server.source("a.bin", TEXT)
    (tmp_path / "a.bin").write_bytes(b"damaged")
    assert fetch(source, tmp_path)
    assert not fetch(source, tmp_path)
    assert server.asked == ["a.bin"]
    assert (tmp_path / "a.bin").read_bytes() == TEXT


def test_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    source = server.source("a.bin", TEXT)
    server.files["a.bin"] = TEXT[:-1] + b"?"
    message = refusal(source, tmp_path)
    assert f"{server.url}/a.bin does not have the expected checksum (md5 {md5(TEXT)})" in message
    assert everything(tmp_path) == []


def test_http_error_says_how_to_fetch_by_hand(server: Server, tmp_path: Path) -> None:
    message = refusal(RemoteFile(f"{server.url}/gone", md5(TEXT), "x/gone"), tmp_path)
    assert message == (
        f"cannot download {server.url}/gone (HTTP Error 404: Not Found); fetch it on another machine, "
        f"put it at {tmp_path}/x/gone and run this again"
    )


def test_no_server_says_how_to_fetch_by_hand(server: Server, tmp_path: Path) -> None:
    server.httpd.server_close()
    message = refusal(RemoteFile(f"{server.url}/a", md5(TEXT), "a"), tmp_path)
    assert message.startswith(f"cannot download {server.url}/a (")
    assert f"put it at {tmp_path}/a and run this again" in message


def test_a_cut_connection_leaves_nothing(server: Server, tmp_path: Path) -> None:
    source = server.source("a.bin", TEXT)
    server.short.add("a.bin")
    assert f"cannot download {server.url}/a.bin (IncompleteRead" in refusal(source, tmp_path)
    assert everything(tmp_path) == []


def test_an_unusable_address_is_refused(tmp_path: Path) -> None:
    assert "cannot download nonsense (unknown url type" in refusal(RemoteFile("nonsense", md5(b""), "a"), tmp_path)


def test_unwritable_folder_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    message = refusal(server.source("a.bin", TEXT), tmp_path / "file" / "data")
    assert message.startswith(f"cannot write to {tmp_path}/file/data (")
    assert "choose another --data-dir" in message
    assert server.asked == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_full_disk_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.bin.part").symlink_to("/dev/full")
    message = refusal(server.source("a.bin", TEXT), tmp_path)
    assert message.startswith(f"cannot write to {tmp_path} (No space left on device); free some space")
    assert everything(tmp_path) == []


def test_an_interrupted_download_leaves_nothing(server: Server, tmp_path: Path) -> None:
    def interrupt(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(server.source("a.bin", TEXT), tmp_path, interrupt)
    assert everything(tmp_path) == []


ARCHIVE = {"path": "a.tgz", "archive_root": "root", "unpacked": "set"}


def test_an_archive_is_unpacked_and_removed(server: Server, tmp_path: Path) -> None:
    content = tar({"root/train/x": b"1", "./root/y": b"22", "other/z": b"3"}, special("root/empty", tarfile.DIRTYPE))
    source = server.source("a.tgz", content, **ARCHIVE)
    assert fetch(source, tmp_path)
    assert everything(tmp_path) == ["set", "set/train", "set/train/x", "set/y"]
    assert (tmp_path / "set/y").read_bytes() == b"22"
    assert not fetch(source, tmp_path)
    assert server.asked == ["a.tgz"]


def test_an_archive_carried_over_by_hand_is_used_and_kept(server: Server, tmp_path: Path) -> None:
    content = tar({"root/x": b"1"})
    (tmp_path / "a.tgz").write_bytes(content)
    assert fetch(server.source("a.tgz", content, **ARCHIVE), tmp_path)
    assert server.asked == []
    assert everything(tmp_path) == ["a.tgz", "set", "set/x"]


UNSAFE = {
    "absolute": tar({"/elsewhere/x": b"1"}),
    "parent": tar({"root/x": b"1", "root/../../x": b"1"}),
    "backslash": tar({"root\\..\\x": b"1"}),
    "drive": tar({"C:/x": b"1"}),
    "symbolic link": tar({"root/x": b"1"}, special("root/link", tarfile.SYMTYPE, "/etc")),
    "hard link": tar({"root/x": b"1"}, special("root/link", tarfile.LNKTYPE, "root/x")),
    "fifo": tar({"root/x": b"1"}, special("root/fifo", tarfile.FIFOTYPE)),
    "no such root": tar({"elsewhere/x": b"1"}),
    "root is a file": tar({"root": b"1"}),
    "not a tar": b"hello",
    "cut tar": tar({"root/x": TEXT + bytes(10_000)})[:-300],
}


@pytest.mark.parametrize("case", UNSAFE)
def test_unsafe_archives_write_nothing(server: Server, tmp_path: Path, case: str) -> None:
    inner = tmp_path / "deep" / "data"
    message = refusal(server.source("a.tgz", UNSAFE[case], **ARCHIVE), inner)
    assert message.startswith(f"{inner}/a.tgz ")
    assert message.endswith(("do not use this archive", "delete it and run this again"))
    assert everything(tmp_path) == ["deep", "deep/data", "deep/data/a.tgz"]


def test_full_disk_while_unpacking_is_refused(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("sparsecert.datasets.archive.shutil.copyfileobj", full)
    message = refusal(server.source("a.tgz", tar({"root/x": b"1"}), **ARCHIVE), tmp_path)
    assert message.startswith(f"cannot write to {tmp_path} (No space left on device)")
    assert everything(tmp_path) == ["a.tgz"]


def small_imagenette() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (20, 20), (1, 2, 3)).save(buffer, "PNG")
    return tar(
        {f"imagenette2-320/{split}/n0{k}/x.png": buffer.getvalue() for split in ("train", "val") for k in (1, 2)}
    )


def use(monkeypatch: pytest.MonkeyPatch, name: str, *sources: RemoteFile) -> None:
    monkeypatch.setitem(DATASETS._things, name, replace(DATASETS[name], sources=sources))


def test_get_makes_load_work_and_then_does_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = small_imagenette()
    use(
        monkeypatch,
        "imagenette",
        server.source("i.tgz", content, archive_root="imagenette2-320", unpacked="imagenette"),
    )
    first = get("imagenette", tmp_path)
    assert first.added == (tmp_path / "imagenette",)
    assert first.message == f"imagenette is ready in {tmp_path}"
    assert len(load("imagenette", "test", tmp_path)) == 2
    again = get("imagenette", tmp_path)
    assert again.added == ()
    assert again.message == f"imagenette is already complete in {tmp_path}; nothing to do"
    assert server.asked == ["i.tgz"]


def test_get_fetches_only_the_missing_files(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = np.zeros((3, 28, 28), dtype=np.uint8), np.arange(3, dtype=np.uint8)
    sources = [
        server.source(file, idx_bytes(array), path=f"MNIST/raw/{file}")
        for prefix in ("train", "t10k")
        for file, array in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", labels))
    ]
    use(monkeypatch, "mnist", *sources)
    fetch(sources[0], tmp_path)
    assert len(get("mnist", tmp_path).added) == 3
    assert load("mnist", "train", tmp_path).labels.tolist() == [0, 1, 2]
    assert len(server.asked) == 4


def test_get_says_when_an_incomplete_folder_is_in_the_way(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imagenette" / "train").mkdir(parents=True)
    use(monkeypatch, "imagenette", server.source("i.tgz", b"", archive_root="r", unpacked="imagenette"))
    with pytest.raises(InputError, match=r"still unusable: .*train has no class folders.*delete what is there"):
        get("imagenette", tmp_path)
    assert server.asked == []


def test_a_mirror_holds_the_same_files_under_the_same_checksums(server: Server, tmp_path: Path) -> None:
    server.files["train-images-idx3-ubyte.gz"] = b"not the real one"
    with pytest.raises(InputError, match=f"{server.url}/mirror/train-images-idx3-ubyte.gz does not have the expected"):
        get("mnist", tmp_path, base_urls={"mnist": f"{server.url}/mirror/"})
    assert server.asked == ["train-images-idx3-ubyte.gz"]


def test_addresses_and_checksums_are_well_formed() -> None:
    assert any(entry.sources for entry in DATASETS.values())
    for entry in DATASETS.values():
        for source in entry.sources:
            assert source.url.startswith("https://")
            assert source.url.endswith(Path(source.path).name)
            assert len(bytes.fromhex(source.md5)) == 16


def test_what_cannot_be_downloaded(tmp_path: Path) -> None:
    for name in ("digits", "mnist-sample", "cifar10-sample"):
        result = get(name, tmp_path)
        assert (result.added, result.message) == ((), f"{name} ships with the package; there is nothing to get")
    with pytest.raises(InputError, match=r"imagenet cannot be downloaded: its licence .*imagenet/\{train,val\}/"):
        get("imagenet", tmp_path)
    with pytest.raises(InputError, match=r"data set must be one of cifar10, cifar10-sample, digits, .*got 'svhn'"):
        get("svhn", tmp_path)
    assert everything(tmp_path) == []
