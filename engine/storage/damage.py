"""Logs damage found in partition files: file, position, offsets, and what to do."""

from typing import Any, Final

from bowstring._native.log.partition_log import PartitionLog
from bowstring.engine import event_log

CURE: Final = (
    "these records can no longer be read; stop the broker and restore the file from a copy, or continue "
    "without them"
)


def report_findings(partition: str, log: PartitionLog) -> None:
    """Logs what opening a partition log found. Damaged ranges are already out of service."""
    for finding in log.take_findings():
        facts: dict[str, Any] = {"partition": partition}
        if finding["file"] is not None:
            facts["file"] = f"{log.directory}/{finding['file']}"
        if finding["size_bytes"]:
            facts["position"], facts["bytes"] = finding["position"], finding["size_bytes"]
        if finding["first_offset"] >= 0:
            facts["first_offset"] = finding["first_offset"]
        if finding["end_offset"] > finding["first_offset"]:
            facts["last_offset"] = finding["end_offset"] - 1
        if finding["out_of_service"]:
            event_log.error(f"damaged records are not served: {finding['what']}", **facts, cure=CURE)
        elif "missing before" in finding["what"]:
            event_log.error(finding["what"], **facts, cure=CURE)
        else:
            event_log.warning(finding["what"], **facts)


def report_damage(partition: str, path: str, damage: list[dict[str, Any]]) -> None:
    """Logs what a scrub found in one file."""
    for each in damage:
        facts = {
            "position": each["position"],
            "bytes": each["size_bytes"],
            "first_offset": each["first_offset"],
        }
        if each["end_offset"] > each["first_offset"]:
            facts["last_offset"] = each["end_offset"] - 1
        event_log.error(
            f"damaged records are not served: {each['what']}",
            partition=partition,
            file=path,
            **facts,
            cure=CURE,
        )
