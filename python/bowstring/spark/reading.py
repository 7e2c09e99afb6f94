"""Implements `bowstring.spark.read`: a DataFrame over topics in one call, optionally with kernels inside the
read.
"""

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
    """Returns the records of topics, like `session.read.format("bowstring")`.

    With kernels the Python engine reads. They run inside the read, over whole batches, so that only their
    output goes to Spark. With `aggregate` each task sends one row per group, and Spark merges those.

    Args:
        session: the Spark session.
        topics: one name, several separated by commas, or a list of names.
        bootstrap_servers: `host:port,host:port`.
        where: a kernel; records for which it returns false are left out.
        aggregate: by name of a column: "count", or (function, kernel) with sum, min, max or mean.
        by: by name of a column: a kernel, "partition", "timestamp_type", "key" or "topic".
        columns: names of the needed columns; None for all. Not allowed with `aggregate`.
        options: of the source, e.g. startingTimestamp=1700000000000, includeHeaders=True.

    Raises:
        KernelError: kernels do not fit together.
        ConfigError: an option is invalid.

    Examples:
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
            raise ConfigError("kernels run in the Python engine: remove the option engine")
        from bowstring.kernels.fused import Fused
        from bowstring.spark.fused import pack

        fused = Fused(where, aggregate, by)
        reader = reader.option("engine", "python").option("fused", pack(fused))
        if fused.aggregate:
            return _merged(reader.load(), fused)
    # The Python engine needs this option; the columnar engine gets the columns from the plan.
    frame = reader.option("columns", ",".join(wanted)).load()
    return frame.select(*wanted) if wanted else frame


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _merged(partials: DataFrame, fused: Fused) -> DataFrame:
    """Merges the partial results of all tasks into one."""
    # Classic sessions and Spark Connect have different column classes, and one process may use both.
    connect = type(partials).__module__.startswith("pyspark.sql.connect")
    F: Any = import_module("pyspark.sql.connect.functions" if connect else "pyspark.sql.functions")
    merges = {"sum": F.sum, "min": F.min, "max": F.max}
    columns = [merges[part.merge](F.col(f"`{part.name}`")).alias(part.name) for part in fused.parts]
    merged = partials.groupBy(*(F.col(f"`{name}`") for name in fused.by)).agg(*columns)
    results = [F.col(f"`{name}`") for name in fused.by]
    for name, given in fused.aggregate.items():
        if given == "count":
            # A count over no records is 0.
            results.append(F.coalesce(F.col(f"`{name}`"), F.lit(0).cast("bigint")).alias(name))
        elif given[0] == "mean":
            total = F.col(f"`{name}.sum`").cast("double")
            results.append((total / F.col(f"`{name}.count`")).alias(name))
        else:
            results.append(F.col(f"`{name}`"))
    return merged.select(*results)
