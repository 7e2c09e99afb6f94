"""Checks a history: the actions and answers of clients against what readers see in the end."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

Place = tuple[str, int]


class Step(NamedTuple):
    """A line of a client's history."""

    event: str
    txn: str
    facts: Mapping[str, object]


class Seen(NamedTuple):
    """A record as a reader sees it."""

    offset: int
    value: str


def steps_of(paths: Iterable[Path]) -> list[Step]:
    """Reads histories; the last line of a client that was killed may be cut."""
    found = []
    for path in paths:
        for line in path.read_text().split("\n"):
            try:
                fields = json.loads(line)
            except ValueError:
                continue
            found.append(Step(fields.pop("event"), fields.pop("txn"), fields))
    return found


class Check:
    """The problems of a history.

    Args:
        steps: The actions of clients.
        committed: By partition: what read_committed shows.
        stored: By partition: what read_uncommitted shows.
        offsets: Of the copiers' group, by partition of the source.
    """

    def __init__(
        self,
        steps: list[Step],
        committed: Mapping[Place, list[Seen]],
        stored: Mapping[Place, list[Seen]],
        offsets: Mapping[int, int],
    ) -> None:
        self.committed, self.stored, self.offsets = committed, stored, offsets
        self.sent: dict[str, dict[Place, list[str]]] = defaultdict(lambda: defaultdict(list))
        self.told: dict[str, str] = {}
        self.copied: dict[str, tuple[int, int]] = {}
        for step in steps:
            if step.event == "sends":
                place = (str(step.facts["topic"]), int(str(step.facts["partition"])))
                self.sent[step.txn][place].append(str(step.facts["value"]))
            elif step.event == "offset":
                self.copied[step.txn] = (int(str(step.facts["partition"])), int(str(step.facts["offset"])))
            else:
                self.told[step.txn] = step.event

    def problems(self) -> list[str]:
        """Returns a line for each broken promise."""
        found = [*self._twice(), *self._odd(), *self._copies()]
        for txn, places in self.sent.items():
            found += self._of_transaction(txn, places)
        return found

    def _twice(self) -> Iterable[str]:
        for place, records in self.committed.items():
            for value, count in Counter(each.value for each in records).items():
                if count > 1:
                    yield f"duplicated: {place} shows {value!r} {count} times"

    def _odd(self) -> Iterable[str]:
        sent = {(place, value) for of in self.sent.values() for place, each in of.items() for value in each}
        for place, records in self.committed.items():
            stored = {each.offset: each.value for each in self.stored[place]}
            for each in records:
                if (place, each.value) not in sent:
                    yield f"unknown: {place} shows {each.value!r}, which nobody sent"
                if stored.get(each.offset) != each.value:
                    yield f"two readers see different records at {each.offset} of {place}"

    def _of_transaction(self, txn: str, places: Mapping[Place, list[str]]) -> Iterable[str]:
        told = self.told.get(txn)
        shown = {}
        for place, values in places.items():
            order = [each.value for each in self.committed[place] if each.value in set(values)]
            shown[place] = len(order)
            if order and [each for each in values if each in set(order)] != order:
                yield f"reordered: {place} shows {order} of {txn}, sent as {values}"
        total, wanted = sum(shown.values()), sum(len(each) for each in places.values())
        if told == "committed" and total < wanted:
            yield f"lost: {txn} was committed, and {total} of {wanted} records are visible: {shown}"
        elif told in ("aborted", "aborts") and total:
            yield f"aborted and read: {txn} shows {shown}"
        elif 0 < total < wanted:
            yield f"partially visible: {txn} shows {shown} of {wanted} ({told})"

    def _copies(self) -> Iterable[str]:
        for partition, offset in self.offsets.items():
            source = [each.offset for each in self.committed["source", partition] if each.offset < offset]
            copies = [int(each.value.split(" ")[1]) for each in self.committed["target", partition]]
            if copies != sorted(copies):
                yield f"copies of source-{partition} are not in order: {copies}"
            elif missing := sorted(set(source) - set(copies)):
                yield f"offset without records: source-{partition} is at {offset}, not copied are {missing}"
            elif more := sorted(set(copies) - set(source)):
                yield f"records without offset: source-{partition} is at {offset}, copied are {more}"
