"""Encodings of rows: what is ablated, or missing, leaves no trace."""

from __future__ import annotations

import pytest
import torch

from sparsecert.encodings import PROTECTED, Encoding, Grouped, Indicator, NotANumber, from_config

UNITS = [0, 1, 1, PROTECTED, 2]
ENCODINGS = [
    NotANumber(UNITS),
    Grouped(Indicator([0.1, 0.2, 0.3, 0.4, 0.5]), UNITS),
    NotANumber(UNITS, marked=True),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=repr)
def test_ablated_columns_leave_no_trace_and_the_others_get_through(encoding: Encoding) -> None:
    rows, masks = torch.rand(2, 5, dtype=torch.float64), torch.tensor([[True, False, False], [False, True, True]])
    hidden = torch.tensor([[False, True, True, False, True], [True, False, False, False, False]])
    expected = encoding(rows, masks)
    for value in (-7.0, -0.0, float("nan"), float("inf")):
        changed = encoding(torch.where(hidden, value, rows), masks)
        assert torch.equal(changed.view(torch.int64), expected.view(torch.int64))
    for column in range(5):
        other = rows.clone()
        other[:, column] += 1
        differs = (encoding(other, masks).nan_to_num(9) != expected.nan_to_num(9)).flatten(1).any(dim=1)
        assert differs.tolist() == (~hidden[:, column]).tolist()
    assert torch.equal(from_config(encoding.config())(rows, masks).view(torch.int64), expected.view(torch.int64))


@pytest.mark.parametrize("encoding", ENCODINGS[:2], ids=repr)
def test_a_missing_value_looks_like_null(encoding: Encoding) -> None:
    row, every = torch.rand(1, 5, dtype=torch.float64), torch.ones(1, 3, dtype=torch.bool)
    missing = row.clone()
    missing[0, 0] = torch.nan
    seen, null = encoding(missing, every), encoding(row, torch.tensor([[False, True, True]]))
    assert torch.equal(seen.view(torch.int64), null.view(torch.int64))


def test_what_a_model_sees() -> None:
    row, mask = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), torch.tensor([[True, False, True]])
    shown = encoded = ENCODINGS[0](row, mask)[0, 0]
    assert encoded.isnan().tolist() == [False, True, True, False, False]
    assert shown[~shown.isnan()].tolist() == [1.0, 4.0, 5.0]
    values, absent = ENCODINGS[1](row, mask)[0]
    assert values.tolist() == pytest.approx([1.0, 0.2, 0.3, 4.0, 5.0])
    assert absent.tolist() == [0.0, 1.0, 1.0, 0.0, 0.0]
    values, retained = ENCODINGS[2](torch.tensor([[1.0, 2.0, 3.0, 4.0, torch.nan]]), mask)[0]
    assert values.isnan().tolist() == [False, True, True, False, True]
    assert retained.tolist() == [1.0, 0.0, 0.0, 1.0, 1.0]  # the last is missing, not ablated
