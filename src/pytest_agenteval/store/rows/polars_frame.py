"""Rows as a data frame of polars, whose types are the same whatever the rows are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_agenteval.store.rows.columns import Column
from pytest_agenteval.store.rows.row_kinds import Row
from pytest_agenteval.text.errors import UsageMistake

if TYPE_CHECKING:
    from polars import DataFrame as DataFrame


def polars_frame(columns: Sequence[Column], rows: Iterable[Row]) -> DataFrame:
    """Make a frame with these columns; raises UsageMistake where polars is not installed."""
    try:
        import polars
    except ImportError as missing:
        raise UsageMistake(
            f"to_polars needs polars ({missing}): pip install 'pytest-agenteval[polars]'"
        ) from missing
    types: dict[str, Any] = {
        "text": polars.String(),
        "texts": polars.List(polars.String()),
        "json": polars.String(),
        "integer": polars.Int64(),
        "number": polars.Float64(),
        "flag": polars.Boolean(),
        "time": polars.Datetime("us", "UTC"),
    }
    cells: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    return polars.DataFrame(
        [
            polars.Series(column.name, values, types[column.type])
            for column, values in zip(columns, cells, strict=True)
        ]
    )
