"""bowstring.rest.main: what it refuses to start with."""

import pytest
import typer

from bowstring.cli.app import application
from bowstring.rest.main import main, parser


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--listen", "0.0.0.0"], "--listen-unauthenticated"),
        (["--streams", "0"], "--streams must be at least 1"),
        (["--port", "99999"], "between 0 and 65535"),
        (["--tls-certificate", "a.pem"], "--tls-key"),
        (["--command-config", "/no/such/file"], "--command-config"),
    ],
)
def test_wrong_options(capsys, arguments, words):
    assert main(arguments) == 1
    assert words in capsys.readouterr().err


def test_the_command_line_has_the_options_of_the_program():
    command = typer.main.get_command(application()).commands["rest"]
    declared = {name for parameter in command.params for name in parameter.opts if name.startswith("--")}
    usage = parser().format_help()
    assert {name for name in declared - {"--help"} if name not in usage} == set()
