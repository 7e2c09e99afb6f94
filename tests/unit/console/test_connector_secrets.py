"""Secrets in the configs of connectors: no page, preview, error or trace shows them, or a part of them."""

import html
import json
import random
import re
import string
import time

import pytest
from starlette.testclient import TestClient

from bowstring.clients.errors import ConfigError
from bowstring.console.app import create_app
from bowstring.console.connect import connect_cluster
from bowstring.console.connect.config_secrets import masked, shown_value, unmasked
from bowstring.console.connect.secret_search import SecretSearch
from bowstring.console.options import ConsoleOptions
from tests.support.connect_double import CLASS, connect_double
from tests.support.console_patience import be_patient

FORMS = {
    "connection.url": "jdbc:postgresql://db/x?user=sa&password={}",
    "db.url": "jdbc:sqlserver://h:1433;databaseName=shop;user=sa;password={};encrypt=true",
    "oracle.url": "jdbc:oracle:thin:scott/{}@//h:1521/x",
    "connection.string": "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey={}",
    "cosmos": "AccountEndpoint=https://x:443/;AccountKey={}==;",
    "libpq": "host=db user=sa password={}",
    "http.headers": "Authorization: Bearer {}",
    "extra": "X-Api: {}",
    "keyfile": '{{"private_key": "-----BEGIN\\n{}", "type": "x"}}',
    "inner": '{{"a": {{"password": "{}"}}}}',
    "vault.secret.id": "{}",
    "db.credentials.source": "{}",
    "tokens": "a,{}",
    "pw.type": "{}",
    "repository": "https://{}@host/",
    "mongo": "mongodb://u:{}@h1:27017,h2:27017/shop?w=1",
    "several": "http://u:{0}@a:1,http://v:{0}@b:2",
    "hook": "https://hooks.example.com/services/T0/B0/{}",
    "hook.query": "https://hooks.example.com/?sig={}#x",
    "hook.at": "https://hooks.example.com/a@{}",
    "transforms.enc.config": '{{"password":"{}"}}',
    "transforms.enc.regex": "password={}",
    "producer.override.sasl.jaas.config": 'x.Login required username="u" password="{}";',
    "value.converter.basic.auth.user.info": "u:{}",
    "pin": "{}",
}
PLAIN = {
    "file": "/var/log/in.txt",
    "mode": "incrementing",
    "query": "SELECT id, name FROM orders",
    "table.whitelist": "orders,customers",
    "connection.user": "scott",
    "brokers": "a:9092,b:9092",
    "place": "jdbc:postgresql://db:5432/shop",
    "schema.url": "http://registry:8081/apis/ccompat/v7",
    "ssl.keystore.location": "/etc/x.jks",
    "batch.max.rows": "100",
    "validate.non.null": "false",
}
OWN = {
    "tasks.max": "4",
    "topics": "orders,user-tokens",
    "topics.regex": "shop-.*",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "errors.tolerance": "all",
    "transforms": "r",
    "transforms.r.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.r.regex": "(.*)-(.*)",
    "transforms.r.replacement": "$1",
    "producer.override.compression.type": "lz4",
}
DECLARED = dict.fromkeys((*PLAIN, *FORMS), "STRING") | {"most": "LONG", "pin": "PASSWORD"}


def planted(chance):
    """Returns a config with secrets in it, its types, the secrets, and their parts that must not be seen."""

    def part():
        return "Zq" + "".join(chance.choices(string.ascii_letters + string.digits, k=chance.randint(5, 30)))

    config, secrets, parts = dict(PLAIN) | OWN, [], []
    for name in chance.sample(sorted(FORMS), 8):
        secret = [part() for _ in range(chance.randint(1, 3))]
        parts += secret
        secrets.append(chance.choice("/+-_.!~@:").join(secret))
        config[name] = FORMS[name].format(secrets[-1])
    kept = {name: kind for name, kind in DECLARED.items() if chance.random() < 0.6 or name in ("most", "pin")}
    return config, chance.choice([DECLARED, kept, None]), secrets, parts


@pytest.mark.parametrize("seed", range(150))
def test_no_part_of_a_secret_is_shown(seed):
    chance = random.Random(seed)
    config, types, secrets, parts = planted(chance)
    shown = masked(config, types)
    assert not [each for each in parts if each in json.dumps(shown)], shown
    assert unmasked(shown, config, types) == config
    cut = chance.randint(10, 400)
    values = [*config.values(), *secrets]
    text = " ".join(chance.choice(values) for _ in range(20))
    found = SecretSearch((config, types)).without_secrets(text, cut)
    assert not [each for each in parts if each[:5] in found], found


def test_harmless_settings_are_shown():
    assert masked(PLAIN | OWN, DECLARED) == dict(sorted((PLAIN | OWN).items()))
    assert masked(OWN, None) == dict(sorted(OWN.items()))
    assert set(masked(PLAIN, None).values()) == {"[hidden]"}
    assert shown_value("password", "${file:/run/x:pw}", None) == "${file:/run/x:pw}"
    assert shown_value("topics", "orders", {"topics": "PASSWORD"}) == "[hidden]"
    assert masked({"x.code": "123456", "x.wait.ms": "10", "x.on": "true", "x": "ab"}, {}) == {
        "x": "[hidden]",
        "x.code": "[hidden]",
        "x.on": "true",
        "x.wait.ms": "10",
    }
    for name, shown in {
        "connection.url": "jdbc:postgresql://db/x?[hidden]",
        "db.url": "jdbc:sqlserver://h:1433;databaseName=shop;[hidden];encrypt=true",
        "oracle.url": "jdbc:oracle:thin:[hidden]@//h:1521/x",
        "repository": "https://[hidden]@host/",
        "mongo": "mongodb://[hidden]@h1:27017,h2:27017/shop?[hidden]",
        "hook": "https://hooks.example.com/[hidden]",
    }.items():
        assert shown_value(name, FORMS[name].format("hunter2"), DECLARED | {"hook": "STRING"}) == shown


