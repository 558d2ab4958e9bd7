"""The units of a table: columns that a mask retains or ablates together, and that a radius counts as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsecert.counts import Int64
from sparsecert.errors import InputError

PROTECTED = -1  # as in `encodings.grouped`, which needs torch


def units_of(columns: int, groups: Any, protected: Any, names: Sequence[str] | None) -> Int64:
    """int64[columns]: the unit of each column, numbered 0, 1, ... by first column, or PROTECTED.

    `groups` has one entry per column; columns with equal entries (numbers or names) are one unit, and PROTECTED columns
    are never ablated. `protected` lists more such columns: by number, by name, or as a boolean mask.
    """
    labels: list[Any] = list(range(columns)) if groups is None else _listed("groups", groups)
    if len(labels) != columns:
        raise InputError(f"groups must have one entry for each of the {columns} columns, got {len(labels)}")
    for column in _columns(protected, columns, names):
        labels[column] = PROTECTED
    numbers: dict[Any, int] = {}
    found = [PROTECTED if _is_protected(label) else numbers.setdefault(label, len(numbers)) for label in labels]
    if not numbers:
        raise InputError("protected must leave at least one column unprotected, got all of them")
    return np.array(found, dtype=np.int64)


def one_hot_groups(encoder: Any, first: int = 0) -> list[int]:
    """Groups for the output of a fitted `OneHotEncoder`: all columns of one feature are one unit.

    Numbered from `first`, to follow the groups of other columns.
    """
    if not hasattr(encoder, "categories_"):
        raise InputError(f"one_hot_groups takes a fitted OneHotEncoder, got {encoder!r:.80}")
    names, groups = encoder.get_feature_names_out(), []
    for number, categories in enumerate(encoder.categories_):
        infrequent = getattr(encoder, "infrequent_categories_", None)
        rare = 0 if infrequent is None or infrequent[number] is None else len(infrequent[number]) - 1
        dropped = encoder.drop_idx_ is not None and encoder.drop_idx_[number] is not None
        groups += [first + number] * (len(categories) - rare - dropped)
    if len(groups) != len(names):
        raise InputError(f"the encoder gives {len(names)} columns, its categories {len(groups)}; list the groups")
    return groups


def _is_protected(label: Any) -> bool:
    return not isinstance(label, str) and bool(label == PROTECTED)


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__len__"):
        raise InputError(f"{name} must be a sequence, got {values!r:.80}")
    return np.asarray(values).tolist() if isinstance(values, np.ndarray) else list(values)


def _columns(protected: Any, columns: int, names: Sequence[str] | None) -> list[int]:
    """The numbers of the protected columns."""
    chosen = [] if protected is None else _listed("protected", protected)
    if chosen and all(isinstance(one, bool | np.bool_) for one in chosen):
        if len(chosen) != columns:
            raise InputError(f"protected must have one boolean for each of the {columns} columns, got {len(chosen)}")
        return [column for column, kept in enumerate(chosen) if kept]
    return [_column(one, columns, names) for one in chosen]


def _column(one: Any, columns: int, names: Sequence[str] | None) -> int:
    if isinstance(one, str):
        if names is None or one not in names:
            known = "the table has no column names" if names is None else f"the columns are {', '.join(names)}"
            raise InputError(f"protected has the column {one!r}, but {known:.200}")
        return list(names).index(one)
    try:
        return int(range(columns)[one])
    except (IndexError, TypeError) as error:
        raise InputError(f"protected must be columns from 0 to {columns - 1} or their names, got {one!r}") from error
