"""The wheel that `make wheels` publishes, in an environment that has neither a compiler nor a JDK."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from deploy import wheels
from tests.install.installed import NATIVE, ROOT, Installed
from tests.support.page_run import printed_lines
from tests.support.pages import blocks
from tests.support.serving import Process
from tests.support.waiting import HANG_S

TOOLS = ("cc", "gcc", "clang", "c++", "ld", "make", "java", "javac")
# It has 4 MiB. One with symbols has more than 10.
SIZE_MAX_MIB = 7


def test_the_wheel_is_one_to_publish(release: Path) -> None:
    """With the jar, without sources and symbols, for other machines than this one."""
    wheels.check(release)
    assert release.stat().st_size <= SIZE_MAX_MIB * wheels.MIB
    with zipfile.ZipFile(release) as opened:
        extensions = [name for name in opened.namelist() if name.endswith(".so")]
    assert len(extensions) == len({path.parent for path in (ROOT / NATIVE).rglob("*.pyx")})


def test_there_is_neither_a_compiler_nor_a_jdk(bare: Installed, tmp_path: Path) -> None:
    look = f"import os, shutil; print(list(filter(shutil.which, {TOOLS})), os.environ.get('JAVA_HOME'))"
    assert bare.run(["python", "-c", look], tmp_path).stdout == "[] None\n"


def test_readmes_example(bare: Installed, tmp_path: Path) -> None:
    (example,) = (block for block in blocks(ROOT / "README.md") if block.language == "python")
    ran = bare.run(["python", "-c", example.text], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == printed_lines(example.text) != []


def test_the_jar_needs_no_jdk(bare: Installed, tmp_path: Path) -> None:
    ran = bare.run(["bowstring", "spark-jar"], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert Path(ran.stdout.strip()).is_relative_to(bare.folder)


@pytest.fixture
def served(bare: Installed, tmp_path: Path) -> Iterator[Process]:
    program = [str(bare.folder / "bin" / "bowstring")]
    options = ["--data", str(tmp_path / "data"), "--port", "0"]
    process = Process(*options, program=program, env=bare.environment)
    yield process
    process.stop()


def test_a_client_of_another_make(served: Process) -> None:
    """librdkafka, through what `bowstring serve` serves."""
    servers = {"bootstrap.servers": f"127.0.0.1:{served.port}"}
    producer = confluent_kafka.Producer(servers)
    producer.produce("greetings", b"hello", key=b"me")
    assert producer.flush(HANG_S) == 0
    consumer = confluent_kafka.Consumer({**servers, "group.id": "readers"})
    consumer.assign([confluent_kafka.TopicPartition("greetings", 0, 0)])
    record = consumer.poll(HANG_S)
    consumer.close()
    assert record.error() is None and (record.key(), record.value()) == (b"me", b"hello")
    assert served.stop() == 0
