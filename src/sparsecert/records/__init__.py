"""Records: JSON lines, a header and then one line per input with its votes. No torch here.

Each line is flushed as it is appended, so a run that is killed loses at most the inputs in flight. The votes are kept,
so any certificate can be computed again, at another alpha or by another theorem, without the model. The lines of an
attack hold what it found instead.
"""

from __future__ import annotations

from sparsecert.records.attack_records import AttackRecord
from sparsecert.records.header import (
    ATTACK,
    CERTIFY,
    FORMAT,
    PREDICT,
    Header,
    difference,
    election_rule,
    has_rankings,
    is_exact,
    is_sequential,
)
from sparsecert.records.lines import ANSWERS, Record
from sparsecert.records.reading import (
    AttackRecords,
    Records,
    find_records,
    kind_of,
    read,
    read_attack,
    read_bytes,
    read_header,
)
from sparsecert.records.writing import Writer

__all__ = [
    "ANSWERS",
    "ATTACK",
    "CERTIFY",
    "FORMAT",
    "PREDICT",
    "AttackRecord",
    "AttackRecords",
    "Header",
    "Record",
    "Records",
    "Writer",
    "difference",
    "election_rule",
    "find_records",
    "has_rankings",
    "is_exact",
    "is_sequential",
    "kind_of",
    "read",
    "read_attack",
    "read_bytes",
    "read_header",
]
