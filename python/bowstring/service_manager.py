"""Reports a node's progress to systemd by sd_notify, if NOTIFY_SOCKET names a socket."""

import os
import socket
from typing import Final

from bowstring.engine import event_log

NOTIFY_SOCKET: Final = "NOTIFY_SOCKET"


def notify(**facts: str) -> None:
    """Sends facts such as READY="1" or STATUS="..."; does nothing without a listening service manager."""
    address = os.environ.get(NOTIFY_SOCKET, "")
    if address[:1] not in ("/", "@"):
        return
    if address.startswith("@"):
        address = "\0" + address[1:]  # a name without a file
    text = "".join(f"{name}={value}\n" for name, value in facts.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(1.0)
            sender.sendto(text.encode(), address)
    except OSError as error:
        event_log.warning("the service manager could not be told; check NOTIFY_SOCKET", detail=str(error))
