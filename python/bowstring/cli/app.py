"""Lists every command of `bowstring` and the options they share."""

from __future__ import annotations

from typing import Annotated

import typer

from bowstring.cli.acls import app as acls
from bowstring.cli.audit import app as audit
from bowstring.cli.bench import app as bench
from bowstring.cli.brokers import app as brokers
from bowstring.cli.certs import app as certs
from bowstring.cli.cluster import app as cluster
from bowstring.cli.command_config import connecting
from bowstring.cli.configs import app as configs
from bowstring.cli.console import console
from bowstring.cli.consume import consume
from bowstring.cli.demo import demo
from bowstring.cli.dump_log import dump_log
from bowstring.cli.features import app as features
from bowstring.cli.format import format_directories
from bowstring.cli.groups import app as groups
from bowstring.cli.leaders import app as leaders
from bowstring.cli.migrate_dir import migrate_dir
from bowstring.cli.monitoring import monitoring
from bowstring.cli.perf import app as perf
from bowstring.cli.pipeline import app as pipeline
from bowstring.cli.produce import produce
from bowstring.cli.quorum import app as quorum
from bowstring.cli.quotas import app as quotas
from bowstring.cli.reassign import app as reassign
from bowstring.cli.registry import registry
from bowstring.cli.rest import rest
from bowstring.cli.scrub import scrub
from bowstring.cli.search import search
from bowstring.cli.serve import serve
from bowstring.cli.share import app as share
from bowstring.cli.spark_jar import spark_jar
from bowstring.cli.topics import app as topics
from bowstring.cli.transactions import app as transactions
from bowstring.cli.users import app as users
from bowstring.cli.version import print_version, version

HELP = """\
An event-streaming broker that Kafka's clients cannot tell from Kafka, and tools for it.

The tools work against Apache Kafka as well. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
BROKER, RECORDS, MANAGE, OPERATE, SECURE = "Broker", "Records", "Manage", "Cluster", "Security"


@app.callback(help=HELP)
def bowstring(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=print_version),
    ] = False,
) -> None:
    """Takes the options that stand before a command."""


app.command("serve", rich_help_panel=BROKER)(serve)
app.command("format", rich_help_panel=BROKER)(format_directories)
app.add_typer(cluster, name="cluster", rich_help_panel=BROKER)
app.command("console", rich_help_panel=BROKER)(console)
app.command("registry", rich_help_panel=BROKER)(registry)
app.command("rest", rich_help_panel=BROKER)(rest)
app.command("demo", rich_help_panel=BROKER)(demo)
app.add_typer(bench, name="bench", rich_help_panel=BROKER)
app.command("version", rich_help_panel=BROKER)(version)
app.command("produce", rich_help_panel=RECORDS)(produce)
app.command("consume", rich_help_panel=RECORDS)(consume)
app.command("search", rich_help_panel=RECORDS)(search)
app.add_typer(perf, name="perf", rich_help_panel=RECORDS)
app.add_typer(topics, name="topics", rich_help_panel=MANAGE)
app.add_typer(configs, name="configs", rich_help_panel=MANAGE)
app.add_typer(groups, name="groups", rich_help_panel=MANAGE)
app.add_typer(share, name="share", rich_help_panel=MANAGE)
app.add_typer(transactions, name="transactions", rich_help_panel=MANAGE)
app.add_typer(pipeline, name="pipeline", rich_help_panel=RECORDS)
app.add_typer(brokers, name="brokers", rich_help_panel=OPERATE)
app.add_typer(audit, name="audit", rich_help_panel=OPERATE)
app.add_typer(reassign, name="reassign", rich_help_panel=OPERATE)
app.add_typer(leaders, name="leaders", rich_help_panel=OPERATE)
app.add_typer(quorum, name="quorum", rich_help_panel=OPERATE)
app.command("monitoring", rich_help_panel=OPERATE)(monitoring)
app.add_typer(features, name="features", rich_help_panel=OPERATE)
app.add_typer(users, name="users", rich_help_panel=SECURE)
app.add_typer(acls, name="acls", rich_help_panel=SECURE)
app.add_typer(certs, name="certs", rich_help_panel=SECURE)
app.add_typer(quotas, name="quotas", rich_help_panel=SECURE)
app.command("spark-jar", rich_help_panel=RECORDS)(spark_jar)
app.command("dump-log", rich_help_panel=MANAGE)(dump_log)
app.command("scrub", rich_help_panel=MANAGE)(scrub)
app.command("migrate-dir", rich_help_panel=MANAGE)(migrate_dir)
connecting(app)
