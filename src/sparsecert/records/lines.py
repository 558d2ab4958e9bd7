"""The lines after the header: one input each, with its votes."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sparsecert.certificates.plurality import first_choices
from sparsecert.counts import UNKNOWN, Tally
from sparsecert.records import rankings
from sparsecert.records.attack_records import AttackRecord
from sparsecert.records.header import ATTACK, PREDICT, Header, has_open_scheme, has_rankings, is_exact, is_sequential
from sparsecert.registry import CERTIFICATES

if TYPE_CHECKING:
    from sparsecert.schemes import Scheme

ANSWERS = "yes", "no", "undecided"  # to "is the radius at least r?"


@dataclass(frozen=True)
class Record:
    """One input: its index in the data set, its true label, its votes, and the answer drawn from them.

    A certify record has selection and estimation votes, the interval and the radius (None: no certificate); `label` is
    the selected class. A sequential run has no interval: `votes` are those of the stage that the certificate is drawn
    from, `samples` counts all copies of the input, and `answer` is the answer to "is the radius at least r?", if asked.
    A predict record has votes alone; `label` is None if it abstained.

    Where votes were counted by pairs (the pairwise bound), the tallies have `above` and `selection` the class that it
    chose; a predict record then has selection votes too, and `votes` are those that tested the class. The line keeps,
    in `behind`, how many copies of each tally rank another class above the chosen one.

    In an exact run, `rankings` holds each mask's ranking of the classes as text (see `rankings`), unless the run leaves
    them out; `votes` are the first choices, and `label` is the winner by the run's rule; there always is one.

    `true` is UNKNOWN, null in the file, where the run's inputs have no known class. `units` is the number of the
    input's units, where that differs from input to input: the header's scheme is then bound to it (`scheme_of`).
    """

    example: int
    true: int
    votes: Tally
    label: int | None
    seconds: float
    selection: Tally | None = None
    p_lower: float | None = None
    p_upper: float | None = None
    radius: int | None = None
    samples: int | None = None
    answer: str | None = None
    rankings: str | None = None
    units: int | None = None

    def scheme_of(self, scheme: Scheme) -> Scheme:
        """The run's scheme, for an input of as many units as this one has."""
        return scheme if self.units is None else scheme.for_units(self.units)

    @property
    def copies(self) -> int:
        """The number of ablated copies classified for this input."""
        if self.samples is not None:
            return self.samples
        return self.votes.total + (self.selection.total if self.selection else 0)

    def to_json(self) -> str:
        """One line; classes without votes are left out."""
        line: dict[str, Any] = {"example": self.example, "true": None if self.true == UNKNOWN else self.true}
        line |= {} if self.units is None else {"units": self.units}
        if self.rankings is not None:
            line |= {"rankings": self.rankings, "label": self.label}
            line |= {} if self.radius is None else {"radius": self.radius}
        elif self.selection is None:
            line |= {"votes": _to_sparse(self.votes.votes), "invalid": [self.votes.invalid], "label": self.label}
            line |= {} if self.radius is None else {"radius": self.radius}  # of all masks, without their rankings
        else:
            tallies = self.selection, self.votes
            line |= {"selection": _to_sparse(self.selection.votes), "estimation": _to_sparse(self.votes.votes)}
            line |= {"invalid": [tally.invalid for tally in tallies], "label": self.label}
            if self.votes.above is not None:
                line |= {"behind": [_behind(tally) for tally in tallies], "chosen": self.selection.chosen}
            if self.samples is not None:
                line |= {"radius": self.radius, "samples": self.samples}
                line |= {} if self.answer is None else {"answer": self.answer}
            elif self.p_lower is not None or self.selection.chosen is None:  # else a prediction by pairs
                line |= {"p_lower": self.p_lower, "p_upper": self.p_upper, "radius": self.radius}
        return json.dumps({**line, "seconds": self.seconds})

    @classmethod
    def from_json(cls, text: str | bytes, classes: int) -> Record:
        line = json.loads(text)
        common = {key: line[key] for key in ("example", "true", "label", "seconds")}
        common["true"] = UNKNOWN if common["true"] is None else common["true"]
        common["units"] = line.get("units")
        if "rankings" in line:
            ranks = rankings.from_text(line["rankings"], classes)
            votes = first_choices(ranks[None])[0]
            return cls(votes=votes, rankings=line["rankings"], radius=line.get("radius"), **common)
        if "votes" in line:
            votes = _from_sparse(line["votes"], line["invalid"][0], classes)
            return cls(votes=votes, radius=line.get("radius"), **common)
        selection, votes = (
            _from_sparse(line[key], line["invalid"][i], classes) for i, key in enumerate(("selection", "estimation"))
        )
        if "behind" in line:
            selection, votes = (
                _compared(tally, line["chosen"], behind)
                for tally, behind in zip((selection, votes), line["behind"], strict=True)
            )
            selection = replace(selection, chosen=line["chosen"])
        if "samples" in line:
            certificate = {key: line.get(key) for key in ("radius", "samples", "answer")}
        elif "behind" in line and "radius" not in line:
            certificate = {}  # a prediction by pairs
        else:
            certificate = {key: line[key] for key in ("p_lower", "p_upper", "radius")}
        return cls(votes=votes, selection=selection, **certificate, **common)


