"""bowstring.spark.session(), the jar and the command that names it."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import bowstring
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.spark import sessions
from bowstring.spark.jar import jar_path
from bowstring.spark.sessions import JavaMissingError, has_jar, session
from tests.support.waiting import HANG_S


def bowstring_command(*arguments):
    command = [sys.executable, "-m", "bowstring", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)


def test_the_session_has_the_jar_and_the_defaults(spark):
    assert has_jar(spark)
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert str(jar_path()) in spark.sparkContext.getConf().get("spark.jars")


def test_workers_load_pyspark_without_compiling_it(spark):
    def where(_):
        import pyspark

        return pyspark.__file__

    import pyspark

    assert spark.sparkContext.parallelize([0], 1).map(where).first() == pyspark.__file__


def test_a_running_session_is_joined(spark):
    again = session("other name", **{"spark.sql.ansi.enabled": False})
    try:
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.ansi.enabled") == "false"
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    with pytest.raises(ClientError, match=r"spark\.driver\.memory cannot be changed in a running session"):
        session(**{"spark.driver.memory": "9g"})


def test_another_thread_joins_the_session(spark):
    with ThreadPoolExecutor(1) as other:
        assert other.submit(session).result().sparkContext is spark.sparkContext
        refused = other.submit(session, **{"spark.driver.memory": "9g"})
        with pytest.raises(ClientError, match=r"spark\.driver\.memory cannot be changed"):
            refused.result()


def test_fast_checkpoints_are_a_setting(spark):
    joined = session(fast_checkpoints=True)
    assert joined.conf.get(sessions.CHECKPOINT_CLASS_SETTING) == sessions.CHECKPOINT_CLASS
    joined.conf.unset(sessions.CHECKPOINT_CLASS_SETTING)


def test_the_command_prints_the_path_of_the_jar():
    ran = bowstring_command("spark-jar")
    assert (ran.returncode, ran.stdout) == (0, f"{jar_path()}\n")


@pytest.fixture
def jre_only(tmp_path):
    """The environment of a machine that has a JRE and no JDK, with an installation without the jar (`WITHOUT_JAR`)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for folder in dict.fromkeys(os.environ["PATH"].split(":")):
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            if not name.startswith("java") and not (programs / name).exists():
                (programs / name).symlink_to(os.path.join(folder, name))
    (programs / "java").write_text(f'#!/bin/sh\nexec {shutil.which("java")} "$@"\n')
    (programs / "java").chmod(0o755)
    environment = {**os.environ, "PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    environment.pop("JAVA_HOME", None)
    return environment


WITHOUT_JAR = "import pathlib, bowstring.spark.jar as jar; jar.JAR = pathlib.Path('/nowhere/x.jar')\n"
COMMAND = WITHOUT_JAR + "import sys; from bowstring.__main__ import main; sys.argv[0] = 'bowstring'; main()"
NO_JAVAC = "there is no javac of version 17 or newer"


def run_without_jar(environment, code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment, check=False)


def test_without_a_jdk_the_command_says_what_to_do(jre_only):
    ran = run_without_jar(jre_only, COMMAND, "spark-jar")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1 and NO_JAVAC in ran.stderr and "apt-get install" in ran.stderr


def test_without_a_jdk_the_python_engine_serves(jre_only, broker, make_topic):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with bowstring.Producer(servers) as producer:
        producer.send(topic, b"value").result(HANG_S)
    code = WITHOUT_JAR + (
        "import bowstring.spark\n"
        "settings = {'spark.driver.memory': '600m', 'spark.ui.enabled': False}\n"
        "spark = bowstring.spark.session(master='local[1]', fast_checkpoints=True, **settings)\n"
        f"reader = spark.read.format('bowstring').option('kafka.bootstrap.servers', '{servers}')\n"
        f"print([bytes(row.value) for row in reader.option('subscribe', '{topic}').load().collect()])\n"
        "print(bowstring.spark.session() is spark)\n"
        "spark.stop()\n"
    )
    ran = run_without_jar(jre_only, code)
    assert ran.stdout == "[b'value']\nTrue\n", ran.stderr[-3000:]
    # Spark's workers say it too, without the reason.
    (line,) = [line for line in ran.stderr.splitlines() if "Python engine" in line and NO_JAVAC in line]
    assert line.startswith('the Python engine serves format("bowstring"), which is several times slower')


def test_without_a_jdk_a_pipeline_runs(jre_only, broker, make_topic, tmp_path):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with bowstring.Producer(servers) as producer:
        producer.send(topic, b"value").result(HANG_S)
    file = tmp_path / "p.toml"
    file.write_text(
        f'name = "x"\ncheckpoint = "state"\nbootstrap_servers = "{servers}"\n'
        f'[source.a]\ntopics = ["{topic}"]\nformat = "text"\n'
        '[sink.b]\nfrom = "a"\nparquet = "out"\n'
        '[spark]\nmaster = "local[1]"\n"spark.driver.memory" = "600m"\n"spark.ui.enabled" = false\n'
    )
    ran = run_without_jar(jre_only, COMMAND, "pipeline", "run", str(file))
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert "b read 1 records" in ran.stderr and ran.stderr.count(NO_JAVAC) == 1


def test_names_that_are_no_settings_of_sparks():
    with pytest.raises(ConfigError, match=r"no argument fast_checkpoint, .* did you mean fast_checkpoints\?"):
        session(fast_checkpoint=True)
    with pytest.raises(ConfigError, match=r"no argument speed, .*spark\.sql\.shuffle\.partitions"):
        session(speed=11)


@pytest.mark.parametrize(
    ("version", "message"), [(None, "JAVA_HOME=.* has no java"), ("11.0.2", r"version .11\.0\.2.")]
)
def test_without_a_java_that_will_do(monkeypatch, tmp_path, version, message):
    (tmp_path / "bin").mkdir()
    if version is not None:
        java = tmp_path / "bin" / "java"
        java.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}" 2019-01-15' >&2\n""")
        java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissingError, match=message):
        sessions.require_java()


