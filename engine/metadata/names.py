"""Checks names of topics."""

from typing import Final

from bowstring.protocol import records

MAX_TOPIC_NAME: Final = 249
METADATA_TOPIC: Final = records.METADATA_TOPIC
GROUPS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({GROUPS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC})

_LEGAL: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def topic_name_problem(name: str) -> str | None:
    """Returns why `name` cannot be a topic's name; None when it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_TOPIC_NAME:
        return f"the length of '{name}' is longer than the max allowed length {MAX_TOPIC_NAME}"
    if not _LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def unified(name: str) -> str:
    """Returns the name with characters replaced that metric names cannot distinguish. Two topics must not
    have the same unified name.
    """
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Returns whether the topic belongs to a coordinator."""
    return name in INTERNAL_TOPICS
