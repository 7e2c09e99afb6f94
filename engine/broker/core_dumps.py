"""Keeps keys and passwords in memory out of core files (prctl(2), PR_SET_DUMPABLE)."""

import ctypes
import os
from typing import Final

from bowstring.engine import event_log

_PR_SET_DUMPABLE: Final = 4


def forbid_core_dumps() -> None:
    """The kernel writes no core file of this process, and hands none to a handler; other processes of its
    user cannot read its memory either. OpenSSL's memory cannot be left out of a core file by itself.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        event_log.warning(
            "core files of this process may have keys and passwords; forbid them (ulimit -c 0, LimitCORE=0 "
            "of systemd)",
            detail=os.strerror(ctypes.get_errno()),
        )
