"""Shows transactional ids, open and hanging transactions; aborts those that hang."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.admin.results import PartitionProducer, TransactionDescription, TransactionListing
from bowstring.clients.errors import BrokerError, ClientError, ConfigError, UnsupportedApiError
from bowstring.clients.records import TopicPartition
from bowstring.console.cluster_access import ClusterAccess
from bowstring.console.cluster_facts import topics_of
from bowstring.console.paged import Paged
from bowstring.console.parts import part, why_missing, why_refused
from bowstring.console.rendering import page, quoted
from bowstring.console.sessions import access_of
from bowstring.console.writes import writes

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

STATES = (
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Empty",
    "PrepareEpochFence",
    "Dead",
)
OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort")
LIST_S = 2.0
NOW_S = 1.0
MINUTES = 15.0
PARTITIONS_MAX = 2_000
"""That one search for hanging transactions looks at."""
RIGHT = "DESCRIBE on the transactional id"
PRODUCERS_RIGHT = "READ on the topic"
ABORT_RIGHT = "CLUSTER_ACTION (or ALTER) on the cluster"


class TransactionRow(NamedTuple):
    """A transactional id. `refused`: why nothing more is known of it."""

    listing: TransactionListing
    description: TransactionDescription | None
    refused: str

    @property
    def is_late(self) -> bool:
        """Whether the transaction is open for longer than its timeout."""
        found = self.description
        if found is None or found.start_ms < 0 or found.state != "Ongoing":
            return False
        return time.time() * 1000 > found.start_ms + found.timeout_ms


def _rows(
    listings: Sequence[TransactionListing], described: Mapping[str, TransactionDescription | ClientError]
) -> list[TransactionRow]:
    found = []
    for each in listings:
        answer = described.get(each.transactional_id)
        if isinstance(answer, ClientError):
            found.append(TransactionRow(each, None, why_missing(answer, RIGHT)))
        else:
            found.append(TransactionRow(each, answer, ""))
    return found


async def list_transactions(request: Request) -> Response:
    """Shows transactional ids: filtered, 100 on a page; only those of the page are described."""
    access, given = access_of(request), request.query_params
    wanted, state = given.get("q", "").casefold(), given.get("state", "")
    listed = await part(
        access.cached(("transactions",), LIST_S, lambda admin: admin.list_transactions(), cost_max=0.1), RIGHT
    )
    fitting = [
        each
        for each in listed.value or []
        if wanted in each.transactional_id.casefold()
        and (not state or each.state == state or (state == "open" and each.state in OPEN))
    ]
    keys = {
        "id": lambda each: each.transactional_id,
        "state": lambda each: (each.state not in OPEN, each.state, each.transactional_id),
    }
    paged = Paged(request, fitting, keys)
    described = await access.cached(
        ("transactions now", tuple(each.transactional_id for each in paged.rows)),
        NOW_S,
        lambda admin: admin.describe_transactions(paged.rows),
    )
    return page(
        request,
        "transactions.html",
        paged=paged,
        rows=_rows(paged.rows, described),
        open_count=sum(each.state in OPEN for each in listed.value or []),
        missing=listed.missing,
        wanted=given.get("q", ""),
        state=state,
        states=STATES,
    )


async def show_transaction(request: Request) -> Response:
    """Shows one transactional id: its producer and the partitions of its transaction."""
    access, name = access_of(request), request.query_params.get("id", "")
    found = await part(access.admin(lambda admin: admin.describe_transaction(name)), RIGHT)
    return page(
        request, "transaction.html", id=name, found=found.value, missing=found.missing, open_states=OPEN
    )


async def find_hanging(request: Request) -> Response:
    """Searches the partitions of a topic, or of all, for transactions that no coordinator will end."""
    access, given = access_of(request), request.query_params
    topic, searched = given.get("topic", "").strip(), "minutes" in given
    minutes, failure, hanging, left_out = MINUTES, "", [], 0
    try:
        minutes = max(0.0, float(given.get("minutes") or MINUTES))
    except ValueError:
        failure, searched = "The age is not a number: write minutes, such as 15.", False
    if searched:
        topics = await topics_of(access)
        names = [topic] if topic else [name for name, info in topics.items() if not info.internal]
        if topic and topic not in topics:
            failure, names = f"There is no topic {topic!r}, or you lack the right DESCRIBE on it.", []
        partitions = [TopicPartition(name, number) for name in names for number in topics[name].partitions]
        left_out = max(0, len(partitions) - PARTITIONS_MAX)
        found = await part(_hanging(access, partitions[:PARTITIONS_MAX], minutes), PRODUCERS_RIGHT)
        hanging, failure = found.value or [], failure or found.missing
    return page(
        request,
        "transactions_hanging.html",
        topic=topic,
        minutes=f"{minutes:g}",
        searched=searched and not failure,
        hanging=hanging,
        failure=failure,
        left_out=left_out,
    )


async def _hanging(
    access: ClusterAccess, partitions: Sequence[TopicPartition], minutes: float
) -> list[PartitionProducer]:
    if not partitions:
        return []
    age_ms = int(min(minutes, 1e9) * 60_000)
    return await access.admin(lambda admin: admin.find_hanging_transactions(partitions, min_age_ms=age_ms))


async def ask_abort(request: Request) -> Response:
    """Shows what aborting a transaction means."""
    given = request.query_params
    fields = {name: given.get(name, "") for name in ("topic", "partition", "offset")}
    place = f"{fields['topic']}-{fields['partition']}"
    return page(
        request,
        "confirm_change.html",
        title=f"Abort the transaction in {place}?",
        text=f"Its records, which begin at offset {fields['offset']}, are never seen by readers of committed "
        "records. Only abort a transaction whose producer is gone: a producer that still runs fails.",
        action="/transactions/abort",
        fields=fields,
        button="Abort the transaction",
        back="/transactions/hanging",
    )


@writes
async def abort(request: Request) -> Response:
    """Aborts the open transaction that begins at an offset of a partition."""
    fields = await request.form()
    try:
        place = TopicPartition(str(fields.get("topic", "")), int(str(fields.get("partition", ""))))
        offset = int(str(fields.get("offset", "")))
    except ValueError:
        raise ConfigError("partition and offset must be numbers: search for the transaction again") from None

    def end(admin: Admin) -> None:
        for producer in admin.describe_producers([place])[place]:
            if producer.transaction_start_offset == offset:
                admin.abort_transaction(producer)
                return
        raise ConfigError(f"no open transaction of {place} begins at offset {offset}: it has ended meanwhile")

    try:
        await access_of(request).admin(end)
    except (BrokerError, ConfigError, UnsupportedApiError) as error:
        text, back = why_refused(error, ABORT_RIGHT), "/transactions/hanging"
        return page(request, "refused.html", status=400, text=text, back=back)
    return RedirectResponse(f"/transactions/hanging?topic={quoted(place.topic)}&minutes=0", 303)


routes = [
    Route("/transactions", list_transactions),
    Route("/transactions/one", show_transaction),
    Route("/transactions/hanging", find_hanging),
    Route("/transactions/abort", ask_abort),
    Route("/transactions/abort", abort, methods=["POST"]),
]
