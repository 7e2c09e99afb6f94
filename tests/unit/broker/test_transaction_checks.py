"""Produced batches wait for their coordinator's answer in the order of their producer, and for no other's."""

import asyncio
from types import SimpleNamespace

import pytest

from bowstring.engine.broker.transaction_checks import TransactionChecks, produce_error
from bowstring.protocol.errors import Errors
from tests.support.waiting import wait_until_async

OLD, NEW = 10, 12  # versions of Produce


class Checked:
    """Checks whose coordinator answers when the test releases it."""

    def __init__(self):
        self.questions = []
        self.passed = []
        self.refused = []
        self.checks = TransactionChecks(self, self, self.passed.append)

    async def verify(self, producer, partitions, *, adds):
        answer = asyncio.get_running_loop().create_future()
        self.questions.append((producer, partitions, adds, answer))
        return dict.fromkeys(partitions, await answer)

    def finish_batch(self, slow, *, error, reason):
        self.refused.append((slow.name, Errors.of(error), reason))

    def take(self, name, producer_id=1, epoch=0, version=NEW, partition=0):
        transaction = ("x", producer_id, epoch, version)
        self.checks.take(SimpleNamespace(name=name, topic="t", partition=partition, transaction=transaction))

    async def answer(self, error=Errors.NONE):
        await wait_until_async(lambda: self.questions)
        before = len(self.passed) + len(self.refused)
        self.questions.pop(0)[3].set_result(error)
        await wait_until_async(lambda: len(self.passed) + len(self.refused) > before)

    @property
    def names(self):
        return [each.name for each in self.passed]


def test_one_answer_counts_for_all_that_wait():
    async def main():
        checked = Checked()
        checked.take("a")
        checked.take("b")
        await checked.answer()
        assert checked.names == ["a", "b"] and not checked.questions

    asyncio.run(main())


def test_one_question_for_the_partitions_of_a_request():
    async def main():
        checked = Checked()
        checked.take("a", partition=0)
        checked.take("b", partition=1)
        checked.take("other epoch", partition=1, epoch=1)
        await checked.answer()
        assert checked.names == ["a", "b"]
        await wait_until_async(lambda: checked.questions)
        ((producer, partitions, adds, _),) = checked.questions
        assert (producer, partitions, adds) == (("x", 1, 1), [("t", 1)], True)
        await checked.answer(Errors.INVALID_TXN_STATE)
        assert [name for name, *_ in checked.refused] == ["other epoch"]

    asyncio.run(main())


def test_later_batches_do_not_pass_a_refused_one():
    async def main():
        checked = Checked()
        checked.take("a")
        checked.take("b")
        checked.take("next epoch", epoch=1)
        await checked.answer(Errors.NOT_COORDINATOR)
        assert [name for name, *_ in checked.refused] == ["a", "b"]
        await checked.answer()
        assert checked.names == ["next epoch"]

    asyncio.run(main())


def test_other_producers_do_not_wait():
    async def main():
        checked = Checked()
        checked.take("slow", producer_id=1)
        checked.take("quick", producer_id=2)
        await wait_until_async(lambda: len(checked.questions) == 2)
        checked.questions.pop(1)[3].set_result(Errors.NONE)
        await wait_until_async(lambda: checked.names == ["quick"])
        await checked.checks.stop()
        assert checked.refused == [("slow", Errors.REQUEST_TIMED_OUT, None)]
        checked.take("late")
        assert checked.refused[-1] == ("late", Errors.REQUEST_TIMED_OUT, None)

    asyncio.run(main())


def test_a_bug_is_no_answer_that_misleads():
    async def main():
        checked = Checked()
        checked.take("a")
        await wait_until_async(lambda: checked.questions)
        checked.questions[0][3].set_exception(ValueError("a bug"))
        await wait_until_async(lambda: checked.refused)
        assert checked.refused[0][1] is Errors.NOT_ENOUGH_REPLICAS

    asyncio.run(main())


@pytest.mark.parametrize(
    ("error", "version", "expected"),
    [
        (Errors.NOT_COORDINATOR, NEW, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.UNKNOWN_SERVER_ERROR, NEW, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.CONCURRENT_TRANSACTIONS, NEW, Errors.CONCURRENT_TRANSACTIONS),
        (Errors.CONCURRENT_TRANSACTIONS, OLD, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.PRODUCER_FENCED, OLD, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.TRANSACTION_ABORTABLE, OLD, Errors.INVALID_TXN_STATE),
        (Errors.TRANSACTION_ABORTABLE, NEW, Errors.TRANSACTION_ABORTABLE),
        (Errors.INVALID_PRODUCER_ID_MAPPING, OLD, Errors.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_errors_that_producers_understand(error, version, expected):
    assert produce_error(error, version)[0] is expected
