"""Declares what Admin provides to the groups of methods that are mixed into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from bowstring.clients.net.connection import Api, Body
    from bowstring.clients.records import Node


class AdminCalls:
    """Base of the groups of methods. Admin implements the calls."""

    if TYPE_CHECKING:

        def _call(self, pick: Callable[[], Node | None], api: Api, body: Body) -> Any: ...

        def _any_node(self) -> Node: ...

        def _broker_timeout_ms(self) -> int: ...

        def _to_controller(
            self,
            api: Api,
            body: Body,
            check: Callable[[Any], None] = ...,
            *,
            pick: Callable[[], Node | None] | None = None,
        ) -> Any: ...
