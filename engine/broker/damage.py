"""What is wrong with a log's files, as lines of the broker's log: file, place, offsets, and what to do."""

from typing import Any, Final

from bowstring._native.log import PartitionLog
from bowstring._native.log_damage import take_findings
from bowstring.engine.broker import log_lines

CURE: Final = (
    "these records cannot be read any more; restore the file from a copy while the broker is stopped, "
    "or go on without them"
)


def report_findings(partition: str, log: PartitionLog) -> None:
    """Says what opening a log came upon; damaged ranges are out of service already."""
    for finding in take_findings(log):
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
            log_lines.error(f"damaged records are kept out of service: {finding['what']}", **facts, cure=CURE)
        elif "missing before" in finding["what"]:
            log_lines.error(finding["what"], **facts, cure=CURE)
        else:
            log_lines.warning(finding["what"], **facts)


def report_damage(partition: str, path: str, damage: list[dict[str, Any]]) -> None:
    """Says what a scrub found in one file."""
    for each in damage:
        facts = {
            "position": each["position"],
            "bytes": each["size_bytes"],
            "first_offset": each["first_offset"],
        }
        if each["end_offset"] > each["first_offset"]:
            facts["last_offset"] = each["end_offset"] - 1
        log_lines.error(
            f"damaged records are kept out of service: {each['what']}",
            partition=partition,
            file=path,
            **facts,
            cure=CURE,
        )
