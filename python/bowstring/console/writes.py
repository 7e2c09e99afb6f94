"""Protects the handlers that change something: only with --write, and only from the console's own forms."""

from __future__ import annotations

import functools
import hmac
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bowstring.console.sessions import access_of, browser_of, sessions_of

Handler = Callable[[Request], Awaitable[Response]]
CSRF_FIELD = "csrf_token"
CSRF_HEADER = "x-csrf-token"


async def check_csrf(request: Request) -> None:
    """Checks that a request comes from a form of this browser: its field `csrf_token`, or X-CSRF-Token.

    Raises:
        HTTPException: 403; it does not.
    """
    given = request.headers.get(CSRF_HEADER)
    if given is None:
        found = (await request.form()).get(CSRF_FIELD)
        given = found if isinstance(found, str) else ""
    expected = sessions_of(request).csrf_token(browser_of(request))
    if not hmac.compare_digest(given.encode(), expected.encode()):
        raise HTTPException(403, "the form has expired, or comes from another site: load the page again")


def writes(handler: Handler) -> Handler:
    """Decorates a handler of POST that changes the cluster.

    It is answered by 403 if the console runs without --write, or the form has no valid token.
    """

    @functools.wraps(handler)
    async def checked(request: Request) -> Response:
        if not access_of(request).writes:
            raise HTTPException(403, "this console is read-only: start it with --write to change the cluster")
        await check_csrf(request)
        return await handler(request)

    return checked
