"""`bowstring serve`: start, stop, refuse, restart."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import bowstring
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import incremental_alter_configs as iac
from bowstring.protocol.messages import metadata as md
from tests.support.readable import readable
from tests.support.serving import Process, hear_hangups, steady_port
from tests.support.waiting import HANG_S, pause, wait_until
from tests.support.wire_client import WireClient


@pytest.fixture
def start(tmp_path):
    running = []

    def begin(*arguments, data=tmp_path / "data", where=("--host", "127.0.0.1", "--port", "0"), **options):
        process = Process("--data", str(data), *where, *arguments, **options)
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
        timeout=HANG_S,
        check=False,
        cwd=cwd,
    )
    return ran.returncode, ran.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_broker_starts_says_so_and_stops_cleanly(start, tmp_path, number):
    process = start()
    facts = process.facts
    assert facts["version"] and facts["ready_ms"] > 0
    assert facts["directory"] == str(tmp_path / "data")
    assert facts["listeners"] == f"PLAINTEXT://127.0.0.1:{process.port}"
    assert WireClient(process.port).ask(md.MetadataRequest(topics=[])).error_code == 0
    assert process.stop(number) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("others", [[signal.SIGTERM], [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]])
def test_signals_after_the_first_do_not_hurry_a_clean_end(start, tmp_path, others):
    """They come too late if this process has to wait for its turn: then another broker gets them."""
    first = start()
    client = WireClient(first.port)
    topic = ct.CreatableTopic(name="t", num_partitions=50, replication_factor=1)
    assert client.ask(ct.CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
    brokers = itertools.chain([first], iter(start, None))
    wait_until(
        lambda: "already stopping" in stopped_by(next(brokers), others, tmp_path), "they are not heard"
    )


def stopped_by(process, others, tmp_path):
    """What a broker says that gets a SIGTERM, then other signals; it ends cleanly."""
    process.process.send_signal(signal.SIGTERM)
    while process.process.poll() is None:
        for number in others:
            process.process.send_signal(number)
        process.read_for(0.001)
    assert process.process.returncode == 0
    process.read_to_the_end()
    said = "\n".join(line["message"] for line in process.lines)
    assert "stopped cleanly" in said
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    return said


def test_a_signal_during_the_start_stops_the_broker_cleanly_once_it_has_started(start, tmp_path):
    process = start(wait=False)
    deadline = time.monotonic() + HANG_S
    while not catches(process.process.pid, signal.SIGTERM):
        assert time.monotonic() < deadline
    assert process.stop() == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def catches(pid, number):
    """Whether a process handles a signal."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def test_sigquit_prints_where_the_threads_are_and_the_broker_goes_on(start):
    process = start()
    process.process.send_signal(signal.SIGQUIT)
    process.wait_for_text("most recent call first")
    assert WireClient(process.port).ask(md.MetadataRequest(topics=[])).error_code == 0
    assert process.stop() == 0


def test_nohup_keeps_a_broker_when_its_terminal_closes(start, tmp_path):
    process = start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.process.send_signal(signal.SIGHUP)
    assert WireClient(process.port).ask(md.MetadataRequest(topics=[])).error_code == 0
    assert not catches(process.process.pid, signal.SIGHUP)
    assert process.stop() == 0


def test_a_terminal_that_closes_stops_its_broker_cleanly(tmp_path):
    pid, terminal = os.forkpty()
    if pid == 0:
        hear_hangups()
        arguments = ["serve", "--data", str(tmp_path / "data"), "--port", "0"]
        os.execv(sys.executable, [sys.executable, "-m", "bowstring", *arguments])
    said = b""
    while b" INFO ready " not in said:
        assert readable(terminal, HANG_S), said
        said += os.read(terminal, 1 << 16)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
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
        (["--set", "listeners=SSL://:0"], "SSL://:0 would let every machine"),
        (["--set", "listeners=SASL_PLAINTEXT://127.0.0.1:0"], "offers GSSAPI and has no keytab"),
        (["--set", "node.id=1", "--set", "broker.id=2"], "set only node.id"),
        (
            ["--set", "authorizer.class.name=x.Authorizer"],
            "authorizer.class.name is x.Authorizer, but Bowstring cannot run Java classes",
        ),
        (["--set", "queued.max.request.bytes=9"], "Remove the setting or set it to -1"),
        (["--set", "max.connections.per.ip=0"], "lets nobody connect"),
        (["--set", "confluent.telemetry.enabled=false"], 'unknown config "confluent.telemetry.enabled"'),
        (["--host", "0.0.0.0"], "PLAINTEXT://0.0.0.0:9092 would let every machine"),
        (["--host", "::"], "--listen-unauthenticated"),
        (["--set", "listeners=PLAINTEXT://:0"], "--listen-unauthenticated"),
    ],
)
def test_what_cannot_be_is_refused_without_a_traceback(tmp_path, arguments, words):
    status, message = refused(*arguments, cwd=tmp_path)
    assert status == 1
    assert words in message
    assert "Traceback" not in message


