"""The Dockerfile and the systemd unit: what they name exists, and `sparsecert serve` takes their options."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from sparsecert import modelfile
from sparsecert.cli.serve import serve
from tests.service.running import running

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def _instructions() -> list[tuple[str, str]]:
    """Of the Dockerfile, in order."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines if line and line[0] != "#")]


def _unit() -> configparser.ConfigParser:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(DEPLOY / "sparsecert.service")
    return unit


def _check_serves(words: list[str], token: Path) -> dict[str, object]:
    """The settings of a command; it must be one that `sparsecert serve` takes, of a model that ships."""
    assert words[:2] == ["sparsecert", "serve"]
    token.write_text("s3cret")
    given = [str(token) if "${" in word else word for word in words[2:]]
    found = serve.make_context("serve", given).params
    assert modelfile.fingerprint(str(found["model"]))
    return found


def test_the_image_copies_what_there_is_and_runs_a_command_that_exists(tmp_path: Path) -> None:
    found = _instructions()
    known = {"FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}
    assert {word for word, _ in found} <= known
    copied = [name for word, rest in found if word == "COPY" for name in rest.split()[:-1]]
    assert copied
    assert all((ROOT / name).exists() for name in copied)
    project = (ROOT / "pyproject.toml").read_text()
    for read in re.findall(r'readme = "(.+)"|license-files = \["(.+)", "(.+)"\]', project):
        assert {name for name in read if name} <= set(copied)  # else the package cannot be built
    words = dict(found)
    settings = _check_serves(json.loads(words["ENTRYPOINT"]) + json.loads(words["CMD"]), tmp_path / "token")
    assert str(settings["port"]) == words["EXPOSE"]
    assert f":{words['EXPOSE']}/health" in words["HEALTHCHECK"]
    extras = re.search(r"\.\[(.+?)\]", words_of(found, "pip install"))
    assert extras is not None
    assert all(re.search(rf"^{extra} = ", project, re.MULTILINE) for extra in extras[1].split(","))
    order = [word for word, _ in found]
    assert order.index("USER") < order.index("ENTRYPOINT")


@pytest.mark.check
def test_what_the_image_copies_is_enough_to_build_the_package(tmp_path: Path) -> None:
    packaging = pytest.importorskip("packaging.specifiers")
    if find_spec("setuptools") is None:  # not imported here, where other packages may have loaded distutils before it
        pytest.skip("setuptools is not installed: pip install '.[dist]'")
    source, found = tmp_path / "build", _instructions()
    source.mkdir()
    for names in (rest.split()[:-1] for word, rest in found if word == "COPY"):
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(ROOT / name, source)
    wanted = {path.relative_to(source / "src").as_posix() for path in source.glob("src/**/*") if path.is_file()}
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--no-deps",
        "--no-index",
        "--no-build-isolation",
        "-w",
        tmp_path,
        ".",
    ]
    built = subprocess.run([*map(str, command)], cwd=source, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert wanted <= set(archive.namelist())
    (version,) = re.findall(r"^python:([\d.]+)-slim$", dict(found)["FROM"])
    (requires,) = re.findall(r'^requires-python = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version in packaging.SpecifierSet(requires)


def test_the_image_is_healthy_while_its_command_serves() -> None:
    words = dict(_instructions())
    check = json.loads(words["HEALTHCHECK"].partition("CMD ")[2])
    command = json.loads(words["ENTRYPOINT"]) + json.loads(words["CMD"])
    with running(*command[2:], SPARSECERT_TOKEN="s3cret", HOME="/nonexistent") as (_, address):
        port = address.rstrip("/").rpartition(":")[2]
        here = [sys.executable, *(word.replace(f":{words['EXPOSE']}/", f":{port}/") for word in check[1:])]
        assert check[0] == "python"
        assert subprocess.run(here, capture_output=True, check=False).returncode == 0
    assert subprocess.run(here, capture_output=True, check=False).returncode == 1


def words_of(found: list[tuple[str, str]], part: str) -> str:
    return next(rest for word, rest in found if word == "RUN" and part in rest)


def test_the_unit_runs_a_command_that_exists(tmp_path: Path) -> None:
    service = _unit()["Service"]
    program, *rest = shlex.split(service["ExecStart"])
    settings = _check_serves([Path(program).name, *rest], tmp_path / "token")
    assert settings["host"] == "127.0.0.1"  # a proxy is in front
    credential = service["LoadCredential"].partition(":")[0]
    assert f"${{CREDENTIALS_DIRECTORY}}/{credential}" in service["ExecStart"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "sparsecert.service").read_text()
    program = tmp_path / "sparsecert"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copy = tmp_path / "sparsecert.service"
    copy.write_text(text.replace("/usr/local/lib/sparsecert/bin/sparsecert", str(program)))
    checked = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
