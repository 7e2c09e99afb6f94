"""Names of what runs: the client at brokers, and the query of a task."""

from __future__ import annotations

from pyspark import TaskContext

CLIENT_ID = "bowstring-spark"
# Local properties that Spark gives to the tasks of a streaming query.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


def this_query() -> str | None:
    """Returns the id of the streaming query whose task runs, which it keeps when it starts again; None in a
    batch job.
    """
    context = TaskContext.get()
    return None if context is None else context.getLocalProperty(QUERY_ID)
