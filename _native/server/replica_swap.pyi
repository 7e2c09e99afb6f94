from bowstring._native.log.future_replica import FutureReplica
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.wal.write_ahead_log import WriteAheadLog

def replace_log(
    plane: DataPlane,
    topic: str,
    partition: int,
    copy: FutureReplica,
    max_bytes: int,
    wal: WriteAheadLog | None = None,
) -> int: ...
