"""Serves the form to sign in, the sign-out, and the switch of light and dark."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import AuthenticationError, ClientError
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.rendering import THEME_COOKIE, THEMES, page
from bowstring.console.sessions import browser_of, sessions_of
from bowstring.console.writes import check_csrf

FAILURE_S = 1.0
"""What a failed sign-in costs."""
FAILURES_MAX = 10
"""In FAILURES_S from one address; more are refused without asking the cluster."""
FAILURES_S = 60.0
ADDRESSES_MAX = 1000
AT_ONCE_MAX = 4
TOO_MANY = "Too many failed sign-ins. Wait a minute, then try again."
_YEAR_S = 365 * 24 * 3600


class Failures:
    """Failed sign-ins of the last minute, by address."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, list[float]] = OrderedDict()
        self.slots = asyncio.Semaphore(AT_ONCE_MAX)

    def too_many(self, address: str) -> bool:
        """Whether an address has to wait."""
        since = time.monotonic() - FAILURES_S
        recent = [at for at in self._times.get(address, ()) if at > since]
        return len(recent) >= FAILURES_MAX

    def add(self, address: str) -> None:
        """Notes a failure."""
        since = time.monotonic() - FAILURES_S
        recent = [at for at in self._times.pop(address, ()) if at > since]
        self._times[address] = [*recent, time.monotonic()]
        while len(self._times) > ADDRESSES_MAX:
            self._times.popitem(last=False)


def _failures(request: Request) -> Failures:
    state = request.app.state
    if not hasattr(state, "failures"):
        state.failures = Failures()
    found: Failures = state.failures
    return found


def network_of(address: str) -> str:
    """Returns what failures of an address count for: all of a /64 of IPv6, which one machine may have."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else address


def local_path(path: object) -> str:
    """Returns a path of this console; anything else is the first page: nobody is sent to another site."""
    if not isinstance(path, str) or not path.startswith("/") or path[1:2] in ("/", "\\"):
        return "/"
    return "/" if any(ord(char) < 0x20 for char in path) else path


async def form(request: Request) -> Response:
    """Shows the form."""
    if not sessions_of(request).options.sign_in:
        return RedirectResponse("/", 303)
    next_path = local_path(request.query_params.get("next"))
    return page(request, "sign_in.html", next=next_path, name="", failure="")


async def sign_in(request: Request) -> Response:
    """Logs in to the cluster as the user, and starts a session if that works."""
    sessions = sessions_of(request)
    if not sessions.options.sign_in:
        return RedirectResponse("/", 303)
    await check_csrf(request)
    fields = await request.form()
    name, password = str(fields.get("name", "")), str(fields.get("password", ""))
    next_path = local_path(fields.get("next"))
    failures = _failures(request)
    address = network_of(request.client.host if request.client is not None else "")

    def refused(failure: str, status: int) -> Response:
        return page(request, "sign_in.html", status=status, next=next_path, name=name, failure=failure)

    if failures.too_many(address):
        return refused(TOO_MANY, 429)
    access = ClusterAccess(
        sessions.options, name, sessions.options.security_of(name, password), sessions.threads
    )
    try:
        async with failures.slots:
            # Those that waited here began before the others had failed.
            if failures.too_many(address):
                access.close()
                return refused(TOO_MANY, 429)
            await access.admin(lambda admin: admin.describe_cluster())
    except AuthenticationError:
        access.close()
        failures.add(address)
        await asyncio.sleep(FAILURE_S)
        return refused("The cluster refused this name and password.", 403)
    except ClientError as error:
        access.close()
        return refused(f"The sign-in could not be checked: {error}", 502)
    sessions.sign_out(browser_of(request))
    request.state.browser = sessions.sign_in(access)
    return RedirectResponse(next_path, 303)


async def sign_out(request: Request) -> Response:
    """Ends the session."""
    await check_csrf(request)
    sessions = sessions_of(request)
    sessions.sign_out(browser_of(request))
    request.state.browser = sessions.new_id()
    return RedirectResponse("/sign-in" if sessions.options.sign_in else "/", 303)


async def theme(request: Request) -> Response:
    """Keeps light, dark, or the browser's choice in a cookie."""
    await check_csrf(request)
    fields = await request.form()
    wanted = str(fields.get("theme", ""))
    answer = RedirectResponse(local_path(fields.get("next")), 303)
    if wanted in THEMES:
        secure = request.url.scheme == "https"
        answer.set_cookie(
            THEME_COOKIE, wanted, max_age=_YEAR_S, httponly=True, samesite="strict", secure=secure
        )
    return answer


routes = [
    Route("/sign-in", form, methods=["GET"]),
    Route("/sign-in", sign_in, methods=["POST"]),
    Route("/sign-out", sign_out, methods=["POST"]),
    Route("/theme", theme, methods=["POST"]),
]
