"""The wheel: everything of the package is in it, and in an environment without the sources the command works."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.check

ROOT = Path(__file__).parent.parent
SOURCE_ONLY = "CHANGELOG.md", "constraints.txt", "mkdocs.yml", "docs", "examples"  # in the source archive alone
PARTS = "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE", "src", *SOURCE_ONLY

LEAST = {"build": (1, 2), "setuptools": (77, 0), "pip": (22, 3)}  # the extra `dist` of pyproject.toml


def _version(name: str) -> tuple[int, ...]:
    if importlib.util.find_spec(name) is None:
        return (0,)
    return tuple(int(number) for number in re.findall(r"\d+", importlib.metadata.version(name))[:2])


if any(_version(name) < least for name, least in LEAST.items()):
    pytest.skip(f"the wheel is made by {LEAST} or newer: pip install '.[dist]'", allow_module_level=True)


def _run(*command: object, cwd: Path) -> str:
    """What the command prints; without what would let it find the sources."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARSECERT_DATA")}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `make dist` builds it, by way of the source archive."""
    folder = tmp_path_factory.mktemp("dist")
    source = folder / "source"
    source.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy(ROOT / part, source)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, source, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


def test_everything_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    """Models, data, templates, whatever lies beside the code: no list to be forgotten."""
    package = ROOT / "src"
    wanted = {
        path.relative_to(package).as_posix()
        for path in (package / "sparsecert").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == wanted
    assert any(name.endswith(".safetensors") for name in names)


def test_pages_and_examples_are_in_the_source_archive(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for part in SOURCE_ONLY
        for path in [ROOT / part, *(ROOT / part).rglob("*")]
        if path.suffix != ".pyc" and path.name != "__pycache__"
    }
    assert wanted <= names


def test_the_version_is_said_once_more_and_the_same(wheel: Path) -> None:
    (version,) = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.MULTILINE)
    with zipfile.ZipFile(wheel) as archive:
        assert f'__version__ = "{version}"' in archive.read("sparsecert/__init__.py").decode()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment with the wheel, and with what it depends on from this one."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    _run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=environment)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
    return environment / "bin"


def test_the_command_works_from_any_folder(installed: Path, tmp_path: Path) -> None:
    home = _run(installed / "python", "-c", "import sparsecert; print(sparsecert.__file__)", cwd=tmp_path)
    assert Path(home.strip()).is_relative_to(installed.parent.resolve())
    assert "certify" in _run(installed / "sparsecert", "--help", cwd=tmp_path)
    assert "torch" in _run(installed / "sparsecert", "info", cwd=tmp_path)
    assert json.loads(_run(installed / "sparsecert", "info", "mnist-k45", cwd=tmp_path))["scheme"]["keep"] == 45
    certified = _run(
        installed / "sparsecert", "certify", "mnist-k45", "--data", "mnist-sample", "--limit", 2, "--n0", 20,
        "--n", 50, "--device", "cpu", "--out", "certify.jsonl", cwd=tmp_path,
    )  # fmt: skip
    assert "median certified robustness" in certified
    assert (tmp_path / "certify.jsonl").is_file()
