"""What a follower truncates its log to."""

import pytest

from bowstring._native.replica.truncation import truncate_to


@pytest.mark.parametrize(
    ("arguments", "offset"),
    [
        ((3, 50, 3, 70, 100, 20), 50),
        ((3, 80, 3, 70, 100, 20), 70),
        ((3, 50, 2, 40, 100, 20), 40),  # the follower lacks epoch 3
        ((3, 50, -1, -1, 100, 20), 50),
        ((3, 150, -1, -1, 100, 20), 100),
        ((-1, 60, 2, 40, 100, 20), 60),
        ((3, -1, 3, 70, 100, 20), 20),  # the leader lacks the epoch
    ],
)
def test_where_to_truncate(arguments, offset):
    assert truncate_to(*arguments) == offset
