"""Looks at groups while somebody looks at them, and remembers lags and rebalances for plots and lists."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bowstring.clients.errors import ClientError, ClosedError
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import COST_MAX, topics_of
from bowstring.operations.group_history import GroupHistory, Rebalance
from bowstring.operations.group_progress import GroupsNow, look_at_groups

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import GroupListing
    from bowstring.clients.records import TopicInfo

LIST_S = 2.0
LOOK_S = 1.0
WATCH_S = 15.0
"""Between two looks at the groups that nobody has open."""
WATCH_S_MAX = 60.0
"""So long where a look costs much."""
WATCHED_MAX = 200
"""Groups that are watched without an open page: the first ones by name."""
UNWATCHED_AFTER_S = 900.0
"""After the last page that shows groups."""
REBALANCES_S = 3_600


class GroupWatch:
    """Looks at groups with the rights of one access. Belongs to the event loop of the console.

    Args:
        access: of the session whose pages show groups.

    Attributes:
        history: what was seen so far.
        since_ms: when it began, in ms since 1970.
    """

    def __init__(self, access: ClusterAccess):
        self._access = access
        self._wanted_until = 0.0
        self._task: asyncio.Task[None] | None = None
        self.history = GroupHistory()
        self.since_ms = int(time.time() * 1000)

    async def listed(self) -> list[GroupListing]:
        """Returns the groups that the user may see, by name.

        Raises:
            ClientError: the cluster cannot be reached, or refuses.
        """
        self._keep_watching()
        return await self._access.cached(
            ("groups",), LIST_S, lambda admin: admin.list_groups(), stale_s=10.0, cost_max=0.1
        )

    async def look(self, groups: Sequence[GroupListing], *, times: bool) -> GroupsNow:
        """Returns what groups are now, or were a moment ago.

        Args:
            groups: as `listed` returns them.
            times: also find out how old what they have not read is.

        Raises:
            ClientError: the cluster cannot be reached.
        """
        topics = await topics_of(self._access)

        async def look() -> GroupsNow:
            return await self._looked(groups, topics, times)

        key = ("groups now", times, tuple(each.group_id for each in groups))
        return await self._access.cached(key, LOOK_S, look, cost_max=0.1)

    async def _looked(
        self, groups: Sequence[GroupListing], topics: Mapping[str, TopicInfo], times: bool
    ) -> GroupsNow:
        def ask(admin: Admin) -> GroupsNow:
            return look_at_groups(admin, groups, topics=topics, times=times)

        now = await self._access.whole(ask)
        self.history.observe(now, int(time.time() * 1000))
        return now

    def _keep_watching(self) -> None:
        self._wanted_until = time.monotonic() + UNWATCHED_AFTER_S
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._watch())

    async def _watch(self) -> None:
        """Looks at the first groups by name at a slow pace, until no page shows groups any more."""
        while time.monotonic() < self._wanted_until:
            began = time.monotonic()
            try:
                groups = await self._access.cached(
                    ("groups",), LIST_S, lambda admin: admin.list_groups(), cost_max=COST_MAX
                )
                topics = await topics_of(self._access)
                await self._looked(groups[:WATCHED_MAX], topics, False)
            except ClosedError:
                return
            except ClientError:
                pass  # pages show why; the next round tries again
            took = time.monotonic() - began
            await asyncio.sleep(max(WATCH_S, min(took / COST_MAX, WATCH_S_MAX)))


def group_watch(access: ClusterAccess) -> GroupWatch:
    """Returns the watch that all pages of an access share."""
    return access.shared("group watch", lambda: GroupWatch(access))


async def recent_rebalances(access: ClusterAccess) -> list[Rebalance]:
    """Returns the rebalances of the last hour that were seen, newest first; the template
    `rebalances.html` shows them. Groups are watched from the first call on.

    Raises:
        ClientError: the cluster cannot be reached, or refuses.
    """
    watch = group_watch(access)
    await watch.listed()
    return watch.history.rebalances(since_ms=int(time.time() * 1000) - REBALANCES_S * 1000)
