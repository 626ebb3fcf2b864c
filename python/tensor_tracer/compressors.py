"""The compressors: the numbers and the dims of their records. docs/protocol.md, "Trace plan"."""

from __future__ import annotations

from tensor_tracer.facts import RunFacts

# By their codes in a record.
COMPRESSORS = dict(enumerate(("none", "tile", "empty", "stats", "projection", "topk", "top_tokens")))
# Those whose records have the code of another one.
CODE_OF = {"outliers": "topk"}
# The numbers of a `stats` record; the counts of its histogram follow.
STATISTICS = ("count", "mean", "std", "min", "max", "norm", "zeros", "nan", "pos_inf", "neg_inf")
# The numbers of its second row.
MORE_STATISTICS = (
    "kurtosis", "rms", "line_norm_min", "line_norm_mean", "line_norm_max",
    "column_norm_min", "column_norm_mean", "column_norm_max",
)  # fmt: skip
# The bins of a histogram without a range: floor(log2 |x|) from LOWEST_EXPONENT on.
LOWEST_EXPONENT, EXPONENT_BINS = -32, 48
# The first dim of records that have several tables.
_PARTS = {"topk": ["value", "column"]}
# The dims of points, as the run's facts name them.
_DIMS = {"batch": "row", "sequence": "token", "features": "feature", "heads": "head", "keys": "key",
         "ids_positions": "part"}  # fmt: skip


def dims_of(point: str, compressor: str, ndim: int, facts: RunFacts) -> tuple[str, ...]:
    """The dims of a record: row, token, feature, head, key; "part" tells numbers from columns, or ids from positions."""
    if compressor == "stats":
        return ("feature",)
    if compressor == "top_tokens" and ndim == 3:
        return ("unit", "rank", "number")
    if compressor == "topk" and ndim == 4:
        return ("part", "row", "token", "feature")
    named = facts.dims(point, ndim) or [""] * ndim
    return tuple(_DIMS.get(name, name or f"dim_{n}") for n, name in enumerate(named))


def names_of(dim: str, extent: int, point: str, compressor: str, vectors: list[str]) -> list[str]:
    """The names of the places along a dim; empty where they are just numbered. `vectors`: of a projection. Statistics
    are in one row: STATISTICS, MORE_STATISTICS, the bins."""
    names: list[str] = []
    if dim == "part":
        names = [*_PARTS.get(compressor, ["id", "position"])]
        names += [f"softmax {n}" for n in range(extent - len(names))] if compressor == "topk" else []
    elif dim == "feature" and compressor == "projection":
        names = vectors
    elif dim == "feature" and compressor == "stats":
        names = [*STATISTICS, *MORE_STATISTICS]
        names += [f"bin {n}" for n in range(extent - len(names))]
    return names if len(names) == extent else []
