"""One request: its parameters, its body, who sent it, and answers to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from bowstring.protocol.whole_numbers import whole_number
from bowstring.rest.answer import JSON, Answer, Receive, Scope
from bowstring.rest.callers import Caller, Callers
from bowstring.rest.client_failure import bad_request, not_found
from bowstring.rest.links import Links
from bowstring.web.http_error import HttpError
from bowstring.web.limits import header, read_body

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

T = TypeVar("T")

INT32_MAX = (1 << 31) - 1
QUERY_PARTS_MAX = 100
PAGE_SIZE_MAX = 100_000
JSON_TYPES = (b"application/json", b"application/vnd.api+json", b"*/*")


class Call:
    """One request.

    Args:
        scope, receive: of ASGI.
        path: parameters of the path.
        caller: who sent it.
        callers: everybody; counts streams.

    Attributes:
        scope, receive, path, caller, callers: as given.
        options: of the proxy.
        query: parameters of the query.
        links: makes addresses.
    """

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        path: dict[str, str],
        caller: Caller,
        callers: Callers,
    ):
        self.scope, self.receive = scope, receive
        self.path, self.caller, self.callers, self.options = path, caller, callers, callers.options
        try:
            pairs = parse_qsl(
                scope["query_string"].decode("latin-1"),
                keep_blank_values=True,
                errors="strict",
                max_num_fields=QUERY_PARTS_MAX,
            )
        except ValueError:
            raise bad_request("the query of the address cannot be read") from None
        self.query = dict(pairs)
        server = scope.get("server") or ("localhost", None)
        otherwise = server[0] if server[1] is None else f"{server[0]}:{server[1]}"
        host = header(scope["headers"], b"host") or b""
        self.links = Links(scope["scheme"], host.decode("latin-1"), otherwise, scope.get("root_path", ""))

    # ------------------------------------------------------------ the cluster

    async def admin(self, function: Callable[..., T], *arguments: Any) -> T:
        """Runs `function(admin, *arguments)` in a thread, after a check that the path names this cluster.

        Raises:
            HttpError: 404, it names another one.
            ClientError: the cluster cannot be reached, or refuses.
        """
        await self.check_cluster()
        return await self.caller.admin(function, *arguments)

    async def check_cluster(self) -> str:
        """Returns the id of the cluster.

        Raises:
            HttpError: 404, the path names another one.
        """
        found = self.caller.cluster_id
        if found is None:
            found = self.caller.cluster_id = await self.caller.admin(_cluster_id)
        wanted = self.path.get("cluster_id", found)
        if wanted != found:
            raise not_found(f"Cluster {wanted} cannot be found.")
        return found

    # ------------------------------------------------------------ the request

    def number(self, name: str) -> int:
        """Returns a parameter of the path that is a number of 32 bits.

        Raises:
            HttpError: 404, it is none.
        """
        found = whole_number(self.path[name], INT32_MAX)
        if found is None:
            raise not_found(f"HTTP 404 Not Found: {name} in the path must be a number")
        return found

    def flag(self, name: str) -> bool:
        """Returns a parameter of the query that is true or false; false without it.

        Raises:
            HttpError: 400, it is neither.
        """
        text: str = self.query.get(name, "false").casefold()
        if text not in ("true", "false"):
            raise bad_request(f"{name} must be true or false")
        return text == "true"

    async def body(self, kind: type[T]) -> T:
        """Returns the body of the request, JSON of this shape.

        Raises:
            HttpError: 415, 413, 42206 without a body, 400 if it is of another shape.
        """
        self.check_media(JSON_TYPES)
        data = await read_body(self.scope, self.receive, self.options.request_bytes_max)
        if not data.strip():
            raise HttpError(422, 42206, "Payload error. The body of the request is empty; data is required.")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise bad_request(f"the body of the request is wrong: {error}") from None

    def check_media(self, kinds: Sequence[bytes]) -> None:
        """Refuses a body of another type.

        Raises:
            HttpError: 415.
        """
        given = (header(self.scope["headers"], b"content-type") or b"*/*").partition(b";")[0].strip().lower()
        if given not in kinds:
            shown = given.decode("latin-1")
            raise HttpError(415, 415, f"HTTP 415 Unsupported Media Type: {shown}; use {kinds[0].decode()}")

    # ------------------------------------------------------------ answers

    def json(self, value: Any, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
        """Returns an answer with a JSON body."""
        return Answer(status, msgspec.json.encode(value), (JSON, *headers))

    def nothing(self) -> Answer:
        """Returns an answer without a body."""
        return Answer(204, headers=())

    def collection(self, kind: str, self_link: str, rows: Iterable[Any], row: Callable[[Any], Any]) -> Answer:
        """Returns a list of resources, or a page of it if the query has page_size.

        Args:
            kind: of the list.
            self_link: its address.
            rows: all of them, in order.
            row: makes the resource of a row that is on the page.
        """
        chosen, following = self._page(list(rows), self_link)
        return self.json(
            {
                "kind": kind,
                "metadata": {"self": self_link, "next": following},
                "data": [row(each) for each in chosen],
            }
        )

    def _page(self, rows: list[Any], self_link: str) -> tuple[list[Any], str | None]:
        if "page_size" not in self.query:
            return rows, None
        size = whole_number(self.query["page_size"], PAGE_SIZE_MAX)
        begin = whole_number(self.query.get("page_token", "0"), INT32_MAX)
        if not size or begin is None:
            raise bad_request(f"page_size must be 1 to {PAGE_SIZE_MAX}, and page_token one of a link `next`")
        end = begin + size
        if end >= len(rows):
            return rows[begin:], None
        kept = {name: value for name, value in self.query.items() if name != "page_token"}
        return rows[begin:end], f"{self_link.partition('?')[0]}?{urlencode({**kept, 'page_token': end})}"


def _cluster_id(admin: Admin) -> str:
    return admin.describe_cluster().cluster_id
