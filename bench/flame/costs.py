"""Summarizes the samples: the largest costs of each process, and the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from bench import machine
from bench.flame.stacks import Stack, counted
from bench.report_files import picture

LARGEST = 12
# Kernel frames of the entry, before those that do the work.
_ENTRIES = ("entry_", "do_syscall", "asm_", "x64_sys_call", "__do_sys_", "ksys_", "syscall_")
_FAULTS = ("asm_exc_page_fault", "exc_page_fault")
_INTERRUPTS = ("asm_sysvec", "asm_common_interrupt", "ret_from_fork")


@dataclass
class Profiled:
    """One process under one load.

    Attributes:
        role: broker or client.
        cpu_seconds_per_gb: of this process, per 10⁹ bytes of values; 0 if unknown.
        picture: name of the file with its flame graph.
    """

    role: str
    stacks: Counter[Stack]
    cpu_seconds_per_gb: float
    picture: str


@dataclass
class Scene:
    """One load and the processes in it."""

    name: str
    title: str
    records_per_second: float
    processes: list[Profiled] = field(default_factory=list)


def cost_of(stack: Stack) -> str:
    """Returns the caller (the innermost function of ours or of a library) and the kernel's work for it."""
    own = [frame.name for frame in stack if frame.kind in ("native", "python")]
    user = own or [frame.name for frame in stack if frame.kind != "kernel"]
    kernel = [frame.name for frame in stack if frame.kind == "kernel"]
    if kernel:
        return f"{user[-1]} → {_asked(kernel)}"
    last = stack[-1]
    if own and last.kind == "library":
        return f"{user[-1]} → {last.name.partition('@')[0]}"
    return user[-1]


def _asked(kernel: list[str]) -> str:
    """Returns the system call, page fault or interrupt that led into the kernel."""
    for frame in kernel:
        if frame in _FAULTS:
            return "page fault"
        if frame.startswith(_INTERRUPTS):
            return "interrupt"
    meaningful = [frame for frame in kernel if not frame.startswith(_ENTRIES)]
    return f"{(meaningful or kernel)[0].strip('_')} (kernel)"


def largest(stacks: Mapping[Stack, int], count: int = LARGEST) -> list[tuple[str, float]]:
    """Returns (cost, share) of the largest costs."""
    costs: Counter[str] = Counter()
    for stack, samples in stacks.items():
        costs[cost_of(stack)] += samples
    total = max(counted(stacks), 1)
    return [(name, samples / total) for name, samples in costs.most_common(count)]


def by_kind(stacks: Mapping[Stack, int]) -> dict[str, float]:
    """Returns shares of the kernel, our native code, the interpreter and libraries, by the innermost
    frame.
    """
    kinds: Counter[str] = Counter()
    for stack, samples in stacks.items():
        kinds[stack[-1].kind] += samples
    total = max(counted(stacks), 1)
    return {kind: kinds[kind] / total for kind in ("kernel", "native", "python", "library")}


def report(scenes: list[Scene], started: str) -> str:
    """Returns the report in Markdown."""
    facts = "\n".join(f"| {name} | {value} |" for name, value in machine.facts().items())
    parts = [
        f"# Where the time goes, {started[:10]}",
        f"`python -m bench.flame`, from {started}: stacks of the processes, 997 times a second of processor "
        "time (perf's cpu-clock). Shares are of the samples of one process. A cost is named by the innermost "
        "function of this project (or by the interpreter), and behind the arrow by what the kernel or a "
        "library did for it. Being sampled costs a tenth or so of the throughput. GB is 10⁹ bytes of values.",
        f"| fact | value |\n| --- | --- |\n{facts}",
        *[_scene(scene) for scene in scenes],
    ]
    return "\n\n".join(parts) + "\n"


def _scene(scene: Scene) -> str:
    parts = [
        f"## {scene.title} (`{scene.name}`)",
        f"{scene.records_per_second:,.0f} records/s while sampled.",
    ]
    for each in scene.processes:
        told = f", {each.cpu_seconds_per_gb:.2f} CPU-s/GB" if each.cpu_seconds_per_gb else ""
        kinds = ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in by_kind(each.stacks).items())
        rows = "\n".join(f"| {name} | {100 * share:.1f} % |" for name, share in largest(each.stacks))
        parts += [
            f"### {each.role}{told}",
            f"{counted(each.stacks):,} samples: {kinds}.",
            f"| cost | share |\n| --- | --- |\n{rows}",
            picture(f"{each.role}, {scene.title}", each.picture),
        ]
    return "\n\n".join(parts)
