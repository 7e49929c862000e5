"""Rows as a data frame of pandas, whose types are the same whatever the rows are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_agenteval.store.rows.columns import Column
from pytest_agenteval.store.rows.row_kinds import Row
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame

_TYPES = {
    "text": "string",
    "texts": "object",
    "json": "string",
    "integer": "Int64",
    "number": "float64",
    "flag": "boolean",
    "time": "datetime64[us, UTC]",
}
"""Those that know of a missing value: a column of whole numbers does not turn into one of floats."""


def pandas_frame(columns: Sequence[Column], rows: Iterable[Row]) -> DataFrame:
    """Make a frame with these columns; raises UsageMistake where pandas is not installed."""
    try:
        import pandas
    except ImportError as missing:
        raise UsageMistake(
            f"to_pandas needs pandas ({missing}): pip install 'pytest-agenteval[pandas]'"
        ) from missing
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    series = {
        column.name: pandas.Series(list(values), dtype=_TYPES[column.type])
        for column, values in zip(columns, cells, strict=True)
    }
    return pandas.DataFrame(series)
