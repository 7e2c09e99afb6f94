"""Peers that stall, half-close, never read or send noise cost the broker little and the others nothing."""

import random
import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from tests.support.waiting import HANG_S, wait_until
from tests.support.wire import (
    API_VERSIONS,
    batch,
    fetch,
    frame,
    metadata,
    produce,
    produce_answer,
    record,
    request,
)
from tests.system.bad_input.victim import SOUND, Victim

MIB = 1 << 20


def fill(victim: Victim, topic: str, mebibytes: int) -> None:
    """A topic with that much data, in batches of 256 KiB."""
    victim.create(topic)
    big = batch(record(b"x" * (MIB // 4)), 1)
    with victim.connect() as wire:
        for _ in range(4 * mebibytes):
            answer = wire.ask(produce(topic, big))
            assert answer is not None
            assert produce_answer(answer, topic)[0] == 0


def test_connections_that_say_nothing_or_half_a_frame(victim: Victim) -> None:
    with ExitStack() as stack:
        for cut in range(200):
            wire = stack.enter_context(victim.connect())
            wire.send(metadata()[: cut % 12])
        for _ in range(20):
            victim.still_serves()


def test_claimed_lengths_cost_no_memory(victim: Victim) -> None:
    """A frame's length is a claim; memory follows the bytes that came, not the claim."""
    claims = 200 if victim.terse else 8
    before = victim.broker.rss_bytes()
    with ExitStack() as stack:
        for _ in range(claims):
            wire = stack.enter_context(victim.connect())
            wire.send(struct.pack(">i", 8 * MIB) + request(API_VERSIONS, 0)[4:])
        victim.still_serves()
        if victim.terse:
            assert victim.broker.rss_bytes() - before < 32 * MIB


def test_half_closed_connection_is_let_go(victim: Victim) -> None:
    files = victim.broker.open_files()
    for _ in range(50):
        with victim.connect() as wire:
            wire.send(request(API_VERSIONS, 0))
            wire.end()
    wait_until(
        lambda: victim.broker.open_files() <= files + 5, "connections of peers that are gone stay open"
    )


def test_client_that_never_reads(victim: Victim) -> None:
    """Answers to a client that does not read must not pile up in the broker's memory."""
    fill(victim, "unread", 8)
    before = victim.broker.rss_bytes()
    with ExitStack() as stack:
        for _ in range(20):
            wire = stack.enter_context(victim.connect(receive_buffer_bytes=4096, timeout_s=1.0))
            ask = fetch("unread", 0, max_bytes=8 * MIB)
            try:
                for _ in range(500):
                    wire.send(ask)
            except TimeoutError:
                # The broker stopped reading: backpressure, as intended.
                continue
        for _ in range(5):
            victim.still_serves()
        grown = victim.broker.rss_bytes() - before
        assert grown < 128 * MIB or not victim.terse, (
            f"{grown / MIB:.0f} MiB for 20 clients that read nothing"
        )


def test_client_that_never_reads_its_produce_answers(victim: Victim) -> None:
    victim.create("unanswered")
    before = victim.broker.rss_bytes()
    with victim.connect(receive_buffer_bytes=4096, timeout_s=1.0) as wire:
        frames = produce("unanswered", SOUND) * 1000
        try:
            for _ in range(100):
                wire.send(frames)
        except TimeoutError:
            pass
        victim.still_serves()
        assert victim.broker.rss_bytes() - before < 64 * MIB or not victim.terse


def test_slow_reader_gets_all_of_it(victim: Victim) -> None:
    """A reader behind full socket buffers gets every byte, while others are served at once."""
    fill(victim, "slow", 4)
    with victim.connect(receive_buffer_bytes=4096) as quick:
        quick_answer = quick.ask(fetch("slow", 0, max_bytes=4 * MIB))
    with victim.connect(receive_buffer_bytes=4096) as wire:
        wire.send(fetch("slow", 0, max_bytes=4 * MIB))
        (length,) = struct.unpack(">i", wire.sock.recv(4, socket.MSG_WAITALL))
        answer = bytearray()
        while len(answer) < length:
            answer += wire.sock.recv(min(65536, length - len(answer)))
            if len(answer) % (MIB // 2) < 65536:
                began = time.monotonic()
                victim.still_serves()
                assert time.monotonic() - began < HANG_S
    assert bytes(answer) == quick_answer


def test_random_bytes(victim: Victim) -> None:
    chance = random.Random(20240517)
    for _ in range(300):
        with victim.connect() as wire:
            noise = chance.randbytes(chance.randrange(1, 2000))
            wire.send(noise if chance.random() < 0.5 else frame(noise))
            wire.end()


def test_random_bodies_behind_sound_headers(victim: Victim) -> None:
    """Every API and version that the broker offers, with a body of noise."""
    chance = random.Random(20240518)
    with victim.connect() as wire:
        wire.send_api_versions()
        told = wire.receive_api_versions()
    for api_key, (lowest, highest) in told.items():
        for version in range(lowest, highest + 1):
            body = chance.randbytes(chance.randrange(0, 200))
            with victim.connect() as wire:
                wire.send(request(api_key, version, body))
                wire.end()


def test_reset_in_the_middle_of_an_answer(victim: Victim) -> None:
    fill(victim, "reset", 4)
    for _ in range(50):
        with victim.connect(receive_buffer_bytes=4096) as wire:
            wire.send(fetch("reset", 0, max_bytes=4 * MIB))
            wire.sock.recv(10)
            wire.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_idle_connections_are_closed(own_victim: Callable[[dict[str, str]], Victim]) -> None:
    victim = own_victim({"connections.max.idle.ms": "1500"})
    began = time.monotonic()
    with victim.connect() as silent, victim.connect() as halfway:
        halfway.send(request(API_VERSIONS, 0)[:7])
        assert silent.closed()
        assert halfway.closed()
        assert 1 < time.monotonic() - began < HANG_S


@pytest.mark.parametrize("bytes_a_time", [1, 3, 4096])
def test_pipelined_frames_cut_anywhere(victim: Victim, bytes_a_time: int) -> None:
    frames = b"".join(request(API_VERSIONS, 0, correlation_id=number) for number in range(50))
    with victim.connect() as wire:
        for at in range(0, len(frames), bytes_a_time):
            wire.send(frames[at : at + bytes_a_time])
        for number in range(50):
            answer = wire.receive()
            assert answer is not None
            assert struct.unpack_from(">i", answer) == (number,)
