"""`bowstring.spark.read`: a DataFrame over topics in one call, with kernels inside the read if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bowstring.kernels.function import Kernel
    from bowstring.kernels.fused import Aggregate, Fused


def read(
    session: SparkSession,
    topics: str | Iterable[str],
    bootstrap_servers: str = "localhost:9092",
    *,
    where: Kernel | None = None,
    aggregate: Mapping[str, Aggregate] | None = None,
    by: Mapping[str, Kernel | str] | None = None,
    columns: Iterable[str] | None = None,
    **options: Any,
) -> DataFrame:
    """The records of topics, as `session.read.format("bowstring")` gives them.

    With kernels the Python engine reads: they run inside the read, over whole batches, so that only what they
    leave goes to Spark. With `aggregate` each task sends one row per group, and Spark merges those.

    Args:
        where: a kernel; records for which it is false are left out.
        aggregate: name of a column: "count", or (function, kernel) with sum, min, max or mean.
        by: name of a column: a kernel, "partition", "timestamp_type", "key" or "topic".
        columns: names of those that are needed; None for all. With `aggregate` there are none.
        options: of the source, e.g. startingTimestamp=1700000000000, includeHeaders=True.

    Raises:
        KernelError: kernels do not fit together.
        ConfigError: an option makes no sense.

    Example:
        >>> read(spark, "clicks", aggregate={"records": "count"}, by={"partition": "partition"}).show()
    """
    reader = (
        session.read.format("bowstring")
        .option("kafka.bootstrap.servers", bootstrap_servers)
        .option("subscribe", topics if isinstance(topics, str) else ",".join(topics))
        .options(**{name: _text(value) for name, value in options.items()})
    )
    wanted = [columns] if isinstance(columns, str) else list(columns or ())
    fused = None
    if where is not None or aggregate or by:
        if str(options.get("engine", "python")).lower() != "python":
            raise ConfigError("kernels run in the Python engine: leave out the option engine")
        from bowstring.kernels.fused import Fused
        from bowstring.spark.fused import pack

        fused = Fused(where, aggregate, by)
        reader = reader.option("engine", "python").option("fused", pack(fused))
        if fused.aggregate:
            return _merged(reader.load(), fused)
    # The Python engine has to be told; the columnar engine learns it from the plan.
    frame = reader.option("columns", ",".join(wanted)).load()
    return frame.select(*wanted) if wanted else frame


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merged(partials: DataFrame, fused: Fused) -> DataFrame:
    """The final step: partial results of all tasks into one."""
    # A classic session and one of Spark Connect have columns of their own, and one process may have both.
    connect = type(partials).__module__.startswith("pyspark.sql.connect")
    F: Any = import_module("pyspark.sql.connect.functions" if connect else "pyspark.sql.functions")
    merges = {"sum": F.sum, "min": F.min, "max": F.max}
    columns = [merges[part.merge](F.col(f"`{part.name}`")).alias(part.name) for part in fused.parts]
    merged = partials.groupBy(*(F.col(f"`{name}`") for name in fused.by)).agg(*columns)
    results = [F.col(f"`{name}`") for name in fused.by]
    for name, given in fused.aggregate.items():
        if given == "count":
            # Nothing at all still counts as 0.
            results.append(F.coalesce(F.col(f"`{name}`"), F.lit(0).cast("bigint")).alias(name))
        elif given[0] == "mean":
            total = F.col(f"`{name}.sum`").cast("double")
            results.append((total / F.col(f"`{name}.count`")).alias(name))
        else:
            results.append(F.col(f"`{name}`"))
    return merged.select(*results)
