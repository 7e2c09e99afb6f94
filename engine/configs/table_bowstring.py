"""Broker configs that Kafka does not have."""

from bowstring.engine.configs.definition import APPLIED, INT, LOW, MEDIUM, READ_ONLY, STRING
from bowstring.engine.configs.definition import rows as _rows

# (name, type, default, valid values, importance, how it changes, whether it is acted on, doc[, internal])
# fmt: off
BOWSTRING = _rows((
    ("bowstring.log.format", STRING, "text", "text|json", LOW, READ_ONLY, APPLIED,
     "Form of the broker's own log lines on standard error."),
    ("bowstring.log.level", STRING, "info", "debug|info|warning|error", LOW, READ_ONLY, APPLIED,
     "Least severe level of the broker's own log lines."),
    ("bowstring.metrics.port", INT, "-1", "-1..65535", LOW, READ_ONLY, APPLIED,
     "Port on which metrics are served as Prometheus text; 0 takes a free one, -1 serves none."),
    ("bowstring.reactor.threads", INT, "0", "0..16", MEDIUM, READ_ONLY, APPLIED,
     "Native threads that serve connections; 0 takes one for every two cores, at most four."),
))
# fmt: on
