"""Writes perf_reports/<date>-<machine>/: report.md, report.json and the pictures, all from one Run."""

from __future__ import annotations

import re
from pathlib import Path

from bench import machine, plots
from bench.bars import BOWSTRING, KAFKA, Verdict, judge_all
from bench.lab import CALM_CORES
from bench.report_files import compact, picture
from bench.report_text import number, spread, table
from bench.results import CaseResult, Run

ROOT = Path(__file__).resolve().parents[1]
PEER_TITLES = {KAFKA: "Apache Kafka", BOWSTRING: "Bowstring"}


def write(run: Run, parent: Path, work: Path, ending: str | None = None) -> Path:
    """Writes the report of `run` below `parent` and returns its directory.

    Args:
        run: the results.
        parent: usually perf_reports/.
        work: the run's working directory, whose path is taken out of error messages.
        ending: suffix of the directory's name, for a run of some cases.
    """
    parts = [run.started[:10], machine.slug(run.machine)]
    parts += [run.size] if run.size != "short" else []
    directory = parent / "-".join([*parts, *([ending] if ending else [])])
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.svg"):
        stale.unlink()
    verdicts = judge_all(run.cases)
    pictures = plots.draw(run.cases, directory)
    data = run.to_json() | {"bars": [verdict.to_json() for verdict in verdicts]}
    (directory / "report.json").write_text(_without_paths(compact(data), work))
    (directory / "report.md").write_text(_without_paths(_markdown(run, verdicts, pictures), work))
    return directory


def summary(verdicts: list[Verdict]) -> str:
    """Returns one line: the numbers of bars met, missed and not measured."""
    met = sum(verdict.met is True for verdict in verdicts)
    missed = sum(verdict.met is False for verdict in verdicts)
    told = sum(verdict.of_run for verdict in verdicts)
    return f"{met} bars met, {missed} missed, {told - met - missed} not told"


def _markdown(run: Run, verdicts: list[Verdict], pictures: list[tuple[str, str]]) -> str:
    parts = [
        f"# Speed and size, {run.started[:10]}",
        f"A {run.size} run of `python -m bench`: {run.duration_seconds / 60:.1f} minutes from {run.started}. "
        f"{summary(verdicts)}.",
        table(["fact", "value"], [[key, value] for key, value in (run.machine | run.peers).items()]),
        _method(run),
        _noise(run),
        "A figure is the median of its rounds, with the least and "
        "the greatest in brackets. GB is 10⁹ bytes of record values. Both brokers acknowledge from the page "
        "cache; in the cases of commit mode Bowstring does so from the medium.",
        _loops(run),
        "## Against the bars",
        _bars_table(run, [verdict for verdict in verdicts if verdict.of_run]),
        _left_out(verdicts),
        *[picture(title, file_name) for file_name, title in pictures],
        _failures(run),
        "## Every case",
        *[_case(run, case) for case in run.cases.values()],
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _method(run: Run) -> str:
    if len(run.peers) == 1:
        return "One broker was measured, with its default settings, by warm Java clients."
    return (
        "Both brokers stood on this machine at the same time with their default settings, and the same warm "
        "Java clients took them in turn, A B A B."
    )


def _noise(run: Run) -> str:
    samples = [sample for case in run.cases.values() for sample in case.samples]
    noisy = [sample.busy_cores_before for sample in samples if sample.busy_cores_before >= CALM_CORES]
    if not noisy:
        return ""
    return (
        f"**The machine was not quiet**: before {len(noisy)} of {len(samples)} rounds other processes kept "
        f"up to {max(noisy):.1f} cores busy. Ratios suffer less from that than absolute figures do."
    )


def _loops(run: Run) -> str:
    if not _has_loops(run):
        return ""
    return (
        "A bare loop (`bench/limits`) does only what a broker cannot avoid: it is this machine's limit, "
        "measured in the same rounds. Its GB are all bytes that it moves; a broker also moves the headers of "
        "batches and records, which do not count in GB of values. Ratios are to the first loop of a case."
    )


def _has_loops(run: Run) -> bool:
    return any(case.limits for case in run.cases.values())


def _bars_table(run: Run, verdicts: list[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        bar = verdict.bar
        case = run.cases.get(bar.case)
        loop = [number(verdict.loop), _times(verdict.loop_ratio)] if _has_loops(run) else []
        rows.append(
            [
                f"{bar.figure}, {bar.unit}",
                _measured(case, KAFKA, bar.metric),
                _measured(case, BOWSTRING, bar.metric),
                _times(verdict.ratio),
                *loop,
                ", ".join(limit.text for limit in bar.limits),
                f"**{verdict.text}**" if verdict.met is not True else verdict.text,
            ]
        )
    loop = ["bare loop", "Bowstring / loop"] if _has_loops(run) else []
    return table(["figure", "Apache Kafka", "Bowstring", "ratio", *loop, "bar", "result"], rows)


def _left_out(verdicts: list[Verdict]) -> str:
    cases = dict.fromkeys(verdict.bar.case for verdict in verdicts if not verdict.of_run)
    if not cases:
        return ""
    return f"Cases with bars that were not part of this run: {', '.join(cases)}."


def _times(ratio: float | None) -> str:
    if ratio is None:
        return "–"
    if 0 < ratio < 0.5:
        return f"1/{1 / ratio:.1f}"
    return f"{ratio:.2f}×"


def _failures(run: Run) -> str:
    failures = [(case, failure) for case in run.cases.values() for failure in case.failures]
    if not failures:
        return ""
    lines = ["## What failed"]
    for case, failure in failures:
        message = failure.message.replace("```", "'''")
        peer = PEER_TITLES.get(failure.peer, failure.peer)
        lines.append(f"**{case.name}**, {peer}, round {failure.round}:\n\n```\n{message}\n```")
    return "\n\n".join(lines)


def _case(run: Run, case: CaseResult) -> str:
    known = [*PEER_TITLES, *case.limits]
    peers = [peer for peer in known if any(sample.peer == peer for sample in case.samples)]
    settings = "; ".join(f"{key} {value}" for key, value in case.settings.items())
    parts = [f"### {case.title} (`{case.name}`)", settings + "."]
    if peers:
        rows = [
            [
                metric.replace("_", " "),
                *[spread(case.values(peer, metric)) for peer in peers],
                *([_to_loop(case, metric)] if case.limits else []),
            ]
            for metric in case.metrics()
        ]
        ratio = ["Bowstring / loop"] if case.limits else []
        parts.append(table(["figure", *[PEER_TITLES.get(peer, peer) for peer in peers], *ratio], rows))
    else:
        parts.append("**Nothing was measured; see what failed.**")
    return "\n\n".join(parts)


def _to_loop(case: CaseResult, metric: str) -> str:
    own, loop = case.median(BOWSTRING, metric), case.limit(metric)
    return _times(own / loop if own is not None and loop else None)


def _measured(case: CaseResult | None, peer: str, metric: str) -> str:
    return spread([] if case is None else case.values(peer, metric))


def _without_paths(text: str, work: Path) -> str:
    """Removes directory names, because reports are published."""
    for path, name in ((str(work), "<work>"), (str(ROOT), "<checkout>"), (str(Path.home()), "<home>")):
        if len(path) > 1:
            text = text.replace(path, name)
    return re.sub(r"/tmp/[\w.-]+", "<tmp>", text)
