"""Measures instructions per call, which do not change with the machine's load and may fail a comparison.

One row of COUNTED is one benchmark, `instructions.track_instructions_<name>`.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable

from bench.catalogue import micro_bench
from bench.instructions import NO_COUNTER, count, counter

unit = "instructions"
timeout = 900

# The counted micro benches, each with N calls (2 to 20 million instructions; see bench/instructions.py).
COUNTED = {
    "encode": ("batch.HundredByteRecords.time_encode_columns[595]", 50),
    "encode_per_record": ("batch.HundredByteRecords.time_append_and_build[148]", 100),
    "encode_metadata": ("metadata.Metadata.time_encode[13, 10000]", 2),
    "decode": ("batch.HundredByteRecords.time_decode_columns[595]", 50),
    "decode_metadata": ("metadata.Metadata.time_decode[13, 10000]", 2),
    "validate": ("batch.HundredByteRecords.time_validate[595]", 50),
    "varint_write": ("varint.Varlong.time_write[13]", 20),
    "varint_read": ("varint.Varlong.time_read[13]", 20),
    "crc_1k": ("crc.Crc32c.time_crc32c[1024]", 5000),
    "crc_64k": ("crc.Crc32c.time_crc32c[65536]", 200),
    "index_offset": ("log.IndexLookup.time_bytes_between[1]", 1000),
    "index_time": ("log.IndexLookup.time_offset_for_timestamp[1]", 1000),
    "decompress_gzip": ("compression.JsonRecords.time_validate[gzip]", 10),
    "decompress_snappy": ("compression.JsonRecords.time_validate[snappy]", 20),
    "decompress_lz4": ("compression.JsonRecords.time_validate[lz4]", 20),
    "decompress_zstd": ("compression.JsonRecords.time_validate[zstd]", 20),
    "compress_gzip": ("compression.JsonRecords.time_recompress[gzip]", 2),
    "compress_snappy": ("compression.JsonRecords.time_recompress[snappy]", 10),
    "compress_lz4": ("compression.JsonRecords.time_recompress[lz4]", 10),
    "compress_zstd": ("compression.JsonRecords.time_recompress[zstd]", 5),
    "append_8k": ("log.Append.time_append[74]", 500),
    "append_64k": ("log.Append.time_append[595]", 100),
    "read": ("log.Read.time_read_at_random[65536]", 500),
    "fetch_one_batch": ("fetch.Fetch.time_fetch[1]", 300),
    "fetch_64k": ("fetch.Fetch.time_fetch[65536]", 300),
    "produce_8k": ("fetch.Produce.time_produce[74]", 300),
    "access_decide": ("access.Decide.time_decide[10000]", 5000),
    "access_change": ("access.Decide.time_change[10000]", 5000),
    "fetch_one_batch_access": ("access.Fetch.time_fetch[1]", 300),
    "produce_8k_access": ("access.Produce.time_produce[74]", 300),
    "group_commit": ("commit.GroupCommit.time_commit[pwrite, 32]", 20),
    "arrow_encode": ("arrow.Encode.time_encode[False]", 3),
    "arrow_encode_keyed": ("arrow.Encode.time_encode[True]", 3),
    "arrow_decode": ("arrow.Decode.time_decode[binary]", 5),
    "arrow_decode_views": ("arrow.Decode.time_decode[binary_view]", 5),
    "group_rebalance": ("groups.Rebalance.time_rebalance[50]", 2),
    "group_heartbeat": ("groups.Stable.time_heartbeat", 300),
    "group_offset_commit": ("groups.Stable.time_commit_offsets", 50),
    "consumer_group_heartbeat": ("groups.ConsumerGroup.time_heartbeat", 300),
    "consumer_group_assign": ("groups.ConsumerGroup.time_assign", 1),
    "control_offset_commit": ("control.Requests.time_request[offset_commit]", 100),
    "control_offset_fetch": ("control.Requests.time_request[offset_fetch]", 100),
    "control_heartbeat": ("control.Requests.time_request[heartbeat]", 300),
    "control_consumer_group_heartbeat": (
        "control.Requests.time_request[consumer_group_heartbeat]",
        300,
    ),
    "control_find_coordinator": ("control.Requests.time_request[find_coordinator]", 100),
    "control_metadata": ("control.Requests.time_request[metadata]", 100),
    "control_list_offsets": ("control.Requests.time_request[list_offsets]", 100),
    "recovery_scan": ("recovery.Scan.time_scan[16384]", 1),
}


def setup() -> None:
    """Skips with a reason if there is no counter: asv shows n/a for a bench whose setup raises this error."""
    if counter() is None:
        raise NotImplementedError(NO_COUNTER)


def _tracked(name: str, bench: str, calls: int) -> Callable[[], float]:
    def track() -> float:
        return count(bench, calls)

    track.__name__ = track.__qualname__ = f"track_instructions_{name}"
    track.__doc__ = f"`{bench}`, the difference of {calls} and {2 * calls} calls."
    track.pretty_source = inspect.getsource(micro_bench(bench).suite)  # type: ignore[attr-defined]
    # asv compares results of one version only, and a change of the suite changes what is counted.
    version = hashlib.sha256(f"{bench} {calls}\n{track.pretty_source}".encode())  # type: ignore[attr-defined]
    track.version = version.hexdigest()  # type: ignore[attr-defined]
    return track


for _name, (_bench, _calls) in COUNTED.items():
    globals()[f"track_instructions_{_name}"] = _tracked(_name, _bench, _calls)
