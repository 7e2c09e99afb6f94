"""Broker configs that Kafka does not have."""

from bowstring.engine.configs.definition import (
    APPLIED,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
)
from bowstring.engine.configs.definition import rows as _rows

# (name, type, default, valid values, importance, how it changes, whether it is acted on, doc[, internal])
# fmt: off
BOWSTRING = _rows((
    ("bowstring.durability", STRING, "os", "os|commit", HIGH, READ_ONLY, APPLIED,
     "When a produced batch is acknowledged: `commit` once it is on the medium, in a write-ahead log "
     "shared by the partitions of a log directory; `os` once it is in the page cache, as Kafka does. "
     "`bowstring serve` begins with commit, an embedded broker with os; topics may override either."),
    ("bowstring.local.instance", STRING, "", "", LOW, READ_ONLY, APPLIED,
     "What the broker calls itself since this start: set by itself, for clients that look for its socket.",
     True),
    ("bowstring.local.socket", STRING, "on", "", LOW, READ_ONLY, APPLIED,
     "Unix domain socket through which clients on this machine are given segment files to map instead of "
     "their bytes over TCP: `on` for bowstring.local.sock in the metadata log directory, `off`, or an "
     "absolute path. A running broker reports the path."),
    ("bowstring.local.socket.permissions", STRING, "600", "600|660|666", LOW, READ_ONLY, APPLIED,
     "Permissions of that socket. Who may connect is given the files of every topic, also those it could not "
     "open itself."),
    ("bowstring.log.dir.slow.ms", INT, "1000", "0..", LOW, READ_ONLY, APPLIED,
     "A write or sync in a log directory that takes longer is counted and logged as slow; 0 counts none."),
    ("bowstring.log.format", STRING, "text", "text|json", LOW, READ_ONLY, APPLIED,
     "Form of the broker's own log lines on standard error."),
    ("bowstring.log.level", STRING, "info", "debug|info|warning|error", LOW, READ_ONLY, APPLIED,
     "Least severe level of the broker's own log lines."),
    ("bowstring.metrics.port", INT, "-1", "-1..65535", LOW, READ_ONLY, APPLIED,
     "Port on which metrics are served as Prometheus text; 0 takes a free one, -1 serves none."),
    ("bowstring.scrub.bytes.per.second", LONG, "8388608", "0..", LOW, READ_ONLY, APPLIED,
     "How fast the scrubber reads the logs to check every batch's CRC; 0 turns it off."),
    ("bowstring.scrub.interval.ms", LONG, "604800000", "1000..", LOW, READ_ONLY, APPLIED,
     "Time from the beginning of one round of the scrubber, over all logs, to that of the next."),
    ("bowstring.wal.io", STRING, "auto", "auto|io_uring|pwrite", LOW, READ_ONLY, APPLIED,
     "How the write-ahead log is written: by io_uring, by pwrite with RWF_DSYNC, or by whichever the kernel "
     "allows."),
    ("bowstring.wal.max.bytes", LONG, "1073741824", "33554432..", LOW, READ_ONLY, APPLIED,
     "Disk space the write-ahead log of a log directory may take before it waits for a checkpoint."),
    ("bowstring.wal.segment.bytes", INT, "67108864", "16777216..1073741824", LOW, READ_ONLY, APPLIED,
     "Size of a file of the write-ahead log; four full ones are followed by a checkpoint."),
    ("bowstring.reactor.threads", INT, "0", "0..16", MEDIUM, READ_ONLY, APPLIED,
     "Native threads that serve connections; 0 takes one for every two cores, at most four."),
))
# fmt: on
