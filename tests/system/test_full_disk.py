"""A log directory on a file system that is really full: a small tmpfs in a mount namespace.

Runs for a single broker and for one in a cluster.

Where the machine allows no mounts, tests/unit/storage/test_log_directories.py covers the same with failing
file operations.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import HANG_S

SCENARIO = """
import os, sys, time
from bowstring import Broker
from bowstring._native.record.encode import encode_batch
from bowstring._native.log.partition_log import LogError
from bowstring.protocol.messages import create_topics as ct, produce as p
from tests.support.embedded import engine_of
from tests.support.wire_client import WireClient

base = sys.argv[1]
config = {"log.dirs": f"{base}/roomy,{base}/small", "bowstring.durability": "os"}

def produce(client, index, value):
    batch = encode_batch([(None, value, time.time_ns() // 1_000_000, [])])
    data = p.TopicProduceData(name="t", partition_data=[p.PartitionProduceData(index=index, records=batch)])
    answer = client.ask(p.ProduceRequest(acks=1, timeout_ms=9000, topic_data=[data]), 9)
    return answer.responses[0].partition_responses[0].error_code

broker = Broker(data_dir=base, config=config).start()
client = WireClient(broker.port)
topic = ct.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
assert client.ask(ct.CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
logs = [engine_of(broker).logs.get("t", index) for index in range(2)]
(small,) = [i for i in range(2) if "/small/" in logs[i].directory]
acknowledged = 0
while (error := produce(client, small, b"x" * 60000)) == 0:
    acknowledged += 1
assert error == 56 and acknowledged > 10, (error, acknowledged)
assert produce(client, 1 - small, b"y") == 0
assert len(logs[small].read(acknowledged - 1, 1)) > 60000  # reads go on
try:
    broker.stop()
except LogError as stopped:
    assert "No space left on device" in str(stopped)
else:
    raise AssertionError("the end was called clean")
assert not os.path.exists(f"{base}/small/.kafka_cleanshutdown")
assert os.path.exists(f"{base}/roomy/.kafka_cleanshutdown")
os.unlink(f"{base}/small/ballast")  # space is freed: a restart serves again, with everything acknowledged
with Broker(data_dir=base, config=config) as broker:
    client = WireClient(broker.port)
    assert engine_of(broker).logs.get("t", small).log_end_offset == acknowledged
    assert produce(client, small, b"z") == 0 and produce(client, 1 - small, b"z") == 0
print("served again after", acknowledged)
"""

# The last replica of each partition is on node 3, which has two directories; one of them fills up.
IN_A_CLUSTER = """
import contextlib, os, sys
import bowstring
from tests.support.acked_load import AckedLoad
from tests.support.waiting import HANG_S, wait_until

base = sys.argv[1]
PARTITIONS = 4

def in_sync(*brokers):
    found = [set(part.isr) for part in admin.describe_topic("t").partitions.values()]
    return all(set(brokers) <= each for each in found)

with bowstring.Cluster(
    3,
    data_dir=f"{base}/nodes",
    node_config={3: {"log.dirs": f"{base}/roomy,{base}/small"}},
    linked=False,
    start_timeout_s=HANG_S,
) as cluster, bowstring.Admin(cluster.bootstrap_servers, timeout_ms=int(HANG_S * 1000)) as admin:
    topic = bowstring.NewTopic(
        "t", assignments={i: [3, 1, 2] for i in range(PARTITIONS)}, configs={"min.insync.replicas": "2"}
    )
    admin.create_topics([topic])
    with AckedLoad(cluster.bootstrap_servers, "t", PARTITIONS) as load:
        load.wait_for_more(count=10)
        with open(f"{base}/small/ballast", "ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(b"." * 4096):
                pass  # until it is full
        wait_until(lambda: any(3 not in part.isr for part in admin.describe_topic("t").partitions.values()))
        load.wait_for_more()
        assert cluster.running_ids == [1, 2, 3], "one directory is left"
        os.truncate(f"{base}/small/ballast", 0)
        cluster.kill(3)
        cluster.restart(3)
        wait_until(lambda: in_sync(1, 2, 3), lambda: admin.describe_topic("t"))
        load.wait_for_more()
    load.check()
print("served again after", load.count)
"""


def can_mount() -> bool:
    """Whether this process may create a mount namespace with a tmpfs in it."""
    if shutil.which("unshare") is None:
        return False
    tried = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return subprocess.run(tried, capture_output=True, timeout=HANG_S, check=False).returncode == 0


@pytest.mark.skipif(not can_mount(), reason="mounting a small file system is not allowed here")
@pytest.mark.parametrize("scenario", [SCENARIO, IN_A_CLUSTER], ids=["alone", "in a cluster"])
def test_a_full_disk(tmp_path: Path, scenario: str) -> None:
    (tmp_path / "small").mkdir()
    mount = 'mount -t tmpfs -o size=8m tmpfs "$1/small" && head -c 4000000 /dev/zero > "$1/small/ballast"'
    command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$2" -c "$3" "$1"', "sh"]
    ran = subprocess.run(
        [*command, str(tmp_path), sys.executable, scenario],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "served again" in ran.stdout
