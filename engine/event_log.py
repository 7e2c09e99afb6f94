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
PACKAGES: Final = (
    *("api", "broker", "controller", "coordinators", "groups", "local", "metadata", "migration", "network"),
    *("quorum", "raft", "replication", "requests", "security", "share", "storage", "transactions"),
)
"""Packages of the engine that have a logger of their own below LOGGER: operators set its level by itself."""

_LOGGERS: Final[dict[str, logging.Logger]] = {}


class TextFormatter(logging.Formatter):
    """``2026-01-31 12:00:00,123 INFO message key=value``."""

    _latest = (-1, "")

    def line(self, created: float, level: str, message: str, facts: dict[str, object]) -> str:
        """Returns the line of an event, which happened `created` seconds after 1970."""
        second = int(created)
        latest, stamp = self._latest
        if second != latest:
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._latest = second, stamp
        line = f"{stamp},{int((created - second) * 1000):03d} {level} {printable(message)}"
        for name, value in facts.items():
            line += f" {name}={_quoted(value)}"
        return line

    def format(self, record: logging.LogRecord) -> str:
        """Formats one line; a traceback follows on separate lines, which are indented."""
        facts = getattr(record, "facts", None) or {}
        line = self.line(record.created, record.levelname, record.getMessage(), facts)
        if record.exc_info:
            # Indented: what an error quotes may look like a line of the log.
            trace = printable_lines(self.formatException(record.exc_info))
            line += "".join(f"\n  {each}" for each in trace.split("\n"))
        return line


class JsonFormatter(logging.Formatter):
    """Formats each event as one JSON object: time (seconds since 1970), level, logger, message, and the
    fields of the event.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Formats one line, whatever values the event has."""
        entry: dict[str, Any] = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
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


def logger_of(module: str) -> logging.Logger:
    """Returns the logger of a module's package, such as `bowstring.security`, with a level of its own.

    Args:
        module: name of a module, such as "bowstring.engine.security.audit_log".
    """
    found = _LOGGERS.get(module)
    if found is None:
        parts = module.split(".")
        is_packaged = parts[:2] == ["bowstring", "engine"] and parts[2:3] and parts[2] in PACKAGES
        found = _LOGGERS[module] = LOGGER.getChild(parts[2]) if is_packaged else LOGGER
    return found


def _of_caller() -> logging.Logger:
    """Returns the logger of the function that called the one that calls this."""
    return logger_of(sys._getframe(2).f_globals.get("__name__", ""))


def _is_written_at_once(logger: logging.Logger, message: str, facts: dict[str, object]) -> bool:
    """Writes a line to standard error without a record of the logging package, which would take three times
    as long: a coordinator writes two lines for each rebalance. False: others look at records, or the line
    cannot be written.
    """
    handlers = LOGGER.handlers
    if len(handlers) != 1 or LOGGER.propagate or logger.filters or LOGGER.filters:
        return False
    (handler,) = handlers
    if type(handler) is not logging.StreamHandler or type(handler.formatter) is not TextFormatter:
        return False
    if logger is not LOGGER and (logger.handlers or logger.parent is not LOGGER or not logger.propagate):
        return False
    if handler.filters or handler.level > logging.INFO:
        return False
    is_buffered = False
    try:
        line = handler.formatter.line(time.time(), "INFO", message, facts) + handler.terminator
        with handler.lock or contextlib.nullcontext():
            handler.stream.write(line)
            is_buffered = True
            handler.flush()
    except Exception:  # the handler reports it, and no failure of a line is the caller's
        return is_buffered
    return True


def log(level: int, message: str, /, **facts: object) -> None:
    """Writes one line with its fields."""
    _of_caller().log(level, message, extra={"facts": facts})


def info(message: str, /, **facts: object) -> None:
    """Logs normal progress."""
    logger = _of_caller()
    if logger.isEnabledFor(logging.INFO) and not _is_written_at_once(logger, message, facts):
        logger.info(message, extra={"facts": facts})


def warning(message: str, /, **facts: object) -> None:
    """Logs something that an operator should check."""
    _of_caller().warning(message, extra={"facts": facts})


def error(message: str, /, *, traceback: bool | BaseException = False, **facts: object) -> None:
    """Logs a failure, with the traceback of an exception or, if True, of the current one."""
    _of_caller().error(message, exc_info=traceback, extra={"facts": facts})


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