def parse_line(header: Header, line: bytes) -> Record | AttackRecord:
    """The record of a line, checked against the header; a ValueError says what does not fit."""
    if header.kind == ATTACK:
        attacked = AttackRecord.from_json(line)
        _check_input(header, attacked)
        attacked.check(header.run)
        return attacked
    record = Record.from_json(line, header.run["classes"])
    _check_input(header, record)
    _check_units(header, record)
    _check_votes(header, record)
    return record


def _check_input(header: Header, record: Record | AttackRecord) -> None:
    run = header.run
    checked = [("input", record.example, run["data"]["of"])]
    if header.labelled:
        checked.append(("true label", record.true, run["classes"]))
    elif record.true != UNKNOWN:
        raise ValueError(f"true label {record.true!r} in a run whose inputs have none")
    for name, value, most in checked:
        if type(value) is not int or not 0 <= value < most:
            raise ValueError(f"{name} {value!r}")
    if type(record.seconds) not in (int, float) or not 0 <= record.seconds < float("inf"):
        raise ValueError(f"seconds {record.seconds!r}")


def _check_units(header: Header, record: Record) -> None:
    """As many units as the header says of all inputs, or a number of its own."""
    units = record.units
    if not (type(units) is int and units > 0 if has_open_scheme(header) else units is None):
        raise ValueError(f"units {units!r}")


def _check_votes(header: Header, record: Record) -> None:
    """As many votes as the run takes; at most that many in a sequential run."""
    run, sequential = header.run, is_sequential(header)
    exact = is_exact(header)
    if (record.rankings is not None) != (exact and has_rankings(header)):
        raise ValueError("rankings do not fit the run's certificate")
    if exact:
        _check_all_masks(header, record)
        return
    bound: str = run.get("bound", "")
    if bound in CERTIFICATES and (record.votes.above is not None) != CERTIFICATES[bound].by_pairs:
        raise ValueError(f"the counts against each class do not fit the run's bound {bound}")
    for tally, n in ((record.selection, run.get("n0")), (record.votes, run["n"])):
        if tally is None:
            continue
        fits = n is not None and (0 < tally.total <= n if sequential else tally.total == n)
        if min(*tally.votes, tally.invalid) < 0 or not fits:
            raise ValueError(f"votes add up to {tally.total}, not {n}")
    if (record.samples is not None) != sequential:
        raise ValueError("samples do not fit the run's sampling")
    if record.samples is not None:
        least = record.votes.total + (record.selection.total if record.selection else 0)
        if type(record.samples) is not int or not least <= record.samples <= run["n0"] + run["n"]:
            raise ValueError(f"samples {record.samples!r}")
        if record.answer not in ((None,) if run["sampling"].get("at_least") is None else ANSWERS):
            raise ValueError(f"answer {record.answer!r}")


def _check_all_masks(header: Header, record: Record) -> None:
    """One vote per mask, a winner, and a radius if the run certifies. Inputs of few units have fewer masks."""
    masks, classes = header.run["masks"], header.run["classes"]
    fits = record.votes.total == masks or (record.units is not None and 0 < record.votes.total <= masks)
    if not fits or min(*record.votes.votes, record.votes.invalid) < 0:
        raise ValueError(f"votes are by {record.votes.total} masks, not {masks}")
    if type(record.label) is not int or not 0 <= record.label < classes:
        raise ValueError(f"label {record.label!r}")
    fits = type(record.radius) is int and record.radius >= 0 if header.kind != PREDICT else record.radius is None
    if not fits:
        raise ValueError(f"radius {record.radius!r}")


def _to_sparse(counts: Sequence[int]) -> dict[str, int]:
    return {str(label): count for label, count in enumerate(counts) if count}


def _from_sparse(votes: dict[str, int], invalid: int, classes: int) -> Tally:
    return Tally(_dense(votes, classes), operator.index(invalid))


def _dense(counts: dict[str, int], classes: int) -> tuple[int, ...]:
    row = [0] * classes
    for label, count in counts.items():
        if not label.isdecimal():
            raise ValueError(f"class {label!r}")
        row[int(label)] = operator.index(count)
    return tuple(row)


def _behind(tally: Tally) -> dict[str, int] | None:
    """How many valid copies rank each class above the chosen one; None where that was not counted."""
    return None if tally.above is None else _to_sparse([sum(tally.votes) - count for count in tally.above])


def _compared(tally: Tally, chosen: int, behind: dict[str, int] | None) -> Tally:
    """The votes with `above`, from what `_behind` says of them."""
    classes, valid = len(tally.votes), sum(tally.votes)
    if type(chosen) is not int or not 0 <= chosen < classes:
        raise ValueError(f"chosen {chosen!r}")
    if behind is None:
        return tally
    above = tuple(valid - count for count in _dense(behind, classes))
    if above[chosen] != valid or not all(tally.votes[chosen] <= count <= valid for count in above):
        raise ValueError(f"the copies behind each class do not fit the {valid} valid ones")
    return replace(tally, above=above)
