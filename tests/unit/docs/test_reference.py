"""The reference has every row of the tables that it is generated from."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import bowstring
from bowstring.engine.api.table import TABLE
from bowstring.engine.configs import BROKER_CONFIGS, TOPIC_CONFIGS
from bowstring.engine.configs.table_groups import CLIENT_METRICS, GROUPS
from bowstring.protocol import API_VERSIONS
from bowstring.protocol.errors import Errors
from bowstring.schemas.avro.reader_writer import Kind
from bowstring.schemas.compatibility import LEVELS
from bowstring.schemas.json_schema.change_kinds import CHANGE_KINDS
from bowstring.schemas.protobuf.file_comparison import DESCRIPTIONS
from docs.generate import PAGES, client_settings, commands, python_api, render

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module", params=PAGES)
def page(request):
    return render(request.param)


def test_a_page_has_one_title_and_whole_tables(page):
    assert page.startswith("# ") and len(re.findall(r"^# ", page, re.M)) == 1
    cells = None
    for line in page.splitlines():
        if not line.startswith("|"):
            cells = None
            continue
        count = len(re.findall(r"(?<!\\)\|", line))
        assert cells in (None, count), line
        cells = count


def rows(page: str) -> list[str]:
    return [line for line in render(page).splitlines() if line.startswith("| ")]


def test_every_module_of_a_page_is_listed():
    helpers = {"__init__", "defaults", "markdown", "hooks", "nav", "links"}
    modules = {path.stem for path in (ROOT / "docs/generate").glob("*.py")} - helpers
    assert modules == set(PAGES.values())


def test_configs():
    found = [row for row in rows("reference/configs.md") if row.startswith("| `")]
    tables = (BROKER_CONFIGS, TOPIC_CONFIGS, GROUPS, CLIENT_METRICS)
    public = [key.name for table in tables for key in table.values() if not key.internal]
    assert sorted(row.split("`")[1] for row in found) == sorted(public)
    retention = next(row for row in found if row.startswith("| `retention.ms`"))
    assert "Broker default: `log.retention.ms`, `log.retention.minutes`, `log.retention.hours`." in retention


def test_compatibility_of_schemas():
    text = render("reference/schema-compatibility.md")
    changes = {*CHANGE_KINDS, *DESCRIPTIONS, *(kind.name for kind in Kind), *LEVELS}
    assert changes - {row.split("`")[1] for row in text.splitlines() if row.startswith("| `")} == set()
    assert "{" not in text


@pytest.mark.parametrize("names", client_settings.CLIENTS, ids=lambda names: names.client)
def test_client_settings(names):
    text = render("reference/client-settings.md")
    section = text[text.index(f"## {names.client}\n") :]
    section = section.partition("\n## ")[0]
    secured = text[text.index("## TLS and SASL\n") :]
    for row in names.rows.values():
        assert f"`{row.name}`" in (secured if row.argument == "security" else section)
        assert row.reason.replace("<", "&lt;") in section
    client = client_settings.CLIENTS[names]
    for argument in inspect.signature(client.__init__).parameters.values():
        if argument.name != "self" and argument.kind is not argument.VAR_KEYWORD:
            assert f"\n| `{argument.name}` |" in section


@pytest.mark.parametrize("client", client_settings.CLIENTS.values())
def test_every_argument_has_a_meaning(client):
    known = set(inspect.signature(client.__init__).parameters) - {"self", "kwargs"}
    assert not known - set(client_settings.argument_docs(client))


def test_meanings_of_arguments_come_from_docstrings():
    found = client_settings.argument_docs(bowstring.Consumer)
    assert found["group_id"] == "required to subscribe and to commit."
    assert found["key"] == found["value"] and "typed" in found["key"]


def test_apis():
    found = {int(row.split("|")[1]): row for row in rows("reference/apis.md") if row[2].isdigit()}
    assert set(found) == set(API_VERSIONS)
    assert {key for key, row in found.items() if "| no |" not in row} == set(TABLE)
    assert "| 0-13 | 9 | control | Lists the brokers" in found[3]
    assert "| 0-5 (6 unstable) | 2 |" in found[22] and "| 0-0 | never |" in found[47]
    assert "| native |" in found[0] and "| native |" in found[1]
    assert "| forwarded |" in found[43] and "| controller |" in found[52]


def test_permissions_of_apis():
    page = render("reference/apis.md")
    assert (
        "| JoinGroup |  |  | READ on GROUP: group_id | GROUP_AUTHORIZATION_FAILED: for the whole request |"
        in page
    )
    assert (
        "| ListGroups |  |  | DESCRIBE on CLUSTER or DESCRIBE on GROUP: groups.group_id (answer) | left out |"
        in page
    )
    assert (
        "| Fetch | controller |  | CLUSTER_ACTION on CLUSTER | CLUSTER_AUTHORIZATION_FAILED: for the w"
        in page
    )
    assert (
        "IDEMPOTENT_WRITE on CLUSTER or WRITE on TOPIC, any one | CLUSTER_AUTHORIZATION_FAILED: for" in page
    )


def test_messages():
    page = render("reference/messages.md")
    assert "| topics | []MetadataRequestTopic | 0+ | 1+ |  |  |" in page
    assert "| · topic_id | uuid | 10+ |  |  |  |" in page
    assert "| include_cluster_authorized_operations | bool | 8-10 |  |  |  |" in page
    assert "| cluster_id | string | 2+ | 2+ | null |  |" in page
    assert "| finalized_features_epoch | int64 | 3+ |  | -1 | 1 |" in page
    for key in API_VERSIONS:
        api = API_VERSIONS[key]
        assert f"\n## {api.name} ({api.key})\n" in page
        assert f"\n### {api.request.__name__}\n" in page and f"\n### {api.response.__name__}\n" in page


def test_errors():
    found = rows("reference/errors.md")[2:]
    assert len(found) == len(Errors.BY_CODE)
    for error in Errors.BY_CODE.values():
        retriable = "yes" if error.retriable else ""
        assert f"| {error.code} | `{error.name}` | {retriable} | " in "\n".join(found)


def test_metrics():
    """Each name that stands in the broker's source is on the page, with its unit and meaning."""
    page = render("reference/metrics.md")
    source = (ROOT / "engine/broker/metrics.py").read_text()
    names = set(re.findall(r'"(bowstring_[a-z_]+)"', source))
    names |= {
        f"bowstring_wal_{field}"
        for field in re.findall(r'^    \("([a-z_]+)", (?:Gauge|Counter)', source, re.M)
    }
    assert len(names) > 40
    assert not {name for name in names if not re.search(rf"`{name}(_total)?`", page)}
    assert "| `bowstring_topics` | gauge |  | Topics that the broker has. |" in page
    assert "`process_resident_memory_bytes`" in page


