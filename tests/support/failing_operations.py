"""Injects failures into file operations of a script."""

import errno

from tests.simulation.disk.disk import READS, Fault

ONCE = [
    Fault(errno.EIO),
    Fault(errno.ENOSPC),
    Fault(errno.EROFS),
    Fault(errno.EMFILE),
    Fault(part=True),
    Fault(errno.EIO, part=True),
    Fault(errno.ENOSPC, part=True),
]


def strikes(fault: Fault, operation: str, *, first: bool) -> bool:
    """Whether a fault can be injected into an operation."""
    if fault.part and not fault.error:
        return operation in ("pread", "pwritev")
    if fault.part:
        return operation == "pwritev"
    if fault.error == errno.EMFILE:
        return operation in ("open", "open_new")
    if fault.error == errno.ENOSPC:
        return operation in ("open_new", "pwritev", "reserve", "sync", "mkdir")
    if fault.error == errno.EROFS:
        return operation not in READS
    return first or operation != "unlink"
