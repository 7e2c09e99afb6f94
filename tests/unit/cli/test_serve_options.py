"""The options of `bowstring serve` are declared once: what is parsed is what help, completion and the reference show."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from bowstring import serve
from bowstring.__main__ import main
from bowstring.cli.app import application
from bowstring.serve_options import OPTIONS, parser

# One value of each kind of option.
GIVEN = {
    "data": ["/a", "/b"],
    "durability": "os",
    "host": "localhost",
    "port": 0,
    "listen_unauthenticated": True,
    "config": "server.properties",
    "strict_config": True,
    "set": ["num.partitions=3"],
    "metrics_port": 1,
    "console": 2,
    "registry_port": 3,
    "rest_port": 4,
    "http_allow_origin": "https://app.example.org",
    "log_format": "json",
    "log_level": "debug",
}


def as_arguments(given):
    found = []
    for option in OPTIONS:
        value = given[option.name]
        for each in value if isinstance(value, list) else [value]:
            found += [option.flag] if each is True else [option.flag, str(each)]
    return found


def test_help_shows_every_option(offline, capsys, monkeypatch):
    """Also where `serve` would start without the CLI."""
    shown = offline("serve", "--help").out
    monkeypatch.setattr(sys, "argv", ["bowstring", "serve", "--data", "x", "-h"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().out) == (0, shown)
    words = set(shown.split())
    for option in OPTIONS:
        assert {option.flag, option.help.split()[0]} <= words, option
    assert "[PORT]" in words


def test_what_is_parsed():
    assert vars(parser().parse_args(as_arguments(GIVEN))) == GIVEN
    assert parser().parse_args(["--console"]).console == 8080
    assert not any(vars(parser().parse_args([])).values())


@pytest.mark.parametrize("given", [GIVEN, {}], ids=["all", "none"])
def test_typer_passes_on_what_it_was_given(given, monkeypatch):
    got = []
    monkeypatch.setattr(serve, "main", lambda arguments: got.append(parser().parse_args(arguments)) or 3)
    ran = CliRunner().invoke(application(), ["serve", *(as_arguments(given) if given else [])])
    assert ran.exit_code == 3, ran.output
    assert vars(got[0]) == (given or vars(parser().parse_args([])))


def test_a_wrong_option_is_refused(offline):
    wrong = offline("serve", "--prot", "1")
    assert wrong.code == 2 and "--prot" in wrong.err
