"""LocalCheckpointFileManager: the contract that Spark's own tests check, and kill -9 while it writes."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

import bowstring
from bowstring.spark.jar import jar_path
from bowstring.spark.sessions import CHECKPOINT_CLASS, CHECKPOINT_CLASS_SETTING
from bowstring.spark.sessions import session as join_session
from tests.support.waiting import HANG_S, pause

SPARKS_OWN = "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
HERE = Path(__file__).resolve().parent


class Files:
    """A manager of a directory, called as Spark calls it."""

    def __init__(self, spark, root):
        self.jvm = spark._jvm
        self.root = str(root)
        conf = spark._jsc.hadoopConfiguration()
        self.manager = self.jvm.bowstring.spark.LocalCheckpointFileManager(self.path(""), conf)

    def path(self, name):
        return self.jvm.org.apache.hadoop.fs.Path(os.path.join(self.root, name) if name else self.root)

    def begin(self, name, content=b"", *, overwrite):
        stream = self.manager.createAtomic(self.path(name), overwrite)
        stream.write(bytearray(content))
        return stream

    def create(self, name, content, *, overwrite=False):
        self.begin(name, content, overwrite=overwrite).close()

    def read(self, name):
        stream = self.manager.open(self.path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def names(self, name=""):
        return sorted(status.getPath().getName() for status in self.manager.list(self.path(name)))

    def exists(self, name):
        return self.manager.exists(self.path(name))


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "check point %41")


def thrown(call, *arguments, **options):
    with pytest.raises(Py4JJavaError) as raised:
        call(*arguments, **options)
    return raised.value.java_exception.getClass().getName()


EXISTS = "org.apache.hadoop.fs.FileAlreadyExistsException"
NOT_FOUND = "java.io.FileNotFoundException"


def test_directories_files_and_lists(files):
    assert files.manager.isLocal()
    assert not files.exists("")
    assert thrown(files.names) == NOT_FOUND
    made = files.manager.createCheckpointDirectory()
    assert made.toString() == f"file:{files.root}"
    files.manager.mkdirs(files.path("a/b"))
    files.manager.mkdirs(files.path("a/b"))
    assert files.exists("a/b")
    files.create("a/1", b"one")
    files.create("a/2", b"")
    assert files.names("a") == ["1", "2", "b"]
    listed = {status.getPath().getName(): status for status in files.manager.list(files.path("a"))}
    assert (listed["1"].getLen(), listed["1"].isFile(), listed["b"].isDirectory()) == (3, True, True)
    assert listed["1"].getPath().toString() == f"file:{files.root}/a/1"
    assert abs(listed["1"].getModificationTime() / 1000 - time.time()) < 3600
    assert files.names("a/1") == ["1"]
    assert thrown(files.manager.mkdirs, files.path("a/1")) == EXISTS
    for name in ("a/1", "a", "a"):  # deleting a missing file is no error
        files.manager.delete(files.path(name))
        assert not files.exists(name)


def test_a_file_appears_when_it_is_whole(files):
    files.manager.mkdirs(files.path(""))
    stream = files.begin("0", b"x" * 200_000, overwrite=False)
    assert not files.exists("0")
    stream.close()
    stream.close()
    stream.cancel()  # too late: nothing happens
    assert files.read("0") == b"x" * 200_000
    assert files.names() == ["0"]


def test_what_is_there_is_not_overwritten_unless_asked(files):
    files.manager.mkdirs(files.path(""))
    files.create("0", b"first")
    assert thrown(files.create, "0", b"second") == EXISTS
    assert files.read("0") == b"first"
    assert os.listdir(files.root) == ["0"]
    files.create("0", b"third", overwrite=True)
    assert files.read("0") == b"third"
    slow = files.begin("1", b"slow", overwrite=False)
    files.create("1", b"fast")
    assert thrown(slow.close) == EXISTS
    assert files.read("1") == b"fast"
    assert sorted(os.listdir(files.root)) == ["0", "1"]


def test_a_cancelled_file_leaves_nothing(files):
    files.manager.mkdirs(files.path(""))
    for overwrite in (False, True):
        files.create("0", b"old", overwrite=True)
        stream = files.begin("0", b"new", overwrite=overwrite)
        stream.cancel()
        stream.close()
        stream.cancel()
        assert os.listdir(files.root) == ["0"]
        assert files.read("0") == b"old"


def test_files_that_are_not_there(files):
    assert thrown(files.create, "0", b"x") == NOT_FOUND
    files.manager.mkdirs(files.path(""))
    assert thrown(files.read, "0") == NOT_FOUND


def test_streams_can_seek(files):
    files.manager.mkdirs(files.path(""))
    files.create("0", bytes(range(256)))
    stream = files.manager.open(files.path("0"))
    stream.seek(200)
    assert stream.read() == 200
    stream.close()


def test_it_takes_turns_with_sparks_own_manager(files, spark):
    """Hadoop keeps checksums beside its files; an older file's must not reject a newer file."""
    package = spark._jvm.org.apache.spark.sql.execution.streaming.checkpointing
    own = package.FileContextBasedCheckpointFileManager(files.path(""), spark._jsc.hadoopConfiguration())
    files.manager.mkdirs(files.path(""))

    def write(manager, name, content):
        stream = manager.createAtomic(files.path(name), True)
        stream.write(bytearray(content))
        stream.close()

    for number in range(2):
        write(own, "0", b"by Spark %d" % number)
        assert files.read("0") == b"by Spark %d" % number
        write(files.manager, "0", b"by Bowstring, and longer %d" % number)
        stream = own.open(files.path("0"))
        assert bytes(stream.readAllBytes()) == b"by Bowstring, and longer %d" % number
        stream.close()
    assert [status.getPath().getName() for status in own.list(files.path(""))] == files.names() == ["0"]


