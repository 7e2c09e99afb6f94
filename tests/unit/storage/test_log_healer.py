"""Logs that are out of service for want of memory return when there is some again."""

import asyncio
import errno
import logging

import pytest

from bowstring._native.log.partition_log import LogError
from bowstring.engine.storage import log_healer
from bowstring.engine.storage.log_healer import LogHealer
from tests.support import faults
from tests.support.log_batches import fill, open_log
from tests.support.waiting import wait_until_async


def failed_logs(tmp_path, count):
    logs = []
    for index in range(count):
        directory = tmp_path / f"t-{index}"
        directory.mkdir()
        log = open_log(directory)
        fill(log, 2)
        try:
            with faults.failing("pwritev", errno.ENOMEM):
                fill(log, 1)
        except LogError:
            pass
        assert log.failed
        logs.append(("t", index, log))
    return logs


def test_logs_return_when_the_error_has_passed(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(log_healer, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(log_healer, "RETRY_MOST_S", 0.1)
    monkeypatch.setattr(log_healer, "OVER_S", 0.5)

    def is_told():
        return any(record.levelname == "INFO" for record in caplog.records)

    async def scenario():
        logs = failed_logs(tmp_path, 20)
        healer = LogHealer(logs)
        stuck, healed = [], []
        healer.when_stuck, healer.when_healed = stuck.extend, healed.extend
        with faults.failing("open", errno.EMFILE):
            healer.look()
            healer.look()
            await wait_until_async(lambda: stuck)
        await wait_until_async(lambda: len(healed) == 20)
        assert sorted(set(stuck)) == sorted(healed) == [("t", index) for index in range(20)]
        for _, _, log in logs:
            fill(log, 1)
            assert log.log_end_offset == 30
        for _ in range(2):  # the same shortage, as long as it comes back so soon
            with pytest.raises(LogError), faults.failing("pwritev", errno.ENOMEM):
                fill(logs[0][2], 1)
            healer.look()
            await wait_until_async(lambda: not logs[0][2].failed)
        await wait_until_async(is_told)
        await healer.stop()

    with caplog.at_level(logging.INFO, "bowstring"):
        asyncio.run(scenario())
    levels = [record.levelname for record in caplog.records]
    assert levels == ["ERROR", "INFO"], "one line of each for all partitions and attempts"


def test_what_fails_while_others_are_healed_is_looked_at_again(tmp_path):
    async def scenario():
        logs = failed_logs(tmp_path, 1)
        healer = LogHealer(logs)
        healer.look()
        (tmp_path / "more").mkdir()
        logs += [("u", index, log) for _, index, log in failed_logs(tmp_path / "more", 1)]
        healer.look()
        await wait_until_async(lambda: not any(log.failed for _, _, log in logs))
        await healer.stop()

    asyncio.run(scenario())


def test_a_log_that_refuses_records_is_given_up_and_returns(tmp_path, monkeypatch):
    """Nothing is wrong with it, and its next append may be what finds it in service again."""
    monkeypatch.setattr(log_healer, "GIVE_UP_S", 0.2)
    monkeypatch.setattr(log_healer, "RETRY_MOST_S", 0.1)

    async def scenario():
        (tmp_path / "t-0").mkdir()
        log = open_log(tmp_path / "t-0")
        healer = LogHealer([("t", 0, log)])
        stuck, healed = [], []
        healer.when_stuck, healer.when_healed = stuck.extend, healed.extend
        with faults.failing("open", errno.EMFILE):
            with pytest.raises(LogError):
                fill(log, 1)
            assert log.refuses and not log.failed
            healer.look()
            await wait_until_async(lambda: stuck)
        fill(log, 1)
        await wait_until_async(lambda: healed)
        assert (set(stuck), healed, log.refuses) == ({("t", 0)}, [("t", 0)], False)
        await healer.stop()

    asyncio.run(scenario())


def test_logs_without_room_are_given_up_until_there_is_some(tmp_path, monkeypatch, caplog):
    """Their write-ahead log retries by itself, and logs that."""
    monkeypatch.setattr(log_healer, "GIVE_UP_S", 0.2)

    async def scenario():
        logs = []
        for index in range(2):
            (tmp_path / f"t-{index}").mkdir()
            logs.append(("t", index, open_log(tmp_path / f"t-{index}")))
        without = [logs[1][2]]
        healer = LogHealer(logs, lambda: without)
        stuck, healed = [], []
        healer.when_stuck, healer.when_healed = stuck.extend, healed.extend
        healer.look()
        await wait_until_async(lambda: len(stuck) > 1)
        assert set(stuck) == {("t", 1)} and not healed
        without.clear()
        healer.look()
        await wait_until_async(lambda: healed)
        assert healed == [("t", 1)]
        await healer.stop()

    asyncio.run(scenario())
    assert not caplog.records
