"""Lists the configs of groups (KIP-848, KIP-932, KIP-1071) and of client metrics subscriptions (KIP-714)."""

from bowstring.engine.configs.definition import (
    APPLIED,
    BOOLEAN,
    GROUP,
    INT,
    LIST,
    MEDIUM,
    STORED,
    STRING,
    SUBSCRIPTION,
)
from bowstring.engine.configs.definition import rows as _rows

# (name, type, default, valid values, importance, how it changes, whether it is acted on, doc[, internal])
# fmt: off
GROUPS = _rows((
    ("consumer.assignment.interval.ms", INT, "1000", "0..", MEDIUM, GROUP, APPLIED,
     "Shortest time between two assignments of the consumer group."),
    ("consumer.heartbeat.interval.ms", INT, "5000", "1..", MEDIUM, GROUP, APPLIED,
     "Heartbeat interval given to members of the consumer group."),
    ("consumer.session.timeout.ms", INT, "45000", "1..", MEDIUM, GROUP, APPLIED,
     "Session timeout of members of the consumer group."),
    ("share.assignment.interval.ms", INT, "1000", "0..", MEDIUM, GROUP, APPLIED,
     "Shortest time between two assignments of the share group."),
    ("share.auto.offset.reset", STRING, "latest", "", MEDIUM, GROUP, APPLIED,
     "Where the share group starts: earliest, latest, or by_duration:<ISO 8601 duration> ago."),
    ("share.delivery.count.limit", INT, "5", "2..", MEDIUM, GROUP, APPLIED,
     "Maximum number of deliveries of a record."),
    ("share.heartbeat.interval.ms", INT, "5000", "1..", MEDIUM, GROUP, APPLIED,
     "Heartbeat interval given to members of the share group."),
    ("share.isolation.level", STRING, "read_uncommitted", "read_committed|read_uncommitted", MEDIUM, GROUP,
     APPLIED,
     "Whether the share group sees records of transactions that were aborted."),
    ("share.partition.max.record.locks", INT, "2000", "100..", MEDIUM, GROUP, APPLIED,
     "Records of one partition that the share group may hold locked."),
    ("share.record.lock.duration.ms", INT, "30000", "1000..", MEDIUM, GROUP, APPLIED,
     "How long a record stays locked to a consumer of the share group."),
    ("share.renew.acknowledge.enable", BOOLEAN, "true", "", MEDIUM, GROUP, APPLIED,
     "Whether a consumer of the share group may renew the lock of a record."),
    ("share.session.timeout.ms", INT, "45000", "1..", MEDIUM, GROUP, APPLIED,
     "Session timeout of members of the share group."),
    ("streams.assignment.interval.ms", INT, "1000", "0..", MEDIUM, GROUP, APPLIED,
     "Shortest time between two assignments of the streams group."),
    ("streams.heartbeat.interval.ms", INT, "5000", "1..", MEDIUM, GROUP, APPLIED,
     "Heartbeat interval given to members of the streams group."),
    ("streams.initial.rebalance.delay.ms", INT, "3000", "0..", MEDIUM, GROUP, APPLIED,
     "How long a new streams group waits for more members."),
    ("streams.num.standby.replicas", INT, "0", "0..", MEDIUM, GROUP, APPLIED,
     "Standby copies of each task of the streams group."),
    ("streams.session.timeout.ms", INT, "45000", "1..", MEDIUM, GROUP, APPLIED,
     "Session timeout of members of the streams group."),
))

CLIENT_METRICS = _rows((
    ("interval.ms", INT, "300000", "", MEDIUM, SUBSCRIPTION, STORED,
     "Time between two pushes of a client's metrics."),
    ("match", LIST, "", "", MEDIUM, SUBSCRIPTION, STORED,
     "Clients that match, as name=pattern pairs."),
    ("metrics", LIST, "", "", MEDIUM, SUBSCRIPTION, STORED,
     "Prefixes of the requested metrics; * for all."),
))
# fmt: on