def test_without_pyspark():
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "import bowstring.spark\n"
        "try: bowstring.spark.session()\n"
        "except bowstring.spark.sessions.SparkMissingError as error: print(error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert ran.stdout == "PySpark is not installed: pip install 'bowstring[spark]'\n"


def test_the_jar_is_added_to_a_session_started_without_it():
    code = (
        "from pyspark.sql import SparkSession\n"
        "SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".config('spark.driver.memory', '600m').getOrCreate()\n"
        "import bowstring.spark\n"
        "from bowstring.spark.sessions import has_jar\n"
        "print(has_jar(bowstring.spark.session()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        env={**os.environ},
        check=False,
    )
    assert ran.stdout.strip() == "True", ran.stderr[-2000:]


def test_spark_connect_takes_the_session_of_its_server(python_spark):
    assert python_spark.range(10).count() == 10


def test_a_connect_server_in_this_process_has_the_columnar_engine(broker, make_topic):
    servers = broker.bootstrap_servers
    topic = make_topic(servers)
    with bowstring.Producer(servers) as producer:
        producer.send(topic, b"value").result(HANG_S)
    code = (
        "import bowstring.spark\n"
        "settings = {'spark.driver.memory': '600m', 'spark.ui.enabled': False}\n"
        "spark = bowstring.spark.session(remote='local[2]', **settings)\n"
        f"reader = spark.read.format('bowstring').option('kafka.bootstrap.servers', '{servers}')\n"
        f"frame = reader.option('subscribe', '{topic}').load()\n"
        "print(type(spark).__module__, [bytes(row.value) for row in frame.select('value').collect()])\n"
        "frame.explain()\n"
        "spark.stop()\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "SPARK_TESTING": "1"},  # any free port instead of 15002
        check=False,
    )
    assert "pyspark.sql.connect.session [b'value']" in ran.stdout, ran.stderr[-3000:]
    assert "bowstring columnar" in ran.stdout
