"""Recovery from the recovery point compared with full recovery, over logs of random histories."""

import os
import random
import shutil

import pytest

from bowstring._native.log.checkpoint import flush_logs
from tests.support.log_batches import (
    NOW_MS,
    TRANSACTIONAL,
    batch,
    crash,
    headers,
    marker,
    names,
    open_log,
    segment_name,
)

CONFIG = {"segment_bytes": 30_000, "index_interval_bytes": 700}


class History:
    """Random appends, flushes, checkpoints, rolls, truncations and clean restarts of one log."""

    def __init__(self, directory, rng):
        self.directory, self.rng = directory, rng
        self.log = open_log(directory, **CONFIG)
        self.sequences, self.open_transactions = {}, set()
        self.clock = NOW_MS
        self.epoch = 0

    def append(self):
        rng = self.rng
        self.clock += rng.choice([0, 0, 1, 5, -3])
        values = [os.urandom(rng.choice([0, 10, 400]))] * rng.choice([1, 1, 3, 12])
        producer = rng.choice([None, None, 1, 2, 3])
        if producer is None:
            self.log.append(batch(values, timestamp=self.clock), self.epoch, NOW_MS)
            return
        sequence = self.sequences.get(producer, 0)
        attributes = TRANSACTIONAL if producer == 3 or producer in self.open_transactions else 0
        made = batch(
            values,
            timestamp=self.clock,
            producer_id=producer,
            epoch=0,
            sequence=sequence,
            attributes=attributes,
        )
        self.log.append(made, self.epoch, NOW_MS)
        self.sequences[producer] = sequence + len(values)
        if attributes:
            self.open_transactions.add(producer)
            if rng.random() < 0.4:
                end = marker(producer, 0, abort=rng.random() < 0.5, timestamp=self.clock)
                self.log.append(end, self.epoch, NOW_MS)
                self.open_transactions.discard(producer)

    def step(self):
        kind = self.rng.random()
        if kind < 0.9:
            self.append()
        elif kind < 0.94:
            flush_logs([self.log])
        elif kind < 0.96:
            self.log.flush()
        elif kind < 0.97:
            self.log.roll()
        elif kind < 0.98:
            self.epoch += 1
            self.log.assign_epoch(self.epoch, self.log.log_end_offset)
        elif not self.open_transactions:
            self.log.close()
            self.log = open_log(self.directory, recovery_point=self.log.log_end_offset, **CONFIG)


def picture(log):
    """Everything that a reader or a producer can observe."""
    end = log.log_end_offset
    data, offset = b"", log.log_start_offset
    while offset < end:
        data += log.read(offset, 1 << 30, "log_end")
        offset = headers(data)[-1].last_offset + 1
    found = headers(data)
    return {
        "ends": (log.log_start_offset, end),
        "data": data,
        "segments": [segment[:2] for segment in log.segments()],
        "producers": log.active_producers(),
        "epochs": log.epochs(),
        "aborted": sorted(log.aborted_transactions(0, end)),
        "ongoing": log.stats()["ongoing_transactions"],
        "by timestamp": [log.offset_for_timestamp(each.max_timestamp) for each in found[::7]],
        "newest": log.max_timestamp(),
        "by offset": [
            headers(log.read(each.last_offset, 1, "log_end"))[0].base_offset for each in found[::5]
        ],
    }


def damage(directory, rng, point):
    """Applies what power loss may do to unsynced data, and a fault to files that recovery rebuilds."""
    last = max((directory / name for name in names(directory) if name.endswith(".log")), key=str)
    if rng.random() < 0.5 and int(last.name[:20]) >= point and last.stat().st_size > 0:
        os.truncate(last, rng.randrange(last.stat().st_size))
    index = directory / segment_name(int(last.name[:20]), rng.choice([".index", ".timeindex"]))
    kind = rng.random()
    if kind < 0.2:
        index.unlink()
    elif kind < 0.4 and index.stat().st_size:
        os.truncate(index, rng.randrange(index.stat().st_size))
    elif kind < 0.6:
        with index.open("ab") as file:
            file.write(bytes(rng.randrange(5000)))


@pytest.mark.parametrize("seed", range(25))
def test_both_find_the_same(tmp_path, seed):
    rng = random.Random(seed)
    for name in ("whole", "resumed"):
        (tmp_path / name).mkdir()
    history = History(tmp_path / "whole", rng)
    for _ in range(rng.randrange(20, 400)):
        history.step()
    point = history.log.recovery_point
    crash(history.log)
    damage(tmp_path / "whole", rng, point)
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed", dirs_exist_ok=True)
    whole = open_log(tmp_path / "whole", clean=False, recovery_point=0, **CONFIG)
    resumed = open_log(tmp_path / "resumed", clean=False, recovery_point=point, **CONFIG)
    assert not [each for each in resumed.take_findings() if each["out_of_service"]]
    assert picture(resumed) == picture(whole), f"seed {seed}"
    assert resumed.stats()["recovered_bytes"] <= whole.stats()["recovered_bytes"]
    for log in (whole, resumed):
        log.append(batch(), 99, NOW_MS)
        log.close()
    again = open_log(tmp_path / "resumed", recovery_point=resumed.log_end_offset, **CONFIG)
    assert again.log_end_offset == whole.log_end_offset
    assert again.stats()["rebuilt_indexes"] == 0
