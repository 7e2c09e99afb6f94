"""Conditions of bars: ratios to Apache Kafka in the same run, to the bare loop, or absolute figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """One condition on Bowstring's median.

    Attributes:
        text: the condition as the report prints it.
        excess: from (bowstring, other or None) how many times the limit was used: at most 1 is met. None
            when the comparison needs a peer that was not measured.
        to_loop: the other is the bare loop of the case; else it is Kafka.
        of: another metric of Kafka's than the bar's own.
    """

    text: str
    excess: Callable[[float, float | None], float | None]
    to_loop: bool = False
    of: str = ""


def at_most(limit: float, unit: str) -> Limit:
    """Returns an absolute ceiling; a ceiling of 0 means a value that prints as 0.0."""

    def excess(own: float, _peer: float | None) -> float:
        return own / limit if limit > 0 else own / 0.05

    return Limit(f"≤ {limit:g} {unit}" if limit else f"0.0 {unit}", excess)


def at_most_share(divisor: float) -> Limit:
    """At most 1/divisor of Kafka's figure."""

    def excess(own: float, peer: float | None) -> float | None:
        return own * divisor / peer if peer else None

    return Limit(f"≤ 1/{divisor:g} of Kafka's", excess)


def at_least(limit: float, unit: str) -> Limit:
    """An absolute floor."""

    def excess(own: float, _peer: float | None) -> float:
        return limit / own if own else float("inf")

    return Limit(f"≥ {limit:g} {unit}", excess)


def times_kafka(factor: float) -> Limit:
    """At least `factor` times Kafka's figure."""

    def excess(own: float, peer: float | None) -> float | None:
        if peer is None:
            return None
        return peer * factor / own if own else float("inf")

    return Limit(f"≥ {factor:g}x Kafka's", excess)


def above() -> Limit:
    """More than Kafka's figure."""

    def excess(own: float, peer: float | None) -> float | None:
        if peer is None:
            return None
        return peer / own if own else float("inf")

    return Limit("above Kafka's", excess)


def below() -> Limit:
    """Less than Kafka's figure."""

    def excess(own: float, peer: float | None) -> float | None:
        return own / peer if peer else None

    return Limit("below Kafka's", excess)


def below_in_the_clear(metric: str) -> Limit:
    """Less than another figure of Kafka's: that of `metric`, without encryption."""

    def excess(own: float, peer: float | None) -> float | None:
        return own / peer if peer else None

    return Limit("below Kafka's in the clear", excess, of=metric)


def above_in_the_clear(metric: str) -> Limit:
    """More than another figure of Kafka's: that of `metric`, without encryption."""

    def excess(own: float, peer: float | None) -> float | None:
        if peer is None:
            return None
        return peer / own if own else float("inf")

    return Limit("above Kafka's in the clear", excess, of=metric)


def times_loop(factor: float) -> Limit:
    """At most `factor` times the figure of the case's bare loop (see bench/limits)."""

    def excess(own: float, loop: float | None) -> float | None:
        return own / (loop * factor) if loop else None

    return Limit(f"≤ {factor:g}x the bare loop's", excess, to_loop=True)
