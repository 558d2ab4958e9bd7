"""The first line of a records file: what the run was."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparsecert.errors import InputError
from sparsecert.records.attack_records import check_attack_run

FORMAT = 1
CERTIFY, PREDICT, ATTACK = "certify", "predict", "attack"  # the kinds of run
MAGIC = b'{"sparsecert"'  # how every records file begins; anything else is not ours to touch


@dataclass(frozen=True)
class Header:
    """What a records file is about: `run` decides every vote and certificate, `environment` is where it ran."""

    kind: str  # CERTIFY, PREDICT or ATTACK
    run: dict[str, Any]
    environment: dict[str, Any]

    @property
    def certifies(self) -> bool:
        return self.kind == CERTIFY

    @property
    def expected_inputs(self) -> int:
        """The number of inputs that the file holds once the run, or this shard of it, is complete."""
        inputs: int = self.run["shard" if "shard" in self.run else "data"]["inputs"]
        return inputs

    @property
    def labelled(self) -> bool:
        """Whether the true class of each input is known."""
        return bool(self.run.get("labelled", True))

    def to_json(self) -> str:
        about = {"sparsecert": "records", "format": FORMAT, "kind": self.kind}
        return json.dumps({**about, "run": self.run, "environment": self.environment})


def is_exact(header: Header) -> bool:
    """Whether every mask of a fixed set voted on each input; `masks` of an attack on random ones is a word."""
    return isinstance(header.run.get("masks"), int) and "rule" in header.run


def has_rankings(header: Header) -> bool:
    """Whether an exact run recorded how each mask ranks the classes; the headers of those that did do not say so."""
    return bool(header.run.get("rankings", True))


def has_open_scheme(header: Header) -> bool:
    """Whether inputs differ in their number of units: the scheme is bound to that of each line."""
    scheme = header.run.get("scheme")
    return isinstance(scheme, dict) and "units" in scheme and scheme["units"] is None


def is_sequential(header: Header) -> bool:
    """Whether the run sampled each input until its radius was settled."""
    return "sampling" in header.run


def election_rule(header: Header) -> str:
    """How votes elect the class that a predict run answers; the headers of earlier versions leave it out."""
    return str(header.run.get("rule") or ("pairwise" if "bound" in header.run else "plurality"))


def parse_header(path: Path, line: bytes) -> Header | None:
    """The header of a file whose first line this is; None if the line is incomplete."""
    if not line.startswith(MAGIC[: len(line)]):
        raise InputError(f"{path} is not a records file; nothing was changed; name another")
    if not line.endswith(b"\n"):
        return None
    try:
        values = json.loads(line)
        version, header = values["format"], Header(values["kind"], values["run"], values["environment"])
        data = header.run["data"]
        samples = [] if header.kind == ATTACK else [header.run["masks" if is_exact(header) else "n"]]
        numbers = header.run["classes"], *samples, data["of"], data["inputs"]
        if not isinstance(header.environment, dict) or not all(
            type(number) is int and number > 0 for number in numbers
        ):
            raise ValueError
        if header.kind == ATTACK:
            check_attack_run(header.run)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} has a damaged header; name another file") from error
    if version != FORMAT:
        raise InputError(f"{path} has format {version}, this version reads {FORMAT}; update sparsecert")
    return header


def difference(found: Header, wanted: Header) -> tuple[str, str, str] | None:
    """The first setting in which two runs differ, and its value in each; None if they are the same run."""
    one, other = ({"kind": header.kind, **_implied(header), **header.run} for header in (found, wanted))
    return _difference(one, json.loads(json.dumps(other)))


def _implied(header: Header) -> dict[str, Any]:
    return {"rule": election_rule(header)} if header.kind == PREDICT else {}


def _difference(found: dict[str, Any], wanted: dict[str, Any]) -> tuple[str, str, str] | None:
    for key in sorted(found.keys() | wanted.keys(), key=list({**wanted, **found}).index):
        one, other = found.get(key), wanted.get(key)
        if isinstance(one, dict) and isinstance(other, dict) and (within := _difference(one, other)):
            return f"{key}.{within[0]}", *within[1:]
        if one != other:
            return key, _short(one), _short(other)
    return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else text[:157] + "..."