def test_what_is_hidden_goes_over_to_nothing_else():
    held = {"connector.class": "a.B", "url": "mongodb://u:p@h/", "note": "x"}
    shown = masked(held, None)
    assert unmasked(shown | {"note": "y"}, held, {"url": "STRING"}) == held | {"note": "y"}
    assert unmasked(held | {"url": "mongodb://[hidden]@h/"}, held, None) == held
    for change in (
        {"connector.class": "c.D"},
        {"connector.plugin.version": "2"},
        {"url": "mongodb://[hidden]@h2/"},
        {"renamed": "[hidden]"},
    ):
        with pytest.raises(ConfigError, match=r"\[hidden\] stands in .*: type the whole value"):
            unmasked(shown | change, held, {"url": "STRING"})


def test_texts_of_a_hostile_connect_take_no_time():
    began = time.process_time()
    many = {f"password{number}": f"value{number}" for number in range(20_000)}
    assert SecretSearch((many, {})).without_secrets("x" * 8_000) == "[hidden]"
    search = SecretSearch(({"password": "aaaa", "key": "-----BEGIN\n" + "ab/c=" * 10_000}, {}))
    texts = ("a" * 60_000, "a://" * 15_000, "a://b:" * 10_000, "://:@" * 10_000, ":" * 60_000, "a=;" * 20_000)
    for text in (*texts, 'token="' * 9_000, "password" * 8_000, "a,b:" * 16_000, "jdbc:a:" + "@/" * 30_000):
        search.without_secrets(text * 10)
        SecretSearch().without_secrets(text * 10)
        SecretSearch(({"note": text}, {}))
        for name in ("note", "transforms.a.regex", "transforms.a.fields", "topics"):
            masked({name: text, "key" * 1_000: text}, {"note": "STRING"})
    assert masked({"note": "x" * 70_000}, {"note": "STRING"}) == {"note": "[hidden]"}
    assert time.process_time() - began < 20


@pytest.fixture
def connect():
    with connect_double() as double:
        yield double


@pytest.fixture
def pages(connect, monkeypatch):
    be_patient(monkeypatch)
    options = ConsoleOptions("127.0.0.1:1", connect_urls=(connect.url,), timeout_s=0.2, write=True)
    with TestClient(create_app(options), base_url="http://localhost:8080", follow_redirects=False) as client:
        yield client


def form(page):
    """Returns the fields of the form of a config as a browser sends them."""
    found = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
    area = re.search(r"<textarea[^>]*>(.*?)</textarea>", page.text, re.DOTALL)[1]
    return {name: html.unescape(value) for name, value in found.items()} | {"config": html.unescape(area)}


def changed(fields, **config):
    return fields | {"config": json.dumps(json.loads(fields["config"]) | config)}


@pytest.mark.parametrize("seed", range(6))
def test_no_page_preview_error_or_trace_shows_a_secret(pages, connect, seed):
    chance = random.Random(seed)
    config, types, secrets, parts = planted(chance)
    connect.definitions = types
    connect.add("lines", **config)
    values = [*config.values(), *secrets]
    chance.shuffle(values)
    connect.traces["lines"] = "x" * (7_990 - 10 * seed) + "\n".join(values)
    connect.said = "y" * 3_995 + " ".join(values)

    def shown(page, status=200):
        assert page.status_code == status, page.text
        text = html.unescape(page.text)
        assert not [each for each in parts if each[:5] in text], text
        return text

    text = shown(pages.get("/connectors/one?name=lines"))
    assert ("Without the types" in text) == (types is None) and "RegexRouter" in text
    asked = pages.get("/connectors/config?name=lines")
    fields = form(asked)
    assert shown(asked) and "no number" in shown(
        pages.post("/connectors/config", data=changed(fields, most="x")), 400
    )
    shown(pages.post("/connectors/config", data=changed(fields, most="7")))
    done = pages.post("/connectors/config", data=changed(fields, most="7") | {"confirmed": "1"})
    assert done.status_code == 303
    assert connect.configs["lines"] == {"name": "lines", "connector.class": CLASS, **config, "most": "7"}


def test_types_that_were_missing_are_read_again(pages, connect, monkeypatch):
    monkeypatch.setattr(connect_cluster, "FAILED_S", 0.0)
    connect.add("lines", most="7", **{"connector.plugin.version": "[1.0,2)"})
    connect.definitions = None
    assert ">7<" not in pages.get("/connectors/one?name=lines").text
    connect.definitions = {"most": "LONG"}
    assert ">7<" in pages.get("/connectors/one?name=lines").text
    assert connect.requests.count(f"GET /connector-plugins/{CLASS}/config?version=%5B1.0%2C2%29") == 2


def test_a_secret_does_not_go_to_another_class_or_to_a_new_connector(pages, connect):
    connect.add("lines", topic="orders", pin="hunter22")
    before = dict(connect.configs["lines"])
    fields = form(pages.get("/connectors/config?name=lines")) | {"confirmed": "1"}
    for change in ({"connector.class": "org.example.Other"}, {"pin2": "[hidden]"}, {"topic": "a[hidden]"}):
        refused = pages.post("/connectors/config", data=changed(fields, **change))
        assert refused.status_code == 400 and "type the whole value" in refused.text
    new = {name: fields[name] for name in ("csrf_token", "connect", "config")}
    refused = pages.post("/connectors/new", data=new | {"name": "copy", "confirmed": "1"})
    assert refused.status_code == 400 and "type the whole value" in refused.text
    assert connect.configs == {"lines": before}
