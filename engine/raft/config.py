"""The settings of a replica, named as Kafka's `controller.quorum.*`."""

from collections.abc import Callable
from typing import NamedTuple

RandomBelow = Callable[[int], int]
"""Returns a random number from 0 up to, and without, its argument: `Dice.randrange`."""


class QuorumConfig(NamedTuple):
    """Settings; times in ms.

    Attributes:
        election_timeout_ms: How long a nominee waits for votes: this long and up to twice as long, at random.
        election_backoff_max_ms: The most that a successor waits after a leader's resignation.
        fetch_timeout_ms: How long a follower fetches in vain before it starts an election. A leader that gets
            no fetches of a majority for one and a half times as long resigns.
        request_timeout_ms: How long a request may take.
        retry_backoff_ms: The pause before a failed request is repeated.
        append_linger_ms: How long a leader collects records before it writes them.
        fetch_max_bytes: The most that a Fetch returns.
        fetch_snapshot_max_bytes: The most that a FetchSnapshot returns.
        fetch_max_wait_ms: How long a leader holds a Fetch that has nothing to return.
        auto_join: An observer that may become a voter requests to become one.
    """

    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    append_linger_ms: int = 25
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    fetch_max_wait_ms: int = 500
    auto_join: bool = False

    @property
    def check_quorum_timeout_ms(self) -> int:
        """How long a leader leads without fetches of a majority."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_interval_ms(self) -> int:
        """How often a leader announces itself to voters that do not fetch."""
        return self.fetch_timeout_ms // 2

    @property
    def update_voter_interval_ms(self) -> int:
        """How often a follower checks its entry among the voters.

        Longer than the request timeout: a leader accepts no other change while it waits for an answer of a
        voter that it cannot reach.
        """
        return 2 * self.fetch_timeout_ms
