"""Holds what sends the heartbeats of one consumer, by either protocol; threads start when they are needed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from bowstring.clients.group.heartbeat import GroupConfig, Heartbeat
from bowstring.clients.group.member_thread import MemberThread
from bowstring.clients.group.membership import ConsumerMembership

if TYPE_CHECKING:
    from bowstring.security.client_settings import ClientSecurity


class HeartbeatThreads:
    """The heartbeats of one consumer.

    Args:
        request_timeout_s: a request of the protocol "consumer" is repeated without an answer for this long.
        on_news: called on a thread when the next poll has something to do.
        security: TLS and SASL of their connections.
    """

    def __init__(
        self,
        client_id: str,
        config: GroupConfig,
        request_timeout_s: float,
        on_news: Callable[[], None],
        security: ClientSecurity | None,
    ):
        self.classic = Heartbeat(client_id, config, on_news, security)
        membership = ConsumerMembership(
            config.group_id,
            str(uuid.uuid4()),
            rebalance_timeout_ms=int(config.max_poll_interval_s * 1000),
            server_assignor=config.remote_assignor,
            group_instance_id=config.group_instance_id,
            rack=config.rack,
        )
        self.consumer = MemberThread(
            client_id,
            membership,
            max_poll_interval_s=config.max_poll_interval_s,
            request_timeout_s=request_timeout_s,
            on_news=on_news,
            security=security,
        )

    def close(self) -> None:
        """Ends the threads."""
        self.classic.close()
        self.consumer.close()
