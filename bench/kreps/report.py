"""Writes the results of a run: report.md, report.json and pictures. Nothing in them is written by hand."""

from __future__ import annotations

import statistics
from pathlib import Path

from bench import machine
from bench.kreps import pictures
from bench.kreps.catalogue import Test
from bench.kreps.limits import limit_of
from bench.kreps.pictures import SWEEPS, TITLES
from bench.kreps.results import Outcome, Result
from bench.report_files import compact, picture
from bench.report_text import number, spread, table

SWEPT = {kind: (label, metric, unit) for kind, label, metric, unit, _ in SWEEPS}
# Tests whose figures are points only.
ONLY_POINTS = ("sizes", "partitions", "connections", "active")
CPU = "broker_cpu_seconds_per_gb"
# How far from the median counts as flat while stored data grows.
FLAT = 0.1

SETTINGS_HEAD = ["test", "clients", "replicas", "records", "settings"]


def directory_of(result: Result, parent: Path) -> Path:
    """`<date>-<machine>-kreps-<client>`."""
    facts = next(iter(result.machines.values()))
    many = "" if result.one_machine else f"-{len(result.machines)}-machines"
    return parent / f"{result.started[:10]}-{machine.slug(facts)}{many}-kreps-{result.client}"


def keep(result: Result, parent: Path) -> Path:
    """Writes only report.json, from which `--collect` makes a report; returns its directory."""
    directory = directory_of(result, parent)
    directory.mkdir(parents=True, exist_ok=True)
    whole = directory / "report.json.new"
    whole.write_text(compact(result.to_json()))
    whole.replace(directory / "report.json")
    return directory


def write(result: Result, parent: Path) -> Path:
    """Writes the report below `parent` and returns its directory."""
    directory = keep(result, parent)
    for stale in directory.glob("*.svg"):
        stale.unlink()
    (directory / "report.md").write_text(markdown(result, pictures.draw(result, directory)))
    return directory


