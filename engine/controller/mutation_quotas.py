"""Limits how many partitions clients create and delete (KIP-599)."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.client_quotas_image import CONTROLLER_MUTATION_RATE
from bowstring.protocol.errors import Errors, KafkaError

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ImageSource

BUCKETS_MAX: Final = 10_000
_WAIT_MAX_MS: Final = (1 << 31) - 1


class TokenBucket:
    """Tokens that come at a rate, and are taken also beyond zero. Pure.

    Args:
        burst_s: How many seconds without a use are saved.

    Attributes:
        rate: Tokens per second.
    """

    def __init__(self, rate: float, burst_s: float, now_s: float) -> None:
        self.rate = rate
        self._burst_s = burst_s
        self._tokens = burst_s * rate
        self._at_s = now_s

    def tokens(self, now_s: float) -> float:
        """Returns the tokens that are there; below zero as many are owed."""
        self._tokens = min(self._burst_s * self.rate, self._tokens + self.rate * (now_s - self._at_s))
        self._at_s = now_s
        return self._tokens

    def take(self, count: float, now_s: float) -> None:
        """Takes tokens, also those that are not there."""
        self._tokens = self.tokens(now_s) - count

    def is_full(self, now_s: float) -> bool:
        """Whether it is as if it had never been used."""
        return self.tokens(now_s) >= self._burst_s * self.rate

    def wait_ms(self, now_s: float) -> int:
        """Returns the time until no token is owed; at most what fits throttle_time_ms."""
        return max(0, round(min(-self.tokens(now_s) / self.rate * 1000, _WAIT_MAX_MS)))


class MutationQuota:
    """The quota for the changes of one request.

    Attributes:
        is_strict: Changes are refused while tokens are owed; else they only make the client wait.
    """

    def __init__(self, bucket: TokenBucket | None, now_s: Callable[[], float], *, is_strict: bool) -> None:
        self.is_strict = is_strict
        self._bucket = bucket
        self._now_s = now_s
        self._until_s = 0.0

    def count(self, partitions: int) -> None:
        """Counts partitions that are about to be created or deleted.

        Raises:
            KafkaError: THROTTLING_QUOTA_EXCEEDED: they may not be, now.
        """
        bucket, now_s = self._bucket, self._now_s()
        if bucket is None:
            return
        if not self.is_strict:
            bucket.take(partitions, now_s)
        if wait_ms := bucket.wait_ms(now_s):
            self._until_s = now_s + wait_ms / 1000
            if self.is_strict:
                raise KafkaError(Errors.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        if self.is_strict:
            bucket.take(partitions, now_s)

    @property
    def throttle_ms(self) -> int:
        """The milliseconds that the client has to wait; 0: it need not."""
        return max(0, round((self._until_s - self._now_s()) * 1000))


class MutationQuotas:
    """The token buckets of clients.

    Args:
        metadata: Has the quotas.
        burst_s: `controller.quota.window.num` times `controller.quota.window.size.seconds`.
        now_s: Steady time.
    """

    def __init__(self, metadata: "ImageSource", burst_s: float, now_s: Callable[[], float]) -> None:
        self._metadata = metadata
        self._burst_s = burst_s
        self._now_s = now_s
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    @property
    def unlimited(self) -> MutationQuota:
        """The quota of who has none."""
        return MutationQuota(None, self._now_s, is_strict=False)

    def of(self, principal: str, client_id: str | None, *, is_strict: bool) -> MutationQuota:
        """Returns the quota for the changes of a client's request."""
        user = principal.partition(":")[2]
        found = self._metadata.image.client_quotas.find(CONTROLLER_MUTATION_RATE, user, client_id or "")
        bucket = None if found is None else self._bucket(*found)
        return MutationQuota(bucket, self._now_s, is_strict=is_strict)

    def _bucket(self, client: tuple[str, str], rate: float) -> TokenBucket:
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) >= BUCKETS_MAX:
                now_s = self._now_s()
                self._buckets = {
                    each: bucket for each, bucket in self._buckets.items() if not bucket.is_full(now_s)
                }
                if len(self._buckets) >= BUCKETS_MAX:
                    client = ("", "")  # further clients share one
            bucket = self._buckets.setdefault(client, TokenBucket(rate, self._burst_s, self._now_s()))
        bucket.rate = rate
        return bucket
