"""The setting types that type checkers see agree with what clients accept."""

from typing import get_args

import pytest

from bowstring._native.record.compression import CODECS
from bowstring.clients import choices
from bowstring.clients.config import aliases
from bowstring.clients.config.client import ADMIN, CONSUMER, SHARE_CONSUMER
from bowstring.clients.producer.config import ACKS, PRODUCER
from bowstring.clients.producer.partitioner import PARTITIONERS


@pytest.mark.parametrize(
    ("table", "typed"),
    [
        (PRODUCER, aliases.ProducerAliases),
        (CONSUMER, aliases.ConsumerAliases),
        (SHARE_CONSUMER, aliases.ShareConsumerAliases),
        (ADMIN, aliases.AdminAliases),
    ],
)
def test_keywords_of_other_clients_are_typed(table, typed):
    names = {row.name.replace(".", "_") for row in table.rows.values() if row.argument}
    assert set(typed.__annotations__) == names - set(table.settings)


def test_words_are_those_that_clients_know():
    assert get_args(choices.Compression) == tuple(CODECS)
    assert {str(each) for each in get_args(choices.Acks)} == set(ACKS)
    assert set(get_args(choices.Partitioner)) == set(PARTITIONERS)