def test_other_file_systems_keep_sparks_own_manager(spark):
    conf = spark._jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    conf.set(
        CHECKPOINT_CLASS_SETTING, CHECKPOINT_CLASS
    )  # as Spark sets it: the fallback must be Spark's manager, not ours again
    path = spark._jvm.org.apache.hadoop.fs.Path("hdfs://127.0.0.1:1/checkpoint")
    assert not spark._jvm.bowstring.spark.LocalCheckpointFileManager(path, conf).isLocal()


def test_local_files_of_another_class_keep_sparks_own_manager(spark, tmp_path):
    of = spark._jvm.bowstring.spark.checkpoint.Managers.of
    conf = spark._jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    path = spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    assert of(path, conf).getClass().getSimpleName() == "LocalFiles"
    conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    assert of(path, conf).getClass().getSimpleName() == "FileContextBasedCheckpointFileManager"


def test_a_query_uses_it_and_goes_on_with_sparks_own(spark, tmp_path):
    """The same checkpoint, written by one manager and read by the other."""
    source, out, checkpoint = (str(tmp_path / name) for name in ("in", "out", "checkpoint"))

    def run(first):
        spark.range(first, first + 10).coalesce(1).write.mode("append").parquet(source)
        rows = spark.readStream.schema("id long").parquet(source)
        writer = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        query = writer.trigger(availableNow=True).start(out)
        assert query.awaitTermination(HANG_S)

    for number in range(3):
        fast = number != 1
        if fast:
            join_session(fast_checkpoints=True)
        try:
            run(number * 10)
        finally:
            spark.conf.unset(CHECKPOINT_CLASS_SETTING)
        assert (Path(checkpoint) / "offsets" / f".{number}.crc").exists() is not fast
    assert sorted(row.id for row in spark.read.parquet(out).collect()) == list(range(30))


STREAM = """
import sys
from pyspark.sql import SparkSession

jar, way, manager, servers, topic, folder = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.sql.warehouse.dir", folder)
settings = {"spark.ui.enabled": "false", "spark.driver.memory": "600m", "spark.sql.shuffle.partitions": "2"}
if way == "spark.jars":
    settings["spark.jars"] = jar
if manager:
    settings["spark.sql.streaming.checkpointFileManagerClass"] = manager
spark = builder.config(map=settings).getOrCreate()
if way == "ADD JAR":
    spark.sql(f"ADD JAR '{jar}'")
given = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
frame = spark.readStream.format("bowstring").options(**given, maxOffsetsPerTrigger="10").load()
counts = frame.groupBy("partition").count().writeStream.outputMode("complete").format("memory")
for _ in range(2):
    query = counts.queryName("counts").option("checkpointLocation", f"{folder}/checkpoint")
    query = query.trigger(availableNow=True).start()
    query.awaitTermination(240)
print(spark.table("counts").collect() or "nothing new", query.exception())
spark.stop()
"""


@pytest.mark.parametrize(
    ("way", "manager", "ours"),
    [
        ("spark.jars", "", True),
        ("spark.jars", SPARKS_OWN, False),
        ("ADD JAR", "", False),
    ],
)
def test_a_session_of_the_users(broker, make_topic, tmp_path, way, manager, ours):
    """It serves a session that has the jar, state stores included, unless the user chooses another."""
    topic = make_topic(broker.bootstrap_servers)
    with bowstring.Producer(broker.bootstrap_servers) as producer:
        for _ in range(30):
            producer.send(topic, b"v")
        producer.flush()
    arguments = [str(jar_path()), way, manager, broker.bootstrap_servers, topic, str(tmp_path)]
    command = [sys.executable, "-c", STREAM, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout.strip().endswith("None"), ran.stderr[-3000:]
    checkpoint = tmp_path / "checkpoint"
    assert {path.name for path in (checkpoint / "commits").glob("[0-9]*")} == {"0", "1", "2"}
    for folder in ("offsets", "commits", "state/0/0"):
        assert any((checkpoint / folder).glob(".*.crc")) is not ours, folder


def test_no_partial_file_after_kill(tmp_path):
    """A JVM that writes checkpoint files is killed at any moment: every name refers to a complete file."""
    import pyspark

    class_path = f"{jar_path()}:{Path(pyspark.__file__).parent / 'jars'}/*"
    command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", class_path]
    generator = random.Random()
    written = -1
    for _ in range(2):
        process = subprocess.Popen(
            [*command, str(HERE / "WriteCheckpoints.java"), str(tmp_path / "c"), str(written + 1)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert process.stdout.readline() == "begun\n"
        first = int(process.stdout.readline())
        pause(generator.uniform(0, 0.6), "it is killed at any moment")
        process.kill()
        lines = process.stdout.read().splitlines()
        process.wait()
        written = max([written, first, *map(int, lines[:-1])])  # the last line may be torn itself
        names = {name for name in os.listdir(tmp_path / "c") if not name.startswith(".")}
        assert {str(number) for number in range(written + 1)} <= names
        for name in names:
            content = (tmp_path / "c" / name).read_bytes()
            number = int(content[:8])
            assert content == b"%08d" % number * 2000, name
            assert name == "latest" or number == int(name)
        written = max(int(name) for name in names if name != "latest")
