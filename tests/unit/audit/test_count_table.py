"""Counts of tiers are compared by topic and window."""

import random

import pytest

from bowstring.audit.count_message import Count, Stage
from bowstring.audit.count_table import CountTable

MINUTE = 60_000
START = 1_000 * MINUTE
LATER = START + 60 * MINUTE
APP, DC = Stage("app", "producer"), Stage("dc", "producer")
READER = Stage("dc", "consumer", "reports")


def counted(stage, records, *, start=START, instance="a", topic="clicks", window_ms=MINUTE):
    return Count(stage, instance, topic, start, window_ms, records, start + records)


def table_of(*counts, **settings):
    table = CountTable(**settings)
    for each in counts:
        table.add(each, LATER)
    return table


def states(table, now_ms=LATER):
    return [
        (row.topic, row.start_ms, str(row.stage), row.state) for row in table.rows(now_ms, grace_ms=MINUTE)
    ]


def test_all_records_are_exactly_everything():
    table = table_of(
        counted(APP, 100), counted(DC, 100), counted(READER, 60), counted(READER, 40, instance="b")
    )
    assert [(str(row.stage), row.share, row.state) for row in table.rows(LATER)] == [
        ("app", 1.0, "complete"),
        ("dc", 1.0, "complete"),
        ("dc/reports", 1.0, "complete"),
    ]


def test_missing_records_are_named_with_topic_and_window():
    table = table_of(
        counted(APP, 100),
        counted(DC, 97),
        counted(APP, 50, start=START + MINUTE),
        counted(DC, 50, start=START + MINUTE),
    )
    (missing,) = [row for row in table.rows(LATER) if row.state == "incomplete"]
    assert (missing.topic, missing.start_ms, missing.stage, missing.missing) == ("clicks", START, DC, 3)
    (summary,) = table.summaries(LATER)
    assert (summary.share, summary.missing, summary.incomplete) == (147 / 150, 3, 1)


def test_a_surplus_is_shown_and_does_not_hide_what_another_window_misses():
    table = table_of(
        counted(APP, 100),
        counted(DC, 103),
        counted(APP, 100, start=START + MINUTE),
        counted(DC, 97, start=START + MINUTE),
    )
    assert [row.state for row in table.rows(LATER) if row.stage == DC] == ["surplus", "incomplete"]
    (summary,) = table.summaries(LATER)
    assert (summary.share, summary.surplus, summary.missing) == (197 / 200, 3, 3)


def test_a_window_is_open_until_its_grace_is_over():
    table = table_of(counted(APP, 100), counted(DC, 1))
    end = START + MINUTE
    assert {state for *_, state in states(table, end + MINUTE - 1)} == {"open"}
    assert [state for *_, state in states(table, end + MINUTE)] == ["complete", "incomplete"]


def test_a_window_that_a_stage_never_counted_is_missed_completely():
    table = table_of(counted(APP, 5), counted(DC, 5), counted(APP, 7, start=START + MINUTE))
    assert states(table)[-1] == ("clicks", START + MINUTE, "dc", "incomplete")


def test_a_stage_is_not_expected_before_its_first_window_unless_its_tier_is_named():
    counts = (counted(APP, 5), counted(APP, 7, start=START + MINUTE), counted(DC, 7, start=START + MINUTE))
    assert "incomplete" not in {state for *_, state in states(table_of(*counts))}
    assert ("clicks", START, "dc", "incomplete") in states(table_of(*counts, tiers=("app", "dc")))


def test_counts_of_a_restarted_producer_add_up():
    table = table_of(
        counted(APP, 60, instance="first"), counted(APP, 40, instance="second"), counted(DC, 100)
    )
    assert [row.records for row in table.rows(LATER)] == [100, 100]


def test_order_and_repetition_of_reports_do_not_matter():
    reports = [counted(APP, records, instance=name) for records in range(1, 40) for name in "abc"]
    reports += [counted(DC, records) for records in range(1, 118)]
    expected = table_of(*reports, tiers=("app", "dc")).rows(LATER)
    shuffled = random.Random(7)
    for _ in range(5):
        mixed = reports * 2
        shuffled.shuffle(mixed)
        assert table_of(*mixed, tiers=("app", "dc")).rows(LATER) == expected


def test_named_tiers_say_which_is_first():
    table = table_of(counted(APP, 90), counted(DC, 100), tiers=("dc", "app"))
    assert [(str(row.stage), row.missing) for row in table.rows(LATER)] == [("dc", 0), ("app", 10)]


