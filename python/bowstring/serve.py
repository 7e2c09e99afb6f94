"""`bowstring serve`: a broker in a process of its own, from start to SIGTERM."""

import asyncio
import gc
import signal
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

import uvloop

from bowstring import __version__
from bowstring._native.log import LogError
from bowstring.engine.broker import log_lines
from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.directory_lock import DataDirectoryError
from bowstring.engine.configs import ConfigError
from bowstring.engine.configs.files import load


def parser() -> ArgumentParser:
    """The command line of `bowstring serve`."""
    made = ArgumentParser(
        prog="bowstring serve", description="Run a broker until SIGTERM or SIGINT.", allow_abbrev=False
    )
    made.add_argument(
        "--data",
        action="append",
        metavar="DIR",
        help="data directory (log.dirs; default ./bowstring-data); several times for several disks",
    )
    made.add_argument(
        "--durability",
        choices=("commit", "os"),
        help="acknowledge from the medium (commit, the default) or from the page cache (os, as Kafka does)",
    )
    made.add_argument("--host", metavar="HOST", help="address to listen on (default: all interfaces)")
    made.add_argument("--port", type=int, metavar="PORT", help="port to listen on (default 9092; 0: any)")
    made.add_argument("--config", metavar="FILE", help="Kafka's server.properties, or TOML with its keys")
    made.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one config; may be given many times"
    )
    made.add_argument("--metrics-port", type=int, metavar="PORT", help="serve Prometheus text on this port")
    made.add_argument("--log-format", choices=("text", "json"), help="form of log lines (default text)")
    made.add_argument("--log-level", choices=("debug", "info", "warning", "error"), help="default info")
    return made


def settings_of(arguments: Namespace) -> dict[str, str]:
    """The configs that the file and the command line set; the command line wins.

    Raises:
        ConfigError, OSError: What is wrong with the file or an option.
    """
    settings = load(Path(arguments.config)) if arguments.config else {}
    # A server's acknowledgement is worth the medium; an embedded broker's, or a test's, the page cache.
    settings.setdefault("bowstring.durability", "commit")
    listens = arguments.host is not None or arguments.port is not None
    if listens and (told := settings.pop("advertised.listeners", None)):
        print(
            f"bowstring: --host and --port replace the file's listeners, so its advertised.listeners={told} "
            "is left out; give --set advertised.listeners=... to advertise another address",
            file=sys.stderr,
        )
    for item in arguments.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise ConfigError(f"--set {item}: write it as KEY=VALUE")
        settings[name.strip()] = value.strip()
    if arguments.data is not None:
        settings["log.dirs"] = ",".join(arguments.data)
    if listens:
        port = 9092 if arguments.port is None else arguments.port
        host = arguments.host or ""
        settings["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port}"
    for name, value in (
        ("bowstring.durability", arguments.durability),
        ("bowstring.metrics.port", arguments.metrics_port),
        ("bowstring.log.format", arguments.log_format),
        ("bowstring.log.level", arguments.log_level),
    ):
        if value is not None:
            settings[name] = str(value)
    return settings


def main(argv: Sequence[str]) -> int:
    """Runs a broker; returns the exit status: 0 after a clean shutdown, 1 when it could not start."""
    arguments = parser().parse_args(argv)
    try:
        broker = Broker(settings_of(arguments))
        log_lines.log_to_stderr(
            broker.configs.value("bowstring.log.format"), broker.configs.value("bowstring.log.level")
        )
        broker.open()
    except (ConfigError, DataDirectoryError, LogError, OSError) as error:
        print(f"bowstring: {error}", file=sys.stderr)
        return 1
    loop = uvloop.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(run(broker))
    except (LogError, OSError) as error:
        log_lines.error("stopped, but not cleanly; the next start recovers", detail=str(error))
        return 1
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
    return 0


async def run(broker: Broker) -> None:
    """Serves until a signal comes."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    await broker.start()
    log_lines.info(
        "ready",
        version=__version__,
        listeners=",".join(f"{each.name}://{each.host}:{each.port}" for each in broker.listeners),
        advertised=",".join(f"{each.name}://{each.host}:{each.port}" for each in broker.advertised),
        metrics_port=broker.metrics_port,
        directory=",".join(str(directory.path) for directory in broker.directories),
        cluster_id=broker.cluster_id,
        node_id=broker.node_id,
        topics=len(broker.metadata.image.topics),
        partitions=broker.metadata.image.partition_count,
        clean=all(directory.was_clean for directory in broker.directories.opened),
        ready_ms=round(since_process_start_ms()),
    )
    gc.freeze()
    gc.enable()
    await stopping.wait()
    log_lines.info("stopping")
    await broker.stop()


def since_process_start_ms() -> float:
    """Time since the kernel started this process, to the clock tick of 10 ms."""
    with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
        started_ticks = int(file.read().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000 - started_ticks * 10
