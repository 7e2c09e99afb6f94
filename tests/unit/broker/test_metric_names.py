"""The names of all metrics follow Prometheus' conventions, as `promtool check metrics` has them."""

import re

import pytest

from bowstring.engine.broker.cluster_metrics import CONTROLLER, QUORUM, REPLICAS, quorum_state
from docs.generate import metrics

# Units that are not base units, and their abbreviations: seconds and bytes are used instead.
NO_BASE_UNITS = frozenset(
    [
        "milliseconds",
        "microseconds",
        "nanoseconds",
        "minutes",
        "hours",
        "days",
        "weeks",
        "s",
        "ms",
        "us",
        "ns",
        "sec",
        "h",
        "d",
        "bits",
        "kilobytes",
        "megabytes",
        "gigabytes",
        "kibibytes",
        "mebibytes",
        "gibibytes",
        "b",
        "kb",
        "mb",
        "gb",
        "kib",
        "mib",
        "gib",
    ]
)
# What Prometheus appends to names, and the types of metrics.
TAKEN = ("_total", "_count", "_sum", "_bucket", "_created", "_info")
TYPES = frozenset(("counter", "gauge", "histogram", "summary"))


def complaints(name, kind, help_text):
    """Returns the problems of a family of this name, without the suffix of its samples."""
    found = []
    words = set(name.split("_"))
    if not re.fullmatch(r"bowstring(_[a-z0-9]+)+", name):
        found.append("it is not lower case words after bowstring_")
    if name.endswith(TAKEN) and (name, kind) != ("bowstring_build_info", "gauge"):
        found.append("it ends in what Prometheus appends")
    if kind not in ("counter", "gauge", "histogram"):
        found.append(f"its type is {kind}")
    if kind == "histogram" and not name.endswith(("_seconds", "_bytes")):
        found.append("a histogram lacks its unit")
    found += [f"{word} is no base unit" for word in sorted(words & NO_BASE_UNITS)]
    found += [f"{word} is a type" for word in sorted(words & TYPES)]
    if not help_text.endswith((".", ")")):
        found.append("its help is no sentence")
    return found


@pytest.fixture(scope="module")
def families():
    """Every metric of a node with both roles: name, type and help."""
    found = [(each.name, each.type, each.documentation) for each in metrics.families()]
    return [each for each in found if each[0].startswith("bowstring_")]


def test_names_follow_the_convention(families):
    assert len(families) > 60
    assert {name: wrong for name, *rest in families if (wrong := complaints(name, *rest))} == {}
    names = [name for name, _, _ in families]
    assert len(set(names)) == len(names)


def test_a_node_alone_has_the_metrics_of_clusters(families):
    rows = {(row.name, row.kind, row.help_text) for row in (*REPLICAS, *QUORUM, *CONTROLLER)}
    state = quorum_state("leader")
    assert {*rows, (state.name, state.type, state.documentation)} <= {*families}


def test_counters_are_served_as_totals_and_nothing_else_is():
    for each in metrics.families():
        for sample in each.samples:
            if each.name.startswith("bowstring_"):
                assert sample.name.endswith("_total") == (each.type == "counter"), sample.name


@pytest.mark.parametrize(
    ("name", "kind", "says"),
    [
        ("bowstring_directory_count", "gauge", "appends"),
        ("bowstring_directories_total", "gauge", "appends"),
        ("bowstring_lag_ms", "gauge", "no base unit"),
        ("bowstring_size_kib", "gauge", "no base unit"),
        ("bowstring_lag_gauge", "gauge", "is a type"),
        ("bowstring_requestTime", "counter", "lower case"),
        ("bowstring_request", "histogram", "unit"),
    ],
)
def test_other_names_are_refused(name, kind, says):
    assert any(says in each for each in complaints(name, kind, "Help."))
