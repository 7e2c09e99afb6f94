"""Names the timers of consumer groups. Session timers have the same keys as those of classic groups."""

from bowstring.engine.groups.classic.rebalance import session_timer
from bowstring.engine.groups.consumer.group import ConsumerGroup
from bowstring.engine.groups.consumer.member import MemberState
from bowstring.engine.groups.consumer.settings import session_timeout_ms
from bowstring.engine.groups.effects import TimerKey
from bowstring.engine.groups.state import ShardState

SESSION = "session"
REBALANCE = "rebalance"
# of members of the classic protocol
JOIN = "join member"
SYNC = "sync member"
# kind, group id, member id
MEMBER_KEY_PARTS = 3


def rebalance_timer(group_id: str, member_id: str) -> TimerKey:
    """Key of the timer that fires when a member has not given up its partitions in time."""
    return (REBALANCE, group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    """Key of the timer that fires when a classic member has not rejoined in time."""
    return (JOIN, group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    """Key of the timer that fires when a classic member has not sent SyncGroup in time."""
    return (SYNC, group_id, member_id)


def cancel_timers(state: ShardState, group_id: str, member_id: str) -> None:
    """Stops all timers of a member."""
    for timer in (session_timer, rebalance_timer, join_timer, sync_timer):
        state.cancel_timer(timer(group_id, member_id))


def start_sessions(state: ShardState, group: ConsumerGroup) -> None:
    """Starts the timers of all members after the group was read from the log or came back."""
    for member in group.members.values():
        state.set_timer(
            session_timer(group.group_id, member.member_id), session_timeout_ms(state, group.group_id)
        )
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            state.set_timer(rebalance_timer(group.group_id, member.member_id), member.rebalance_timeout_ms)
