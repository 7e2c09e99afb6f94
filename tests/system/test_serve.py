"""`bowstring serve`: start, stop, refuse, restart."""

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import bowstring
from bowstring.engine.protocol.messages import create_topics as ct
from bowstring.engine.protocol.messages import incremental_alter_configs as iac
from bowstring.engine.protocol.messages import metadata as md
from tests.system.serving import Process
from tests.unit.broker.wire_client import WireClient


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(*arguments, data=tmp_path / "data", **options):
        process = Process("--data", str(data), "--host", "127.0.0.1", "--port", "0", *arguments, **options)
        running.append(process)
        return process

    yield begin
    for process in running:
        if process.process.poll() is None:
            process.stop(signal.SIGKILL)


def refused(*arguments, cwd):
    ran = subprocess.run(
        [sys.executable, "-m", "bowstring", "serve", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
    )
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_starts_says_so_and_stops_cleanly(start, tmp_path, number):
    process = start()
    facts = process.facts
    assert facts["version"] and facts["ready_ms"] > 0
    assert facts["directory"] == str(tmp_path / "data")
    assert facts["listeners"] == f"PLAINTEXT://127.0.0.1:{process.port}"
    assert WireClient(process.port).ask(md.MetadataRequest(topics=[])).error_code == 0
    assert process.stop(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_topics_and_configs_survive_a_clean_and_a_hard_stop(start):
    process = start()
    client = WireClient(process.port)
    topics = [ct.CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in ("a", "b")]
    assert [each.error_code for each in client.ask(ct.CreateTopicsRequest(topics=topics)).topics] == [0, 0]
    config = iac.AlterableConfig(name="retention.ms", config_operation=0, value="123")
    resource_ = iac.AlterConfigsResource(resource_type=2, resource_name="a", configs=[config])
    assert client.ask(iac.IncrementalAlterConfigsRequest(resources=[resource_])).responses[0].error_code == 0
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
        process.stop(number)
        process = start()
        assert process.facts["clean"] is (number != signal.SIGKILL)
        assert (process.facts["topics"], process.facts["partitions"]) == (2, 6)
        response = WireClient(process.port).ask(md.MetadataRequest(topics=None))
        assert {topic.name: len(topic.partitions) for topic in response.topics} == {"a": 3, "b": 3}


def test_a_second_broker_on_the_directory_is_refused(start, tmp_path):
    start()
    status, message = refused("--data", str(tmp_path / "data"), "--port", "0", cwd=tmp_path)
    assert status == 1
    assert "in use by another broker" in message and str(tmp_path / "data") in message


def test_a_taken_port_is_named(start, tmp_path):
    process = start()
    status, message = refused(
        "--data", str(tmp_path / "other"), "--host", "127.0.0.1", "--port", str(process.port), cwd=tmp_path
    )
    assert status == 1
    assert f"cannot listen on 127.0.0.1:{process.port}" in message


@pytest.mark.parametrize("name", ["server.properties", "broker.toml"])
def test_an_unknown_key_is_refused_with_the_nearest(tmp_path, name):
    config = tmp_path / name
    config.write_text("num.partitions=3\nlog.retenton.ms=5\n")
    status, message = refused("--config", str(config), "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert status == 1
    assert 'unknown config "log.retenton.ms"; did you mean "log.retention.ms"?' in message
    assert "Traceback" not in message


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--set", "num.partitions=0"], "Value must be at least 1"),
        (["--set", "num.partitions"], "write it as KEY=VALUE"),
        (["--config", "missing.properties"], "missing.properties"),
        (["--set", "log.dirs=a,a"], "names a directory twice"),
        (["--set", "listeners=SSL://:0"], "only PLAINTEXT is there so far"),
        (["--set", "node.id=1", "--set", "broker.id=2"], "set only node.id"),
    ],
)
def test_what_cannot_be_is_refused_without_a_traceback(tmp_path, arguments, words):
    status, message = refused(*arguments, cwd=tmp_path)
    assert status == 1
    assert words in message
    assert "Traceback" not in message


def test_kafkas_own_server_properties_is_taken_as_it_stands(start, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=7\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
        "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
        "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
        "num.network.threads=3\nnum.io.threads=8\nsocket.send.buffer.bytes=102400\n"
        "socket.receive.buffer.bytes=102400\nsocket.request.max.bytes=104857600\n"
        "log.dirs=/nowhere\nnum.partitions=1\nnum.recovery.threads.per.data.dir=2\n"
        "offsets.topic.replication.factor=1\nshare.coordinator.state.topic.replication.factor=1\n"
        "share.coordinator.state.topic.min.isr=1\ntransaction.state.log.replication.factor=1\n"
        "transaction.state.log.min.isr=1\nlog.retention.hours=168\nlog.segment.bytes=1073741824\n"
        "log.retention.check.interval.ms=300000\n"
    )
    process = start("--config", str(config))
    assert process.facts["node_id"] == 7
    without_effect = {line["config"] for line in process.lines if "no effect" in line["message"]}
    assert "transaction.state.log.replication.factor" in without_effect
    assert "num.partitions" not in without_effect


def test_the_port_of_the_command_line_replaces_what_the_file_advertises(start, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://far.example:9092\n")
    process = start("--config", str(config))
    assert process.facts["advertised"] == process.facts["listeners"]
    process.stop()
    told = "advertised.listeners=PLAINTEXT://near.example:7"
    process = start("--config", str(config), "--set", told)
    assert process.facts["advertised"] == "PLAINTEXT://near.example:7"


def test_metrics_are_served_as_prometheus_text(start):
    process = start("--metrics-port", "0")
    client = WireClient(process.port)
    topic = ct.CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    client.ask(ct.CreateTopicsRequest(topics=[topic]))
    bootstrap = f"127.0.0.1:{process.port}"
    with bowstring.Producer(bootstrap) as producer:
        for number in range(30):
            producer.send("t", b"%d" % number)
    with bowstring.Consumer(bootstrap, auto_offset_reset="earliest", enable_auto_commit=False) as consumer:
        consumer.assign([("t", 0), ("t", 1)])
        read = 0
        while read < 30:
            read += len(consumer.poll(timeout=5.0))
    url = f"http://127.0.0.1:{process.facts['metrics_port']}/metrics"
    with urllib.request.urlopen(url, timeout=20) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = response.read().decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    assert values["bowstring_partitions"] == "2.0"
    assert values["bowstring_under_replicated_partitions"] == "0.0"
    assert values["bowstring_offline_partitions"] == "0.0"
    assert float(values["bowstring_connections"]) >= 1
    assert values['bowstring_requests_total{api="CreateTopics"}'] == "1.0"
    assert values['bowstring_request_seconds_count{api="CreateTopics"}'] == "1.0"
    assert values['bowstring_topic_records_in_total{topic="t"}'] == "30.0"
    assert values['bowstring_topic_records_out_total{topic="t"}'] == "30.0"
    bytes_in = float(values['bowstring_topic_bytes_in_total{topic="t"}'])
    assert float(values['bowstring_topic_bytes_out_total{topic="t"}']) == bytes_in > 30
    assert float(values['bowstring_log_size_bytes{topic="t"}']) == bytes_in
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url + "x", timeout=20)


def test_text_logs_have_facts(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "bowstring", "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stderr.readline()
        assert " INFO ready version=" in line
        assert f"directory={tmp_path / 'data'}" in line
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "stopped cleanly" in rest
    with pytest.raises(json.JSONDecodeError):
        json.loads(line)


def test_an_idle_broker_uses_no_processor_and_little_memory(start):
    process = start()
    pid = process.process.pid

    def cpu_ticks():
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    time.sleep(0.5)
    before = cpu_ticks()
    time.sleep(2.0)
    assert cpu_ticks() - before <= 1
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        resident_kib = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
    assert resident_kib <= 40 * 1024
