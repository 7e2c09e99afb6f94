"""The reference page of configs, from the table: one Markdown table for topics, one for brokers."""

from collections.abc import Iterable, Iterator

from bowstring.engine.configs.definition import TOPIC, ConfigKey
from bowstring.engine.configs.synonyms import TOPIC_SYNONYMS
from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS


def render() -> str:
    """The whole page as Markdown."""
    return "\n".join(
        (
            "# Configs",
            "",
            "A config marked *stored* is accepted, kept and reported, and has no effect yet.",
            "",
            "## Topics",
            "",
            *_table(TOPIC_CONFIGS.values()),
            "",
            "## Brokers",
            "",
            *_table(sorted(BROKER_CONFIGS.values(), key=lambda key: key.name)),
            "",
        )
    )


def _table(keys: Iterable[ConfigKey]) -> Iterator[str]:
    yield "| name | type | default | valid | changes | |"
    yield "|---|---|---|---|---|---|"
    for key in keys:
        if key.internal:
            continue
        default = "" if key.default is None else f"`{key.default}`" if key.default else "empty"
        valid = key.valid.replace("|", ", ")
        doc = key.doc if key.applied else f"*stored* {key.doc}"
        synonyms = TOPIC_SYNONYMS.get(key.name, ()) if key.update_mode == TOPIC else ()
        if synonyms:
            doc += f" Broker default: {', '.join(f'`{name}`' for name, _ in synonyms)}."
        yield f"| `{key.name}` | {key.type.name.lower()} | {default} | {valid} | {key.update_mode} | {doc} |"
