"""Renders the page of broker, topic and group configs from the tables in `engine/configs`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bowstring.engine.configs.config_key import ConfigKey
from bowstring.engine.configs.table import BROKER_CONFIGS, TOPIC_CONFIGS
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from docs.generate.markdown import code, plain, table

HEAD = """\
# Configs

The broker reads them from a `server.properties` or a TOML file (`--config`), from `--set NAME=VALUE`, and
from the `config` argument of `bowstring.Broker`. Those that may change while it runs are changed with
`bowstring configs alter`.

- **stored**: the config is accepted, kept and reported. It has no effect yet.
- **refused**: the config asks for a protection that is not implemented yet. No broker starts with it,
  unless its value means off.

The column *changes* says how a config changes: `read-only` at a restart, `per-broker` and `cluster-wide`
while the broker runs.
"""


def render() -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for title, keys in (
        ("Brokers", sorted(BROKER_CONFIGS.values(), key=lambda key: key.name)),
        ("Topics", TOPIC_CONFIGS.values()),
        ("Groups", GROUPS.values()),
        ("Client metrics subscriptions", CLIENT_METRICS.values()),
    ):
        lines += [f"## {title}", *_table(keys)]
    return "\n".join(lines)


def _table(keys: Iterable[ConfigKey]) -> Iterator[str]:
    columns = ("name", "type", "default", "valid", "changes", "meaning")
    return table(columns, (_row(key) for key in keys if not key.internal))


def _row(key: ConfigKey) -> tuple[str, ...]:
    default = "" if key.default is None else code(key.default) if key.default else "empty"
    mark = "" if key.applied else "**refused** " if key.effect.lacking else "**stored** "
    doc = mark + plain(key.doc)
    if key.set_by:
        doc += f" Broker default: {', '.join(code(each.name) for each in key.set_by)}."
    valid = key.valid.replace("|", ", ")
    return code(key.name), key.type.name.lower(), default, valid, key.update_mode, doc
