"""Writes the broker's log to standard error: one line for each event, as text or as JSON."""

import contextlib
import json
import logging
import os
import sys
import time
from typing import Any, Final

from bowstring.protocol.printable_text import printable, printable_lines

LOGGER: Final = logging.getLogger("bowstring")


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00,123 INFO message key=value``."""

    def format(self, record: logging.LogRecord) -> str:
        """Formats one line; a traceback follows on separate lines, which are indented."""
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = printable(record.getMessage())
        line = f"{stamp},{int(record.msecs):03d} {record.levelname} {message}"
        facts = getattr(record, "facts", None)
        if facts:
            line += "".join(f" {name}={_quoted(value)}" for name, value in facts.items())
        if record.exc_info:
            # Indented: what an error quotes may look like a line of the log.
            trace = printable_lines(self.formatException(record.exc_info))
            line += "".join(f"\n  {each}" for each in trace.split("\n"))
        return line


class JsonFormatter(logging.Formatter):
    """Formats each event as one JSON object: time (seconds since 1970), level, message, and the event's
    fields.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats one line, whatever values the event has."""
        entry: dict[str, Any] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **(getattr(record, "facts", None) or {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(entry, default=str, ensure_ascii=False)
        return line if line.isprintable() else json.dumps(entry, default=str)


def _quoted(value: object) -> str:
    """Returns a value so that it ends neither its field nor its line, and moves no terminal's cursor: what
    clients send is among the values.
    """
    text = str(value)
    if not text.isprintable():
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False) if not text or " " in text or '"' in text else text


def log(level: int, message: str, /, **facts: object) -> None:
    """Writes one line with its fields."""
    LOGGER.log(level, message, extra={"facts": facts})


def info(message: str, /, **facts: object) -> None:
    """Logs normal progress."""
    log(logging.INFO, message, **facts)


def warning(message: str, /, **facts: object) -> None:
    """Logs something that an operator should check."""
    log(logging.WARNING, message, **facts)


def error(message: str, /, *, traceback: bool | BaseException = False, **facts: object) -> None:
    """Logs a failure, with the traceback of an exception or, if True, of the current one."""
    LOGGER.error(message, exc_info=traceback, extra={"facts": facts})


def from_signal_handler(level: int, message: str, /, **facts: object) -> None:
    """Writes one line from a signal handler, which may have interrupted the writing of another line."""
    if not LOGGER.isEnabledFor(level):
        return
    record = LOGGER.makeRecord(LOGGER.name, level, "", 0, message, (), None, extra={"facts": facts})
    for handler in LOGGER.handlers:
        if isinstance(handler, logging.StreamHandler):
            with contextlib.suppress(OSError):  # the terminal is gone
                os.write(handler.stream.fileno(), (handler.format(record) + "\n").encode())


def log_to_stderr(form: str, level: str) -> None:
    """Sends the broker's log to standard error in `form` text or json."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    LOGGER.handlers[:] = [handler]
    LOGGER.setLevel(level.upper())
    LOGGER.propagate = False


LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
"""Levels by the names that the data plane uses."""