def test_other_tiers_are_left_out_when_tiers_are_named():
    table = table_of(
        counted(APP, 1), counted(DC, 2), counted(Stage("lab", "producer"), 3), tiers=("app", "dc")
    )
    assert {row.stage.tier for row in table.rows(LATER)} == {"app", "dc"}


def test_what_the_first_stage_has_not_counted_has_no_share():
    table = table_of(counted(APP, 1), counted(DC, 5, start=START + MINUTE))
    rows = [row for row in table.rows(LATER) if row.start_ms == START + MINUTE]
    assert [(row.records, row.share, row.state) for row in rows] == [
        (0, None, "complete"),
        (5, None, "surplus"),
    ]


def test_lag_is_between_the_newest_records():
    table = table_of(counted(APP, 5), counted(APP, 5, start=START + 3 * MINUTE), counted(DC, 5))
    (summary,) = table.summaries(LATER)
    assert summary.lag_ms == 3 * MINUTE


def test_old_windows_are_forgotten_with_their_topics():
    table = table_of(
        counted(APP, 5), counted(APP, 5, topic="new", start=LATER - MINUTE), keep_ms=2 * 60 * MINUTE
    )
    table.expire(LATER + 90 * MINUTE)
    assert (table.topics(), len(table)) == (["new"], 1)
    table.add(counted(APP, 9), LATER + 90 * MINUTE)
    assert table.topics() == ["new"]


def test_memory_is_bounded_and_the_oldest_windows_go_first():
    table = CountTable(counts_max=100)
    for number in range(1000):
        table.add(counted(APP, 1, start=START + number % 50 * MINUTE, instance=str(number)), LATER)
    assert len(table) <= 100
    assert table.dropped > 0
    assert max(row.start_ms for row in table.rows(LATER)) == START + 49 * MINUTE


def test_windows_of_several_lengths_are_found():
    table = table_of(counted(APP, 5), counted(DC, 5, window_ms=2 * MINUTE))
    assert table.window_lengths("clicks") == {MINUTE, 2 * MINUTE}


@pytest.mark.parametrize("stage", [READER, DC])
def test_a_topic_that_only_one_stage_counts_is_compared_with_itself(stage):
    assert [state for *_, state in states(table_of(counted(stage, 5)))] == ["complete"]


def test_a_named_tier_that_never_reported_a_topic_misses_all_of_it():
    table = table_of(counted(APP, 5), counted(APP, 7, start=START + MINUTE), tiers=("app", "dc"))
    assert [(str(row.stage), row.records, row.share, row.state) for row in table.rows(LATER)] == [
        ("app", 5, 1.0, "complete"),
        ("dc", 0, 0.0, "incomplete"),
        ("app", 7, 1.0, "complete"),
        ("dc", 0, 0.0, "incomplete"),
    ]
    (summary,) = table.summaries(LATER)
    assert (summary.stage, summary.share, summary.missing, summary.incomplete) == (DC, 0.0, 12, 2)


def test_readers_of_a_named_tier_stand_for_it():
    table = table_of(counted(APP, 5), counted(READER, 5), tiers=("app", "dc"))
    assert [str(row.stage) for row in table.rows(LATER)] == ["app", "dc/reports"]


def test_a_first_tier_that_is_silent_misses_what_the_next_one_has():
    table = table_of(
        counted(APP, 5), counted(DC, 5), counted(DC, 7, start=START + MINUTE), tiers=("app", "dc")
    )
    rows = [row for row in table.rows(LATER) if row.start_ms == START + MINUTE]
    assert [(str(row.stage), str(row.first), row.share, row.missing, row.state) for row in rows] == [
        ("app", "dc", 0.0, 7, "incomplete"),
        ("dc", "dc", 1.0, 0, "complete"),
    ]
    app, dc = table.summaries(LATER)
    assert (app.stage, app.first, app.share, app.missing) == (APP, DC, 0.0, 7)
    assert (dc.stage, dc.first, dc.share, dc.missing) == (DC, APP, 1.0, 0)


def test_a_first_tier_that_never_reported_a_topic_misses_all_of_it():
    rows = table_of(counted(DC, 5), tiers=("app", "dc")).rows(LATER)
    assert [(str(row.stage), row.share, row.state) for row in rows] == [
        ("dc", 1.0, "complete"),
        ("app", 0.0, "incomplete"),
    ]


def test_one_groups_surplus_does_not_hide_what_another_misses():
    other = READER._replace(reader="billing")
    table = table_of(counted(APP, 10), counted(READER, 13), counted(other, 7))
    assert [(str(row.stage), row.missing, row.surplus) for row in table.rows(LATER)] == [
        ("app", 0, 0),
        ("dc/billing", 3, 0),
        ("dc/reports", 0, 3),
    ]