UNITS = {"seconds", "percent", "bytes"}


def test_a_metrics_meaning_is_clear_without_its_name():
    """It is read alone: in a dashboard, or as HELP beside a name."""
    meanings = {}
    for row in rows("reference/metrics.md")[2:]:
        _, name, kind, _, meaning, _ = re.split(r" ?(?<!\\)\| ?", row)
        if name.startswith("`bowstring_"):
            meanings[name.strip("`")] = meaning
            words = re.findall(r"\w+", meaning.lower())
            assert kind == "counter" or all(
                unit in words for unit in UNITS & {*name.strip("`").split("_")}
            ), name
            assert re.fullmatch(r"[A-Z].*\.", meaning) and len(meaning.split()) >= 4, name
            assert not re.search(r"\b(them|they|it|this|that)\.$", meaning), name
    assert len(meanings) > 40 and len(set(meanings.values())) == len(meanings)


def test_commands():
    page = render("reference/commands.md")
    paths = [path for path, _ in commands.commands()]
    assert {"bowstring serve", "bowstring topics create", "bowstring perf latency"} <= set(paths)
    for path, command in commands.commands():
        section = page[page.index(f"\n## {path}\n") :].split("\n## ")[1]
        assert command.help.split("\n")[0][:40] in section.replace("&lt;", "<")
        for option in command.params:
            for name in option.opts if option.param_type_name == "option" else ():
                assert name in section, (path, name)
    serve = page[page.index("## bowstring serve") :]
    assert "| `--durability` | `commit\\|os` |  | Acknowledge from the medium" in serve


def test_python_api():
    page = render("reference/python-api.md")
    for package in python_api.PACKAGES:
        for name in python_api.names(package):
            if name not in ("aio", "spark", "__version__"):
                assert f"::: {package}.{name}\n" in page or f"`{package}.{name}` is [" in page
    assert python_api.fixtures() == ["bowstring_broker", "bowstring_cluster", "bowstring_topic"]
