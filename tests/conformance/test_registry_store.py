"""The registry's leader on Apache Kafka as on Bowstring: plain batches of an earlier leader are refused."""

import asyncio
import json
import uuid

import pytest

from bowstring import Producer
from bowstring.registry.operations.registration import decide_register
from bowstring.registry.registry_node import NodeSettings, NotLeader, RegistryNode
from bowstring.registry.store.elector import GroupTimes
from bowstring.registry.store.store_target import StoreTarget
from tests.support.registry_process import RegistryProcess
from tests.support.waiting import HANG_S, wait_until, wait_until_async

URLS = ("http://127.0.0.1:18081", "http://127.0.0.1:18082")
# Brokers allow no shorter session.
TIMES = GroupTimes(session_timeout_s=6.0, rebalance_timeout_s=10.0, heartbeat_interval_s=0.1)


async def register(node: RegistryNode, doc: str) -> int:
    schema = json.dumps({"type": "record", "name": "r", "doc": doc, "fields": []})
    answer = await node.write(lambda image: decide_register(image, "subject", {"schema": schema}))
    return answer["id"]


def usurp(target: StoreTarget) -> None:
    """Writes as a leader that was elected later."""
    with Producer(target.bootstrap_servers, transactional_id=target.transactional_id) as producer:
        producer.begin_transaction()
        producer.send(target.topic, None, key=b'{"keytype":"NOOP","magic":0}')
        producer.commit_transaction()


def test_a_later_leader_fences_an_earlier_one(where):
    name = uuid.uuid4().hex
    target = StoreTarget(where, topic=f"_schemas-{name}", group_id=f"group-{name}")

    async def life() -> None:
        first, second = (
            RegistryNode(NodeSettings(target, url, times=TIMES, write_timeout_s=HANG_S, takeover_wait_s=0.5))
            for url in URLS
        )
        await first.start()
        assert await register(first, "1") == 1
        await asyncio.to_thread(usurp, target)
        with pytest.raises(NotLeader):
            await register(first, "2")
        await wait_until_async(lambda: first.is_leader)
        assert await register(first, "3") == 2
        await second.start()
        await wait_until_async(lambda: second.leader_url == URLS[0])
        assert await second.catch_up()
        assert [each.id for each in second.image.versions("subject")] == [1, 2]
        await first.stop()
        await wait_until_async(lambda: second.leader_url == URLS[1])
        assert await register(second, "4") == 3
        await second.stop()

    asyncio.run(life())


def test_a_registry_that_was_killed_leads_at_once_when_it_is_started_again(where):
    """Its group does not wait until the session of its former life is over."""
    session_s = 2 * HANG_S
    killed = RegistryProcess(where, URLS[0], session_s)
    wait_until(lambda: killed.leads)
    killed.kill()
    again = RegistryProcess(where, URLS[0], session_s)
    wait_until(lambda: again.leads)
    again.stop()
