"""Keeps who is signed in: random ids in cookies, passwords in memory only, tokens against forged requests."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from starlette.requests import HTTPConnection, Request

from bowstring.console.cluster_access import THREADS, ClusterAccess
from bowstring.console.options import ConsoleOptions

SESSIONS_MAX = 200
SESSIONS_OF_ONE = 20
"""Of one user name: whoever signs in again and again ends only sessions of that name."""
IDLE_S = 3600.0
LIFETIME_S = 12 * 3600.0
"""A page that stays open is a use; it does not keep a session for ever."""
_ID = re.compile(r"[A-Za-z0-9_-]{43}")


class SignInNeededError(Exception):
    """A page needs a signed-in user; `path` is where to go on after the sign-in."""

    def __init__(self, path: str):
        super().__init__(path)
        self.path = path


class Session:
    """A signed-in user."""

    __slots__ = ("access", "began_at", "used_at")

    def __init__(self, access: ClusterAccess):
        self.access = access
        self.began_at = self.used_at = time.monotonic()


class Sessions:
    """All sessions of the console, the one used last at the end. Belongs to the event loop.

    Args:
        options: of the console.

    Without sign-in, all browsers share one access.
    """

    def __init__(self, options: ConsoleOptions):
        self.options = options
        self.threads = ThreadPoolExecutor(THREADS, "console")
        self._secret = secrets.token_bytes(32)
        self._signed_in: OrderedDict[str, Session] = OrderedDict()
        self._shared: ClusterAccess | None = None

    def new_id(self) -> str:
        """Returns a random id for a browser."""
        return secrets.token_urlsafe(32)

    def is_id(self, text: str | None) -> bool:
        """Whether a cookie may be an id."""
        return text is not None and _ID.fullmatch(text) is not None

    def csrf_token(self, browser: str) -> str:
        """Returns the token that forms of a browser must carry; other sites cannot make or read it."""
        return hmac.new(self._secret, browser.encode(), hashlib.sha256).hexdigest()

    def access(self, browser: str) -> ClusterAccess | None:
        """Returns the access of a browser; None if it has to sign in."""
        if not self.options.sign_in:
            if self._shared is None:
                security = dict(self.options.security) if self.options.security else None
                self._shared = ClusterAccess(self.options, None, security, self.threads)
            return self._shared
        self.end_old()
        session = self._signed_in.get(browser)
        if session is None:
            return None
        session.used_at = time.monotonic()
        self._signed_in.move_to_end(browser)
        return session.access

    def sign_in(self, access: ClusterAccess) -> str:
        """Starts a session; returns its id, which is new: an id from before the sign-in is worth nothing."""
        self.end_old()
        of_user = [each for each, one in self._signed_in.items() if one.access.user == access.user]
        for each in of_user[: max(0, len(of_user) - SESSIONS_OF_ONE + 1)]:
            self.sign_out(each)
        while len(self._signed_in) >= SESSIONS_MAX:
            self._signed_in.popitem(last=False)[1].access.close()
        browser = self.new_id()
        self._signed_in[browser] = Session(access)
        return browser

    def sign_out(self, browser: str) -> None:
        """Ends a session, if there is one."""
        session = self._signed_in.pop(browser, None)
        if session is not None:
            session.access.close()

    def end_old(self) -> None:
        """Ends sessions that nobody uses, and those older than LIFETIME_S."""
        now = time.monotonic()
        for browser, session in list(self._signed_in.items()):
            if now - session.used_at > IDLE_S or now - session.began_at > LIFETIME_S:
                self.sign_out(browser)

    def close(self) -> None:
        """Ends all sessions."""
        for browser in list(self._signed_in):
            self.sign_out(browser)
        if self._shared is not None:
            self._shared.close()
        self.threads.shutdown(wait=False, cancel_futures=True)


def sessions_of(request: HTTPConnection) -> Sessions:
    """Returns the sessions of the console that serves a request."""
    found: Sessions = request.app.state.sessions
    return found


def browser_of(request: HTTPConnection) -> str:
    """Returns the id of the browser that sends a request."""
    found: str = request.state.browser
    return found


def access_of(request: Request) -> ClusterAccess:
    """Returns what the signed-in user of a request may use.

    Raises:
        SignInNeededError: nobody is signed in; the application redirects to /sign-in.
    """
    access = sessions_of(request).access(browser_of(request))
    if access is None:
        query = f"?{request.url.query}" if request.url.query else ""
        path = quote(request.url.path) + query if request.method == "GET" else "/"
        raise SignInNeededError(path)
    return access