def markdown(result: Result, drawn: list[tuple[str, str]]) -> str:
    """Returns the report; `drawn` has files and titles of its pictures."""
    peers = [peer for peer in TITLES if any(peer in found for found in result.outcomes.values())]
    parts = [
        f"# Two million writes a second, {result.started[:10]}",
        _introduction(result),
        _facts(result),
        "## Records a second",
        table(_rate_head(peers), _rate_rows(result, peers)),
        *_replicated(result, peers),
        *_bars(result),
        *_flatness(result, peers),
        "## CPU and memory",
        "CPU-seconds for a GB of values: written, or read by all consumers together; where both go on, "
        "written. Cores: CPU-seconds for a second, which is where the time of a test goes. MiB: the greatest "
        "resident memory, of all brokers and of all clients together.",
        *_costs(result, peers),
        *_against_loops(result, peers),
        *[picture(title, file) for file, title in drawn],
        *_sweeps(result, peers),
        "## What each test does",
        table(SETTINGS_HEAD, [_settings(test, result) for test in result.tests]),
        *_left_out(result, peers),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _introduction(result: Result) -> str:
    options = " ".join(f"{name} {value}".strip() for name, value in result.options.items())
    rounds = max((len(o.rounds) for found in result.outcomes.values() for o in found.values()), default=0)
    where = (
        "brokers and clients on one machine"
        if result.one_machine
        else "brokers and loads on machines of their own"
    )
    shares = sorted({test.share for test in result.tests})
    less = f" (slow ones {', '.join(f'{each:g}' for each in shares[:-1])} of that)" if len(shares) > 1 else ""
    times = f"{rounds} round{'s' * (rounds != 1)}"
    minutes = f"{result.duration_seconds / 60:.1f} minutes from {result.started}"
    parts = [
        f"`bowstring bench kreps {options}`: {minutes}; {where}, {result.records:,} records of 100 bytes in "
        f"a full test{less}, 6 partitions, {result.client} clients, {times} after a warm-up, the "
        "peers in turn. A figure is the median of its rounds, the least and the greatest in brackets.",
        "Several clients: the sum of what each measured itself, having begun together. Both brokers "
        "acknowledge from the page cache, but where a test says otherwise. 2014: six-core Xeons, three of "
        "them brokers and three load machines, 1 Gb Ethernet.",
    ]
    if result.interrupted:
        parts.append("**The run was interrupted**: what follows is what it had measured by then.")
    return "\n\n".join(parts)


def _facts(result: Result) -> str:
    names = list(result.machines)
    keys = list(dict.fromkeys(key for facts in result.machines.values() for key in facts))
    rows = [[key, *[result.machines[name].get(key, "–") for name in names]] for key in keys]
    versions = " beside ".join(result.versions[name] for name in TITLES if name in result.versions)
    return "\n\n".join([table(["fact", *names], rows), f"Measured: {versions or 'nothing'}."])


def _rate_head(peers: list[str]) -> list[str]:
    both = ["Bowstring / Kafka"] if len(peers) == len(TITLES) else []
    return ["test", "2014", *[TITLES[peer] for peer in peers], *both]


def _rate_rows(result: Result, peers: list[str]) -> list[list[str]]:
    rows = []
    for test in result.tests:
        if test.kind in ONLY_POINTS:
            continue
        then = " / ".join(f"{each:,.0f}" for each in test.figure_2014 or ())
        if test.kind == "stored":
            then = "flat"
        outcomes = [result.outcomes[test.name].get(peer, Outcome()) for peer in peers]
        row = [test.title, then or "–", *[_rate(test, each) for each in outcomes]]
        if len(peers) == len(TITLES):
            metric = "p50_ms" if test.kind == "latency" else "records_per_second"
            ours, theirs = (each.median(metric) for each in outcomes)
            row.append(f"{ours / theirs:.2f}" if ours and theirs else "–")
        rows.append(row)
    return rows


def _rate(test: Test, outcome: Outcome) -> str:
    if not outcome.rounds:
        return "failed" if outcome.failure else "–"
    if test.kind == "latency":
        cuts = [outcome.median(f"{name}_ms") for name in ("p50", "p99", "p999")]
        return " / ".join(number(each) for each in cuts) + " ms"
    return spread(outcome.values("records_per_second"))


def _rate_of(test: Test) -> str:
    """Returns what a bar is judged by: of replicas, the rate until all of them have the records."""
    return "records_per_second" if test.replication == 1 else "replicated_records_per_second"


def _bars(result: Result) -> list[str]:
    """Adds the bars, which are for one machine: with native clients, and with Java's beside Kafka."""
    if result.client == "java":
        return _bars_beside_kafka(result)
    rows = []
    for test in result.tests:
        ours = result.outcomes[test.name].get("bowstring", Outcome())
        if not test.bar or not ours.rounds or result.client != "native" or not result.one_machine:
            continue
        if test.kind == "latency":
            for name, bar in zip(("p50", "p99"), test.bar, strict=True):
                found = ours.median(f"{name}_ms") or 0.0
                verdict = "met" if found <= bar else f"**missed by {found - bar:.2g} ms**"
                rows.append([f"{test.title}, {name}", f"≤ {bar:g} ms", f"{found:.3g} ms", verdict])
            continue
        found = ours.median(_rate_of(test)) or 0.0
        verdict = _verdict(found / test.bar[0])
        if found < test.bar[0]:
            cores = [ours.median(f"{who}_cores") for who in ("broker", "client")]
            verdict += f"; cores busy: broker {number(cores[0])}, clients {number(cores[1])}"
        rows.append([test.title, f"≥ {test.bar[0]:,.0f}", f"{found:,.0f}", verdict])
        if (times := _times_loop(result, test, "bowstring", CPU)) is not None and test.loop_bar:
            over = (times / test.loop_bar - 1) * 100
            verdict = "met" if over <= 0 else f"**missed by {over:.0f} %**"
            bar_of_loop = f"≤ {test.loop_bar:g}× the bare loop's"
            rows.append([f"{test.title}, broker's CPU", bar_of_loop, f"{times:.2f}×", verdict])
    if not rows:
        return []
    return [
        "## Bars",
        "Of Bowstring with native clients, on two cores that hold broker and clients.",
        table(["test", "bar", "measured", "verdict"], rows),
    ]


def _bars_beside_kafka(result: Result) -> list[str]:
    """Compares each round with Kafka's round of the same turn."""
    rows = []
    for test in result.tests:
        ours, theirs = (result.outcomes[test.name].get(each, Outcome()) for each in ("bowstring", "kafka"))
        pairs = list(
            zip(ours.values("records_per_second"), theirs.values("records_per_second"), strict=False)
        )
        if test.times_kafka and pairs:
            times = min(own / other for own, other in pairs)
            bar = f"> {test.times_kafka:g}× Kafka's in every round"
            rows.append([test.title, bar, f"{times:.2f}× at least", _verdict(times / test.times_kafka)])
        own_cpu, other_cpu = ours.median(CPU), theirs.median(CPU)
        if test.kafka_cpu_divisor and own_cpu and other_cpu:
            reached = other_cpu / own_cpu / test.kafka_cpu_divisor
            bar = f"≤ 1/{test.kafka_cpu_divisor:g} of Kafka's"
            measured = f"1/{other_cpu / own_cpu:.1f}"
            rows.append([f"{test.title}, brokers' CPU", bar, measured, _verdict(reached)])
    if not rows:
        return []
    return [
        "## Bars",
        "Of Bowstring with Kafka's Java clients, beside Kafka's brokers on the same two cores.",
        table(["test", "bar", "measured", "verdict"], rows),
    ]


def _replicated(result: Result, peers: list[str]) -> list[str]:
    """Writes how fast replicas followed; that they are equal is checked after every round."""
    rows = []
    for test in result.tests:
        outcomes = [result.outcomes[test.name].get(peer, Outcome()) for peer in peers]
        if not any(each.values("replicated_records_per_second") for each in outcomes):
            continue
        row = [test.title]
        for each in outcomes:
            for metric in (
                "replicated_records_per_second",
                "followers_behind_seconds",
                "stored_twice_records",
            ):
                found = each.values(metric)
                row.append(spread(found))
        rows.append(row)
    if not rows:
        return []
    head = ["test"]
    for peer in peers:
        name = TITLES[peer]
        head += [f"{name}: records/s until all replicas have all", "s behind the last ack", "stored twice"]
    return [
        "## Replicas",
        "The rate until every replica in sync has every record, by the high watermarks. After each round all "
        "replicas were compared on disk: the same batches, byte for byte, with every acknowledged record; "
        "a round that differs fails. Records stored twice come from producers' retries. CPU per GB counts "
        "until the last replica has everything.",
        table(head, rows),
    ]


def _verdict(reached: float) -> str:
    return "met" if reached >= 1 else f"**missed by {(1 - reached) * 100:.0f} %**"


def _flatness(result: Result, peers: list[str]) -> list[str]:
    lines = []
    for test in result.tests:
        for peer in peers if test.kind == "stored" else []:
            outcome = result.outcomes[test.name].get(peer, Outcome())
            points = outcome.points("records_per_second")
            if len(points) > 1:
                least, most = _spread_of([rate for _, rate in points])
                flat = "flat within 10 %" if max(-least, most) <= FLAT else "not flat within 10 %"
                lines.append(
                    f"- {TITLES[peer]} from {points[0][0]:g} to {points[-1][0]:g} GB of values stored: "
                    f"{least * 100:+.0f} % to {most * 100:+.0f} % of the median, {flat}"
                )
                lines += _flatness_to_loop(outcome, dict(points))
    return ["## As stored data grows", "\n".join(lines)] if lines else []


def _flatness_to_loop(outcome: Outcome, rates: dict[float, float]) -> list[str]:
    """Judges the ratio to the loop that ran beside each point: what the loop has, too, is the machine's."""
    loops = dict(outcome.points("loop_records_per_second"))
    shares = dict(outcome.ratios("records_per_second", "loop_records_per_second"))
    if shares.keys() != rates.keys():
        return []
    least, most = _spread_of(list(shares.values()))
    # A ratio rises where the loop alone is slow, which is no fault of the broker's.
    verdict = "**flat within 10 %**" if -least <= FLAT else "**not flat within 10 %**"
    loop_least, loop_most = _spread_of(list(loops.values()))
    loop_range = f"{loop_least * 100:+.0f} % to {loop_most * 100:+.0f} %"
    lines = [
        f"  - judged by the bare loop beside each point, which has {loop_range} itself: the ratio to it has "
        f"{least * 100:+.0f} % to {most * 100:+.0f} %, {verdict}"
    ]
    middle, loop_middle, share_middle = (statistics.median(each.values()) for each in (rates, loops, shares))
    for x, rate in rates.items():
        if rate / middle < 1 - FLAT:
            own = shares[x] / share_middle < 1 - FLAT
            whose = "the broker's" if own else "the machine's"
            lines.append(
                f"  - at {x:g} GB {(rate / middle - 1) * 100:+.0f} %, the loop "
                f"{(loops[x] / loop_middle - 1) * 100:+.0f} %: {whose}"
            )
    return lines


def _spread_of(values: list[float]) -> tuple[float, float]:
    """Returns how far the least and the greatest are from the median, as shares of it."""
    middle = statistics.median(values)
    return min(values) / middle - 1, max(values) / middle - 1


def _costs(result: Result, peers: list[str]) -> list[str]:
    """Writes a table of the brokers' costs, and one of the clients' costs."""
    parts = []
    for who in ("broker", "client"):
        metrics = (
            (f"{who}_cpu_seconds_per_gb", "CPU-s/GB"),
            (f"{who}_cores", "cores"),
            (f"{who}_rss_peak_mib", "MiB"),
        )
        head = ["test", *[f"{TITLES[peer]}: {unit}" for peer in peers for _, unit in metrics]]
        rows = []
        for test in result.tests:
            outcomes = [result.outcomes[test.name].get(peer, Outcome()) for peer in peers]
            found = [number(_typical(each, metric)) for each in outcomes for metric, _ in metrics]
            if any(each != "–" for each in found):
                rows.append([test.title, *found])
        if rows:
            parts += [f"### {who.capitalize()}s", table(head, rows)]
    return parts


def _against_loops(result: Result, peers: list[str]) -> list[str]:
    """Writes a table of the bare loops and the ratios to them."""
    head = ["test", "bare loop", "CPU-s/GB", *[f"{TITLES[peer]} / loop" for peer in peers]]
    head += ["records/s", *[f"{TITLES[peer]} / loop" for peer in peers]]
    rows = []
    for test in result.tests:
        limit, outcome = limit_of(test), result.loops.get(test.name, Outcome())
        if limit is None or not outcome.rounds:
            continue
        row = [test.title, limit.name]
        for metric in (CPU, "records_per_second"):
            values = outcome.values(metric)
            times = [_times_loop(result, test, peer, metric) for peer in peers]
            row += [spread(values), *["–" if t is None else f"{t:.2f}×" for t in times]]
        rows.append(row)
    if not rows:
        return []
    return [
        "## Against the bare loops",
        "A bare loop (`bench/limits`) does only what a broker cannot avoid: it is the limit of the broker's "
        "machine, measured once in each round, after the peers. Its GB and records are all bytes that it "
        "moves, as if they were values; a broker also moves the headers of batches and records. A sweep is "
        "compared by the median of its points.",
        table(head, rows),
    ]


def _times_loop(result: Result, test: Test, peer: str, metric: str) -> float | None:
    loop = result.loops.get(test.name, Outcome()).median(metric)
    own = _typical(result.outcomes[test.name].get(peer, Outcome()), metric)
    return own / loop if own is not None and loop else None


def _typical(outcome: Outcome, metric: str) -> float | None:
    """Returns the median of a figure; of a sweep over all its points."""
    found = outcome.median(metric)
    if found is None and (points := outcome.points(metric)):
        return statistics.median(value for _, value in points)
    return found


def _sweeps(result: Result, peers: list[str]) -> list[str]:
    parts = []
    for test in result.tests:
        if test.kind not in SWEPT:
            continue
        label, metric, unit = SWEPT[test.kind]
        outcomes = {peer: result.outcomes[test.name].get(peer, Outcome()) for peer in peers}
        rates = {peer: dict(each.points(metric)) for peer, each in outcomes.items()}
        costs = {peer: dict(each.points("broker_cpu_seconds_per_gb")) for peer, each in outcomes.items()}
        xs = sorted({x for each in rates.values() for x in each})
        head = [label]
        columns: list[dict[float, float]] = []
        for peer in peers:
            head += [f"{TITLES[peer]}: {unit}", f"{TITLES[peer]}: brokers' CPU-s/GB"]
            columns += [rates[peer], costs[peer]]
            if loop := dict(outcomes[peer].points("loop_records_per_second")):
                head += ["bare loop beside it: records/s", f"{TITLES[peer]} / loop"]
                columns += [loop, dict(outcomes[peer].ratios(metric, "loop_records_per_second"))]
        rows = [[f"{x:,g}", *[number(each.get(x)) for each in columns]] for x in xs]
        if rows:
            parts += [f"## {test.title[0].upper()}{test.title[1:]}", table(head, rows)]
    return parts


def _settings(test: Test, result: Result) -> list[str]:
    clients = {"producer": test.producers, "consumer": test.consumers}
    told = [f"{count} {name}{'s' * (count > 1)}" for name, count in clients.items() if count]
    settings = [f"{name}={value}" for name, value in test.settings.items()] if test.producers else []
    topic = [
        f"{TITLES[peer]}'s topic: {name}={value}"
        for peer, configs in test.topic_configs.items()
        for name, value in configs.items()
    ]
    records = (
        "–" if test.kind in ("stored", "latency") else f"{max(1_000, int(result.records * test.share)):,}"
    )
    return [
        test.title,
        ", ".join(told),
        str(test.replication),
        records,
        ", ".join([*settings, *topic]) or "–",
    ]


def _left_out(result: Result, peers: list[str]) -> list[str]:
    lines = []
    for test in result.tests:
        for peer in peers:
            outcome = result.outcomes[test.name].get(peer, Outcome())
            if outcome.skipped:
                lines.append(f"- {test.title}, {TITLES[peer]}: not run; {outcome.skipped}")
            lines += _failed(test, TITLES[peer], outcome)
        lines += _failed(test, "the bare loop", result.loops.get(test.name, Outcome()))
    return ["## Left out", "\n".join(lines)] if lines else []


def _failed(test: Test, who: str, outcome: Outcome) -> list[str]:
    after = f" after {len(outcome.rounds)} rounds" if outcome.rounds else ""
    return [f"- {test.title}, {who}: **failed**{after}: {outcome.failure}"] if outcome.failure else []
