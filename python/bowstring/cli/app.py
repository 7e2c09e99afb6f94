"""Every command of `bowstring`, and what they share."""

from __future__ import annotations

import typer

from bowstring.cli import configs, consume, demo, dump_log, groups, perf, produce, serve, topics, version

HELP = """\
An event-streaming broker that Kafka's clients cannot tell from Kafka, and tools for it.

The tools work against Apache Kafka as well. Exit codes: 0 done, 1 failed, 2 wrong usage.
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
BROKER, RECORDS, MANAGE = "Broker", "Records", "Manage"

app.command("serve", rich_help_panel=BROKER)(serve.serve)
app.command("demo", rich_help_panel=BROKER)(demo.demo)
app.command("version", rich_help_panel=BROKER)(version.version)
app.command("produce", rich_help_panel=RECORDS)(produce.produce)
app.command("consume", rich_help_panel=RECORDS)(consume.consume)
app.add_typer(perf.app, name="perf", rich_help_panel=RECORDS)
app.add_typer(topics.app, name="topics", rich_help_panel=MANAGE)
app.add_typer(configs.app, name="configs", rich_help_panel=MANAGE)
app.add_typer(groups.app, name="groups", rich_help_panel=MANAGE)
app.command("dump-log", rich_help_panel=MANAGE)(dump_log.dump_log)