def test_every_protection_that_is_not_there_is_named_at_once_and_nothing_is_touched(tmp_path):
    config = tmp_path / "server.properties"
    config.write_text(
        "listeners=PLAINTEXT://127.0.0.1:0\ncreate.topic.policy.class.name=x.Policy\n"
        "sasl.oauthbearer.assertion.private.key.passphrase=s3cret\nqueued.max.request.bytes=5\n"
    )
    status, message = refused("--config", str(config), "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert status == 1
    *reasons, places = message.splitlines()
    assert places.startswith("  see ") and "server.properties:" in places
    named = [line.removeprefix("bowstring: ").partition("=")[0] for line in reasons]
    assert named == [
        "create.topic.policy.class.name",
        "queued.max.request.bytes",
        "sasl.oauthbearer.assertion.private.key.passphrase",
    ]
    assert "s3cret" not in message
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("listeners", ["PLAINTEXT://:9092", "PLAINTEXT://0.0.0.0:9092"])
def test_a_file_that_listens_to_every_machine_is_refused_in_a_sentence(tmp_path, listeners):
    config = tmp_path / "server.properties"
    config.write_text(f"listeners={listeners}\n")
    status, message = refused("--config", str(config), "--data", str(tmp_path / "data"), cwd=tmp_path)
    assert status == 1
    sentence, place = message.splitlines()
    assert place == f"  see {config}:1 (listeners)"
    assert listeners in sentence and "--listen-unauthenticated" in sentence
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("listeners", ["SASL_SSL://:9092", "SSL://127.0.0.1:9092"])
def test_host_and_port_do_not_take_the_protection_of_a_file_away(tmp_path, listeners):
    config = tmp_path / "server.properties"
    config.write_text(f"listeners={listeners}\n")
    status, message = refused("--config", str(config), "--port", "0", cwd=tmp_path)
    assert status == 1
    assert f"{listeners.partition(':')[0]} has " in message


def test_without_a_word_the_loopback_interface_is_listened_on(tmp_path, start):
    process = start(where=["--port", "0"])
    assert process.facts["listeners"] == f"PLAINTEXT://127.0.0.1:{process.port}"


@pytest.mark.parametrize("in_file", [False, True])
def test_all_interfaces_are_listened_on_where_that_is_allowed(tmp_path, start, in_file):
    config = tmp_path / "server.properties"
    config.write_text("bowstring.listen.unauthenticated=true\n" if in_file else "")
    where = ["--port", "0", "--config", str(config), *([] if in_file else ["--listen-unauthenticated"])]
    process = start("--set", "advertised.listeners=PLAINTEXT://broker.example:7", where=where)
    assert process.facts["listeners"] == f"PLAINTEXT://:{process.port}"
    assert process.facts["advertised"] == "PLAINTEXT://broker.example:7"
    assert WireClient(process.port, host="127.0.0.2").ask(md.MetadataRequest(topics=[])).error_code == 0
    assert not any("clients get an advertised address" in line["message"] for line in process.lines)


def test_an_advertised_address_that_is_not_listened_on_is_warned_of(start):
    process = start("--set", "advertised.listeners=PLAINTEXT://broker.example:7")
    (line,) = [line for line in process.lines if "clients get an advertised address" in line["message"]]
    assert line["level"] == "warning" and line["advertised"] == "PLAINTEXT://broker.example:7"


def test_keys_of_plugins_are_warned_of_once_and_refused_where_that_is_wanted(start, tmp_path):
    config = tmp_path / "server.properties"
    config.write_text("confluent.telemetry.enabled=false\nmetric.reporters=x.Reporter\nretention.ms=5\n")
    process = start("--config", str(config))
    unknown = {line["config"]: line for line in process.lines if "is unknown" in line["message"]}
    assert set(unknown) == {"confluent.telemetry.enabled", "retention.ms"}
    assert unknown["retention.ms"]["nearest"] == "log.retention.ms"
    assert unknown["retention.ms"]["where"] == f"{config}:3"
    without_effect = [line["config"] for line in process.lines if "no effect yet" in line["message"]]
    assert without_effect == ["metric.reporters"]
    process.stop()
    status, message = refused("--strict-config", "--config", str(config), cwd=tmp_path)
    assert status == 1
    assert 'unknown config "confluent.telemetry.enabled"' in message
    assert 'unknown config "retention.ms"; did you mean "log.retention.ms"?' in message


def test_kafkas_own_server_properties_is_taken_as_it_stands(start, tmp_path):
    config = tmp_path / "server.properties"
    port = steady_port()
    config.write_text(
        f"process.roles=broker,controller\nnode.id=7\ncontroller.quorum.bootstrap.servers=localhost:{port}\n"
        f"listeners=PLAINTEXT://:9092,CONTROLLER://:{port}\ninter.broker.listener.name=PLAINTEXT\n"
        f"advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:{port}\n"
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
    assert without_effect == set()


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
            read += len(consumer.poll(timeout=HANG_S))
    url = f"http://127.0.0.1:{process.facts['metrics_port']}/metrics"
    with urllib.request.urlopen(url, timeout=HANG_S) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = response.read().decode()
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
    assert values["bowstring_partitions"] == "2.0"
    assert values["bowstring_under_replicated_partitions"] == "0.0"
    assert values["bowstring_offline_partitions"] == "0.0"
    assert sum(name.startswith("bowstring_staged_tails_bytes{") for name in values) == 2
    assert float(values["bowstring_connections"]) >= 1
    assert values['bowstring_slow_batches_bytes{state="waiting"}'] == "0.0"
    assert values["bowstring_slow_batches_parked_connections"] == "0.0"
    assert values['bowstring_requests_total{api="CreateTopics"}'] == "1.0"
    assert values['bowstring_request_seconds_count{api="CreateTopics"}'] == "1.0"
    assert values['bowstring_topic_records_in_total{topic="t"}'] == "30.0"
    assert values['bowstring_topic_records_out_total{topic="t"}'] == "30.0"
    bytes_in = float(values['bowstring_topic_bytes_in_total{topic="t"}'])
    assert float(values['bowstring_topic_bytes_out_total{topic="t"}']) == bytes_in > 30
    assert float(values['bowstring_log_size_bytes{topic="t"}']) == bytes_in
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(url + "x", timeout=HANG_S)
    for page in ("health", "ready"):
        with urllib.request.urlopen(url.replace("metrics", page), timeout=HANG_S) as response:
            assert response.status == 200


def test_the_service_manager_is_told(start, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(HANG_S)
        process = start(env=os.environ | {"NOTIFY_SOCKET": str(tmp_path / "notify")})
        told = [manager.recv(4096).decode() for _ in range(3)]
        assert told == [
            "STATUS=opening the logs\n",
            "STATUS=joining the cluster\n",
            "READY=1\nSTATUS=serving as node 1\n",
        ]
        assert process.stop() == 0
        assert manager.recv(4096) == b"STOPPING=1\nSTATUS=stopping\n"


def test_text_logs_have_facts(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "bowstring", "serve", "--data", str(tmp_path / "data"), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = next(line for line in process.stderr if " INFO ready " in line)
        assert " INFO ready version=" in line
        assert f"directory={tmp_path / 'data'}" in line
    finally:
        process.send_signal(signal.SIGTERM)
        _, rest = process.communicate(timeout=HANG_S)
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

    def ticks_of_two_seconds():
        before = cpu_ticks()
        pause(2.0, "nothing happens")
        return cpu_ticks() - before

    wait_until(lambda: ticks_of_two_seconds() <= 1, "it is never idle")  # its start may continue for a while
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        resident_kib = int(next(line for line in file if line.startswith("VmRSS")).split()[1])
    assert resident_kib <= 40 * 1024


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=HANG_S) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_console_ends_with_the_broker(start, number):
    process = start("--console=0")
    url = process.wait_for("console")["line"].split()[2]
    assert url.startswith("http://127.0.0.1:")
    assert answers(url)
    process.stop(number)
    wait_until(lambda: not answers(url), f"{url} answers without a broker")


def test_a_console_that_fails_does_not_end_the_broker(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = start(f"--console={taken.getsockname()[1]}")
        assert "choose another --port" in process.wait_for("console")["line"]
        assert process.wait_for("the console ended; it starts again")["status"] == 1
        assert WireClient(process.port).ask(md.MetadataRequest(topics=[])).error_code == 0
        assert process.stop() == 0
