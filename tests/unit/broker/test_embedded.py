"""`bowstring.Broker`: a broker inside a program."""

import subprocess
import sys
import threading

import pytest

from bowstring import Broker
from bowstring.engine.configs import ConfigError
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.protocol.messages.metadata import MetadataRequest
from tests.support.embedded import engine_of
from tests.support.waiting import HANG_S, wait_until
from tests.support.wire_client import WireClient


def test_a_broker_is_a_context():
    with Broker() as broker:
        host, _, port = broker.bootstrap_servers.partition(":")
        assert (host, int(port)) == ("127.0.0.1", broker.port)
        client = WireClient(broker.port)
        assert client.ask(MetadataRequest(topics=[])).cluster_id == broker.cluster_id
        directory = broker.data_dir
        assert (directory / "meta.properties").exists()
        client.close()
    assert not directory.exists()
    with pytest.raises(RuntimeError, match="not running"):
        broker.bootstrap_servers  # noqa: B018


def test_a_given_directory_stays(tmp_path):
    with Broker(data_dir=tmp_path / "data") as broker:
        cluster_id = broker.cluster_id
    with Broker(data_dir=str(tmp_path / "data")) as broker:
        assert broker.cluster_id == cluster_id


def test_configs_are_plain_values():
    config = {
        "num.partitions": 3,
        "auto.create.topics.enable": False,
        "log.cleanup.policy": ["delete", "compact"],
    }
    with Broker(config=config) as broker:
        configs = engine_of(broker).configs
        assert configs.value("num.partitions") == 3
        assert configs.value("auto.create.topics.enable") is False
        assert configs.value("log.cleanup.policy") == ["delete", "compact"]


def test_what_is_wrong_is_raised_by_start(tmp_path):
    before = threading.active_count()
    with pytest.raises(ConfigError, match=r"did you mean \"num.partitions\""):
        Broker(config={"num.partition": 3}).start()
    with Broker(data_dir=tmp_path), pytest.raises(DataDirectoryError, match="in use"):
        Broker(data_dir=tmp_path).start()
    with Broker() as broker, pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{broker.port}"):
        Broker(port=broker.port).start()
    wait_until(lambda: threading.active_count() <= before)  # those of earlier tests may end meanwhile


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::"])
def test_other_machines_reach_a_broker_only_where_that_is_allowed(host):
    with pytest.raises(ConfigError, match=r"bowstring\.listen\.unauthenticated=true"):
        Broker(host=host).start()
    allowed = {"bowstring.listen.unauthenticated": True}
    with Broker(host=host, config=allowed) as broker:
        assert engine_of(broker).listeners[0].host == host
        assert broker.bootstrap_servers.rpartition(":")[0] not in ("", host, f"[{host}]")


def test_a_broker_listens_on_ipv6s_loopback():
    with Broker(host="::1") as broker:
        assert broker.bootstrap_servers == f"[::1]:{broker.port}"
        assert WireClient(broker.port, "::1").ask(MetadataRequest(topics=[])).error_code == 0


def test_a_protection_that_is_not_there_is_raised_by_start():
    with pytest.raises(ConfigError, match=r"queued\.max\.request\.bytes=9 is not enforced"):
        Broker(config={"queued.max.request.bytes": 9}).start()


def test_several_brokers_run_side_by_side():
    with Broker() as one, Broker() as other:
        assert one.port != other.port
        assert one.cluster_id != other.cluster_id


def test_a_broker_can_start_again():
    broker = Broker()
    for _ in range(3):
        broker.start()
        broker.stop()
        broker.stop()


def test_a_program_that_forgets_to_stop_ends_cleanly(tmp_path):
    code = "import bowstring, sys; bowstring.Broker(data_dir=sys.argv[1]).start(); print('end')"
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "end\n", "")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


FORGETS = """
import sys, bowstring
broker = bowstring.Broker(data_dir=sys.argv[1], config={"bowstring.durability": sys.argv[2]}).start()
with bowstring.Producer(broker.bootstrap_servers) as producer:
    for number in range(100):
        producer.send("t", b"%d" % number)
with bowstring.Consumer(broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest") as consumer:
    consumer.subscribe(["t"])
    read = 0
    while read < 100:
        read += len(consumer.poll(1.0))
    consumer.commit()
print("end")
"""


@pytest.mark.parametrize("durability", ["os", "commit"])
def test_records_and_commits_of_a_program_that_forgets_to_stop(tmp_path, durability):
    ran = subprocess.run(
        [sys.executable, "-c", FORGETS, str(tmp_path / "data"), durability],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "end\n", "")
    with Broker(data_dir=tmp_path / "data") as broker:
        assert all(each.was_clean for each in engine_of(broker).directories.opened)
        assert engine_of(broker).logs.get("t", 0).log_end_offset == 100


def test_the_end_of_a_forked_child_leaves_the_broker_to_its_parent():
    """Also when the child leaves the block of the broker by an exception."""
    code = """if True:
        import os, sys, bowstring
        with bowstring.Broker() as broker:
            child = os.fork()
            if child == 0:
                sys.exit(7)
            ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            print(ended, (broker.data_dir / "meta.properties").exists())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert (done.stdout, done.stderr) == ("7 True\n", "")


def test_a_stop_reaches_a_broker_whose_thread_has_only_begun(monkeypatch):
    broker = Broker()
    main, ask = broker._main, broker._ask_to_stop
    is_asked = threading.Event()

    def begin_late(*arguments):
        assert is_asked.wait(HANG_S)
        main(*arguments)

    def ask_before():
        ask()
        is_asked.set()

    monkeypatch.setattr(broker, "_main", begin_late)
    monkeypatch.setattr(broker, "_ask_to_stop", ask_before)
    starting = threading.Thread(target=broker.start, daemon=True)
    starting.start()
    wait_until(lambda: broker._thread is not None)
    stopping = threading.Thread(target=broker.stop, daemon=True)
    stopping.start()
    for each in (stopping, starting):
        each.join(HANG_S)
        assert not each.is_alive()
    assert repr(broker) == "<Broker, not running>"


def test_a_start_imports_nothing_that_only_few_programs_need():
    """Each would make it longer by milliseconds."""
    code = (
        "import sys, bowstring\n"
        "with bowstring.Broker():\n"
        "    print(sorted({'dataclasses', 'decimal', 'random', 'shutil', 'tempfile'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert ran.stdout == "[]\n", ran.stderr
