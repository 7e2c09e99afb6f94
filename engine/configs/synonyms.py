"""Finds the broker configs that set the default of a topic config, and the other names of a broker config."""

from collections.abc import Mapping

from bowstring.engine.configs.config_key import BrokerConfig, ConfigKey
from bowstring.engine.configs.table_topics import TOPICS


def families(topics: Mapping[str, ConfigKey]) -> dict[str, tuple[str, ...]]:
    """Returns the names in a topic config's row for each broker config that derives from it.

    They fall back to one another in this order. A broker config with its own row is not among the keys.
    """
    return {
        each.name: tuple(other.name for other in key.set_by)
        for key in topics.values()
        for each in key.set_by
        if each.differences is not None
    }


FAMILIES = families(TOPICS)


def topic_synonyms(name: str) -> tuple[BrokerConfig, ...]:
    """Returns the broker configs that set the default of topic config `name`, in order of precedence."""
    key = TOPICS.get(name)
    return key.set_by if key is not None else ()


def broker_synonyms(name: str) -> tuple[str, ...]:
    """Returns the names that decide the value of broker config `name`, including itself."""
    if name.startswith("listener.name."):  # without a SASL mechanism, as in Kafka's answers
        return (name, name.split(".", 3)[-1])
    return FAMILIES.get(name, (name,))
