"""Rows of the audit's status, as people read them."""

import pytest

from bowstring.audit.status_rows import share_text, window_text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (1.0, "100 %"),
        (0.999_999_9, "99.99 %"),
        (1.000_000_1, "100.01 %"),
        (1.5, "150.00 %"),
        (0.0, "0.00 %"),
        (None, "–"),
    ],
)
def test_only_all_records_are_100_percent(share, text):
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("start_ms", "window_ms", "text"),
    [
        (0, 600_000, "1970-01-01 00:00–00:10"),
        (0, 10_000, "1970-01-01 00:00:00–00:00:10"),
        (86_100_000, 600_000, "1970-01-01 23:55–1970-01-02 00:05"),
        (1 << 62, 1, f"{1 << 62}–{(1 << 62) + 1}"),
    ],
)
def test_windows(start_ms, window_ms, text):
    assert window_text(start_ms, window_ms) == text
