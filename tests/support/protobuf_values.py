"""Random Protobuf messages, and their content as plain Python values."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

from tests.support.protobuf_messages import REPEATED, M

RANGES = {
    3: (-(2**63), 2**63 - 1),
    4: (0, 2**64 - 1),
    5: (-(2**31), 2**31 - 1),
    6: (0, 2**64 - 1),
    7: (0, 2**32 - 1),
    13: (0, 2**32 - 1),
    15: (-(2**31), 2**31 - 1),
    16: (-(2**63), 2**63 - 1),
    17: (-(2**31), 2**31 - 1),
    18: (-(2**63), 2**63 - 1),
}

MAPS = ("mp", "mm", "me")


def random_message(r: random.Random) -> Any:
    message = M()

    def often() -> bool:
        return r.random() < 0.6

    def fill(inner: Any) -> None:
        if often():
            inner.x = r.randint(-5, 5)
        inner.s.extend("ab"[: r.randint(0, 2)] for _ in range(r.randint(0, 2)))
        if often():
            inner.big = r.randint(-(2**40), 2**40)

    for kind, (least, most) in RANGES.items():
        if often():
            setattr(message, f"f{kind}", r.choice([0, 1, least, most, r.randint(least, most)]))
    singles = {"f1": r.random(), "f2": float(r.randint(-9, 9)), "f8": often(), "f9": "é" * r.randint(0, 3)}
    singles |= {"f12": r.randbytes(2), "e": r.choice([0, 1, 7, 99, -3]), "opt": r.choice([0, 4])}
    for name, value in singles.items():
        if often():
            setattr(message, name, value)
    makers = {1: r.random, 8: often, 9: lambda: "q" * r.randint(0, 2), 14: lambda: r.choice([0, 1, 7, 5])}
    for kind in REPEATED:
        make = makers.get(kind, lambda: r.randint(0, 99))
        getattr(message, f"r{kind}").extend(make() for _ in range(r.choice([0, 0, 1, 3])))
    if often():
        message.inner.SetInParent()
        fill(message.inner)
    for _ in range(r.choice([0, 2])):
        fill(message.inners.add())
    choice = r.randint(0, 3)
    if choice == 1:
        message.c1 = "c"
    elif choice == 2:
        fill(message.c2)
        message.c2.SetInParent()
    elif choice == 3:
        message.c3 = 0
    for i in range(r.choice([0, 2])):
        message.mp[f"k{i}"] = r.choice([0, 5])
        fill(message.mm[f"k{i}"])
        message.me[f"k{i}"] = r.choice([0, 7])
    if often():
        message.ts.seconds, message.ts.nanos = r.randint(-(10**9), 10**10), r.randint(0, 999999) * 1000
        message.wi.value = r.choice([0, 5])
        message.ws.value = r.choice(["", "w"])
        sign = r.choice([-1, 1])
        message.du.seconds, message.du.nanos = sign * r.randint(0, 100), sign * r.randint(0, 999999) * 1000
    return message


def plain_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known else str(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        span = dt.timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + span if name.endswith("Timestamp") else span
    return value.value if name.startswith("google.protobuf.") else plain(value)


def plain(message: Any) -> dict[str, Any]:
    """Converts a message, as the protobuf package reads it, to the form of Arrow's rows."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.name in MAPS:
            of = field.message_type.fields_by_name["value"]
            row[field.name] = {key: plain_value(of, each) for key, each in value.items()}
        elif field.is_repeated:
            row[field.name] = [plain_value(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = plain_value(field, value)
    return row


MESSAGES = [random_message(random.Random(seed)) for seed in range(300)]
VALUES = [message.SerializeToString() for message in MESSAGES]
