"""A sequence of records, and its conversions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from tensor_tracer import notebook
from tensor_tracer.columns import Columns, columns_of
from tensor_tracer.errors import RecordError, missing_package
from tensor_tracer.facts import RunFacts
from tensor_tracer.labels import to_xarray
from tensor_tracer.plots import plot_array
from tensor_tracer.record import Record
from tensor_tracer.tokens import TokenTexts

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas
    import xarray


class Records(Sequence[Record]):
    """Records in the order of steps. `len`, indices and slices read only what they return; `tqdm(records)` shows the
    progress of a loop. If the recording has removed a record since then, to stay within its limit, loops and columns
    skip it, and its index raises RecordError."""

    def __init__(
        self, numbers: Sequence[int], load: Callable[[Sequence[int]], Iterator[Record]],
        load_columns: Callable[[Sequence[int]], Columns], texts: TokenTexts, facts: RunFacts, title: str,
    ) -> None:  # fmt: skip
        self._numbers, self._load, self._load_columns = numbers, load, load_columns
        self._texts, self._facts, self._title = texts, facts, title

    @classmethod
    def in_memory(cls, records: Sequence[Record], texts: TokenTexts, facts: RunFacts, title: str) -> Records:
        def load(numbers: Sequence[int]) -> Iterator[Record]:
            return (records[number] for number in numbers)

        return cls(range(len(records)), load, lambda numbers: columns_of(load(numbers)), texts, facts, title)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Record]:
        return self._load(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: int | slice) -> Record | Records:
        numbers = self._numbers[index] if isinstance(index, slice) else [self._numbers[index]]
        if isinstance(index, slice):
            return Records(numbers, self._load, self._load_columns, self._texts, self._facts, self._title)
        for record in self._load(numbers):
            return record
        raise RecordError("removed", f"record {index} is no longer in the recording", "", "read the others again")

    def columns(self) -> Columns:
        """One list or array for each member of a record, and "values"."""
        return self._load_columns(self._numbers)

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each record: its members, and an array of its numbers in "values"."""
        try:
            import pandas
        except ImportError:
            raise missing_package("pandas", "to_pandas") from None
        return pandas.DataFrame(self.columns())

    def to_xarray(self) -> xarray.DataArray:
        """The numbers as an array with the dims step, layer, token and feature: see `tensor_tracer.labels.to_xarray`."""
        return to_xarray(self.columns(), self._facts, self._texts)

    def plot(self, feature: str | None = None, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes:
        """Plots a map of one record, or curves over the steps: see `tensor_tracer.plots.plot_array`."""
        return plot_array(self.to_xarray(), feature, ax)

    def __repr__(self) -> str:
        return f"<{notebook.count(len(self), 'record')}: {self._title}>"

    def _repr_html_(self) -> str:
        try:
            rows: dict[str, Any] = {"first": self[0], "last": self[-1]} if len(self) else {}
        except RecordError as error:
            rows = {"error": error}
        return notebook.table(repr(self), rows)
