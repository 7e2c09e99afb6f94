"""Gives tokens to clients that are logged in over TCP; each opens one connection to the local socket."""

import hashlib
import secrets
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.configs.listener_configs import listener_value

VALID_S: Final = 30.0
"""How long a token can be presented."""
LOGIN_MAX_S: Final = 600.0
"""How long a connection has the token's principal; its client then gets another token."""
PENDING_OF_PRINCIPAL_MAX: Final = 32
PENDING_MAX: Final = 4096


class Login(NamedTuple):
    """Who a token was given to.

    Attributes:
        peer: The address that its request came from, ``host:port``.
        until_s: End of the login, by the clock of `LocalTokens`.
    """

    principal: str
    peer: str
    until_s: float


class LocalTokens:
    """The tokens that nobody has presented yet. Used on the control loop only.

    Only hashes are kept. A principal's newest token replaces its oldest one when it has too many.
    """

    def __init__(self, configs: BrokerConfigs, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._configs = configs
        self._given: dict[bytes, tuple[float, Login]] = {}  # the oldest first
        self._of_principal: dict[str, dict[bytes, None]] = {}  # the same

    def __len__(self) -> int:
        return len(self._given)

    def give(self, principal: str, peer: str, listener: str) -> str | None:
        """Returns a new token; None: too many are not presented yet.

        Args:
            listener: Name of the listener that the client has logged in at; its connections.max.reauth.ms
                also limits the login.
        """
        now_s = self.clock()
        self._forget_old(now_s)
        own = self._of_principal.get(principal, {})
        if len(own) >= PENDING_OF_PRINCIPAL_MAX:
            self._remove(next(iter(own)))
        elif len(self._given) >= PENDING_MAX:
            return None
        limit_ms = int(listener_value(self._configs, listener, "connections.max.reauth.ms"))
        lasts_s = min(LOGIN_MAX_S, limit_ms / 1000) if limit_ms > 0 else LOGIN_MAX_S
        token = secrets.token_urlsafe(32)
        key = _key(token)
        self._given[key] = now_s + VALID_S, Login(principal, peer, now_s + lasts_s)
        self._of_principal.setdefault(principal, {})[key] = None
        return token

    def take(self, token: str) -> Login | None:
        """Returns who a token was given to, once; None: it is unknown, presented before, or too old."""
        now_s = self.clock()
        self._forget_old(now_s)
        key = _key(token)
        if key not in self._given:
            return None
        until_s, _ = self._given[key]
        login = self._remove(key)
        return login if until_s > now_s else None

    def _remove(self, key: bytes) -> Login:
        _, login = self._given.pop(key)
        own = self._of_principal[login.principal]
        del own[key]
        if not own:
            del self._of_principal[login.principal]
        return login

    def _forget_old(self, now_s: float) -> None:
        """Looks at no others: strangers, too, can present tokens, at any rate."""
        old = []
        for key, (until_s, _) in self._given.items():
            if until_s > now_s:
                break
            old.append(key)
        for key in old:
            self._remove(key)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
