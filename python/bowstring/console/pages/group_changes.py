"""Changes groups: resets offsets after a preview, deletes groups, removes members."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.errors import BrokerError, ClientError, ConfigError, UnsupportedApiError
from bowstring.clients.records import TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.parts import why_refused
from bowstring.console.rendering import page, quoted
from bowstring.console.sessions import access_of
from bowstring.console.writes import writes
from bowstring.operations.group_offsets import OffsetChange, Offsets, OffsetWay

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

WAYS = (
    ("earliest", "to the first record"),
    ("latest", "to the end: only new records"),
    ("time", "to the first record since a time"),
    ("offset", "to an offset"),
    ("shift", "by a number of records, forth or back"),
)
ROWS_MAX = 2_000
RESET_RIGHT = "READ on the group and on its topics"


class Preview(NamedTuple):
    """What a reset would change. `members`: how many are in the group, which must be none for a reset."""

    old: Offsets
    new: Offsets
    members: int

    def rows(self) -> list[tuple[TopicPartition, int | None, int]]:
        """Returns partitions with the old and the new offset."""
        return [(each, self.old.get(each), offset) for each, offset in self.new.items()]


def offset_way(way: str, value: str) -> OffsetWay:
    """Returns how the fields of the form find offsets.

    Args:
        way: one of WAYS.
        value: a number; a time as `2026-11-30T12:00` (UTC without a zone).

    Raises:
        ConfigError: the value does not fit.
    """
    if way in ("earliest", "latest"):
        return OffsetWay(earliest=way == "earliest", latest=way == "latest")
    if way == "time":
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise ConfigError(f"{value!r} is not a time: write 2026-11-30T12:00, in UTC") from None
        at = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        # negative timestamps mean other things, such as the end
        return OffsetWay(at_ms=max(0, int(at.timestamp() * 1000)))
    if way not in ("offset", "shift"):
        raise ConfigError(f"{way!r} is not a way to reset: choose one of the list")
    try:
        number = int(value)
    except ValueError:
        raise ConfigError(f"{value!r} is not a whole number") from None
    return OffsetWay(offset=number) if way == "offset" else OffsetWay(shift=number)


async def _preview(access: ClusterAccess, group: str, way: OffsetWay, topic: str) -> Preview:
    def find(admin: Admin) -> Preview:
        change = OffsetChange(admin, group)
        old = change.stored()
        return Preview(old, change.find(old, [(topic, None)] if topic else [], way), change.members)

    return await access.admin(find)


async def show_reset(request: Request) -> Response:
    """Shows the form to reset offsets, and what it would change if a way is chosen. Changes nothing."""
    access, given = access_of(request), request.query_params
    group, way, value = given.get("name", ""), given.get("way", ""), given.get("value", "").strip()
    topic = given.get("topic", "").strip()
    preview, failure = None, ""
    if way:
        try:
            preview = await _preview(access, group, offset_way(way, value), topic)
        except (BrokerError, ConfigError, UnsupportedApiError) as error:
            failure = _without_options(why_refused(error, RESET_RIGHT))
    return page(
        request,
        "group_reset.html",
        group=group,
        way=way,
        value=value,
        topic=topic,
        ways=WAYS,
        preview=preview,
        rows=preview.rows()[:ROWS_MAX] if preview is not None else [],
        lines=offset_lines(preview.new) if preview is not None else "",
        failure=failure,
    )


def _without_options(text: str) -> str:
    """Returns an error of the command line's words in those of the form."""
    return text.replace("name topics with --topic", "name a topic")


@writes
async def reset(request: Request) -> Response:
    """Stores exactly the offsets that the preview showed."""
    fields = await request.form()
    group = str(fields.get("name", ""))
    offsets = parse_offsets(str(fields.get("offsets", "")))

    def store(admin: Admin) -> None:
        OffsetChange(admin, group).make(offsets)

    return await _changed(request, group, store, RESET_RIGHT)


def offset_lines(offsets: Offsets) -> str:
    """Returns offsets as text of a hidden field: one `partition offset topic` a line."""
    return "\n".join(f"{each.partition} {offset} {each.topic}" for each, offset in offsets.items())


def parse_offsets(lines: str) -> Offsets:
    """Reverses offset_lines.

    Raises:
        ConfigError: a line is something else.
    """
    found = {}
    for line in lines.splitlines():
        try:
            number, offset, topic = line.split(" ", 2)
            found[TopicPartition(topic, int(number))] = int(offset)
        except ValueError:
            raise ConfigError("the form has no offsets that can be read: preview the reset again") from None
    if not found:
        raise ConfigError("there are no offsets to store: preview the reset first")
    return found


async def _changed(
    request: Request, group: str, change: Callable[[Admin], None], right: str, to: str = ""
) -> Response:
    """Makes a change, and leads to the group, or says why there was none."""
    access = access_of(request)
    try:
        await access.admin(change)
    except (BrokerError, ConfigError, UnsupportedApiError) as error:
        back = f"/groups/one?name={quoted(group)}"
        return page(request, "refused.html", status=_status(error), text=why_refused(error, right), back=back)
    access.forget("groups")
    access.forget("groups now")
    return RedirectResponse(to or f"/groups/one?name={quoted(group)}", 303)


def _status(error: ClientError) -> int:
    return 403 if "AUTHORIZATION" in getattr(error, "name", "") else 400


async def ask_delete(request: Request) -> Response:
    """Shows what deleting a group means."""
    group = request.query_params.get("name", "")
    return page(
        request,
        "confirm_change.html",
        title=f"Delete group {group}?",
        text="Its stored offsets are lost: members that come later begin where their settings say. A group "
        "with members cannot be deleted: stop them first.",
        action="/groups/one/delete",
        fields={"name": group},
        button="Delete the group",
        back=f"/groups/one?name={quoted(group)}",
    )


@writes
async def delete(request: Request) -> Response:
    """Deletes a group without members."""
    group = str((await request.form()).get("name", ""))
    return await _changed(
        request, group, lambda admin: admin.delete_groups([group]), "DELETE on the group", "/groups"
    )


async def ask_remove(request: Request) -> Response:
    """Shows what removing a member means."""
    group, member = request.query_params.get("name", ""), request.query_params.get("member", "")
    return page(
        request,
        "confirm_change.html",
        title=f"Remove a member of {group}?",
        text=f"Member {member} leaves the group, and the others get its partitions. A client that still runs "
        "joins again.",
        action="/groups/one/remove",
        fields={"name": group, "member": member},
        button="Remove the member",
        back=f"/groups/one?name={quoted(group)}",
    )


@writes
async def remove(request: Request) -> Response:
    """Removes a member of a classic group."""
    fields = await request.form()
    group, member = str(fields.get("name", "")), str(fields.get("member", ""))

    def leave(admin: Admin) -> None:
        admin.remove_members(group, [member], reason="removed with the console")

    return await _changed(request, group, leave, "READ on the group")


routes = [
    Route("/groups/one/reset", show_reset),
    Route("/groups/one/reset", reset, methods=["POST"]),
    Route("/groups/one/delete", ask_delete),
    Route("/groups/one/delete", delete, methods=["POST"]),
    Route("/groups/one/remove", ask_remove),
    Route("/groups/one/remove", remove, methods=["POST"]),
]
