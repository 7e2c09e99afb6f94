"""Lists the broker configs that Kafka does not have."""

from typing import Final

from bowstring.engine.configs.config_key import (
    APPLIED,
    BOOLEAN,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
)
from bowstring.engine.configs.config_key import rows as _rows

REGISTRY_CONFIG: Final = "confluent.schema.registry.url"

# (name, type, default, valid values, importance, how it changes, whether it is acted on, doc[, internal])
# fmt: off
BOWSTRING = _rows((
    ("bowstring.authentication.timeout.ms", INT, "30000", "1..", LOW, READ_ONLY, APPLIED,
     "A connection on a SASL listener that has not authenticated within this time is closed."),
    ("bowstring.listen.unauthenticated", BOOLEAN, "false", "", HIGH, READ_ONLY, APPLIED,
     "Allows listeners that other machines can reach, although clients are not authenticated. It also "
     "makes the default of listeners PLAINTEXT://:9092, all interfaces."),
    ("bowstring.audit.decisions", STRING, "all", "all|denied", LOW, READ_ONLY, APPLIED,
     "Which decisions of the authorizer bowstring.audit.file and bowstring.audit.topic get."),
    ("bowstring.audit.file", STRING, "", "", LOW, READ_ONLY, APPLIED,
     "File that gets the decisions of the authorizer as JSON lines: who, from where, which operation on "
     "which resource, whether it was allowed, when, and for which API. Of Produce and Fetch each combination "
     "of these is written once a minute for each reactor. Only the broker's user can read the file. Rename "
     "it to rotate it. Empty: no file."),
    ("bowstring.audit.topic", STRING, "", "", LOW, READ_ONLY, APPLIED,
     "Topic that gets the same decisions as JSON records with the principal as key; they also name the node. "
     "A missing topic is created, with a retention of 30 days. Decisions wait while it cannot be written; "
     "beyond 10,000 they are dropped and counted. Empty: no topic."),
    ("bowstring.audit.topic.partitions", INT, "3", "1..", LOW, READ_ONLY, APPLIED,
     "Number of partitions with which the audit topic is created."),
    ("bowstring.audit.topic.replication.factor", SHORT, "3", "1..", LOW, READ_ONLY, APPLIED,
     "Replication factor with which the audit topic is created. With fewer brokers it is not created, except "
     "by a broker that runs alone: with one replica."),
    ("confluent.basic.auth.user.info", PASSWORD, None, "", MEDIUM, READ_ONLY, APPLIED,
     "user:password for the schema registry of confluent.schema.registry.url."),
    (REGISTRY_CONFIG, LIST, "", "", MEDIUM, READ_ONLY, APPLIED,
     "Addresses of a schema registry, as http://registry:8081, for topics with "
     "confluent.value.schema.validation or confluent.key.schema.validation."),
    ("confluent.ssl.truststore.location", STRING, None, "", MEDIUM, READ_ONLY, APPLIED,
     "File of PEM certificates that the broker trusts when it connects to the schema registry; without it, "
     "the system's."),
    ("bowstring.local.instance", STRING, "", "", LOW, READ_ONLY, APPLIED,
     "Id that the broker chooses at each start, so that clients can verify its socket. Set by the broker "
     "itself.",
     True),
    ("bowstring.local.socket", STRING, "on", "", LOW, READ_ONLY, APPLIED,
     "Unix domain socket through which clients on this machine get segment files to map instead of bytes "
     "over TCP: `on` for bowstring.local.sock in the metadata log directory, `off`, or an absolute path. A "
     "running broker reports the path. With an authorizer, clients open it with a token from TCP."),
    ("bowstring.local.socket.permissions", STRING, "600", "600|660|666", LOW, READ_ONLY, APPLIED,
     "Permissions of that socket. Whoever may connect gets the files of every topic, including files that "
     "the user could not open; with an authorizer, of those topics that its principal may READ."),
    ("bowstring.log.dir.slow.ms", INT, "1000", "0..", LOW, READ_ONLY, APPLIED,
     "A write or sync in a log directory that takes longer than this is counted and logged as slow; 0 "
     "disables it."),
    ("bowstring.log.format", STRING, "text", "text|json", LOW, READ_ONLY, APPLIED,
     "Format of the broker's own log lines on standard error."),
    ("bowstring.log.level", STRING, "info", "debug|info|warning|error", LOW, READ_ONLY, APPLIED,
     "Least severe level of the broker's own log lines."),
    ("bowstring.metrics.port", INT, "-1", "-1..65535", LOW, READ_ONLY, APPLIED,
     "Port on which metrics are served as Prometheus text; 0 uses any free port, -1 serves none."),
    ("bowstring.page.cache", STRING, "led", "all|led|none", LOW, READ_ONLY, APPLIED,
     "Which partitions keep what was written in the page cache: `all`, `led` (those that this broker leads) "
     "or `none`. Of the others only the newest 16 to 32 MiB stay there, and the disk writes at once. `all` "
     "suits consumers that read old records from followers, `none` writing that nobody reads back soon."),
    ("bowstring.scrub.bytes.per.second", LONG, "8388608", "0..", LOW, READ_ONLY, APPLIED,
     "Rate at which the scrubber reads the logs to check every batch's CRC; 0 turns it off."),
    ("bowstring.scrub.interval.ms", LONG, "604800000", "1000..", LOW, READ_ONLY, APPLIED,
     "Time from the start of one round of the scrubber over all logs to the start of the next."),
    ("bowstring.tail.from.bytes", INT, "1048576", "0..1073741824", LOW, READ_ONLY, APPLIED,
     "Size of a partition's newest .log file from which its last batches gather in memory before they are "
     "written; a smaller file gets each batch at once."),
    ("bowstring.tail.pool.bytes", LONG, "16777216", "262144..1073741824", LOW, READ_ONLY, APPLIED,
     "Memory of a log directory for the last batches of its partitions, before .log files get them in large "
     "writes: once for os mode, in a file of the directory, and once for commit mode."),
    ("bowstring.wal.io", STRING, "auto", "auto|io_uring|pwrite", LOW, READ_ONLY, APPLIED,
     "How the write-ahead log is written: with io_uring, with pwrite and RWF_DSYNC, or with the faster one "
     "that the kernel allows."),
    ("bowstring.wal.max.bytes", LONG, "1073741824", "1048576..", LOW, READ_ONLY, APPLIED,
     "Disk space the write-ahead log of a log directory may take before it waits for a checkpoint."),
    ("bowstring.wal.segment.bytes", INT, "67108864", "262144..1073741824", LOW, READ_ONLY, APPLIED,
     "Size of a file of the write-ahead log; a checkpoint follows after four full files."),
    ("bowstring.reactor.threads", INT, "0", "0..16", MEDIUM, READ_ONLY, APPLIED,
     "Native threads that serve connections; 0 means one for every two cores, at most four."),
))
# fmt: on
