"""The tests are checked like the code: where they are, and that shared code exists once."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
# Names that begin with an underscore and are no secret: of named tuples, of the standard library and of other projects
# (columns of Spark's frames, its gateway to the JVM, codes of librdkafka, pytest-xdist, kafka-python), which have no other.
NOT_OURS = {
    *("_replace", "_asdict", "_fields", "_exit"),
    *("_error", "_bad", "_jvm", "_jdf", "_jsc", "_jsparkSession", "_gateway"),
    *("_FATAL", "_BAD_MSG", "_PARTITION_EOF", "_AUTHENTICATION", "_SSL", "_assign_work_unit", "_coordinator"),
    "_ALL_BROKERS_DOWN",
}
# Our own private names that tests use, by file, each with the reason why there is no public one.
PRIVATE = {
    "unit/test_tables.py": {"_repr_html_": "the method that notebooks call"},
    "support/embedded.py": {
        "_running": "users of an embedded broker have no business in its parts; this is the tests' one way in",
        "_loop": "the same",
    },
    "simulation/cluster/faults.py": {
        "_Change": "a fault is patched in where the decision is",
        "_check_epochs": "the same",
        "_isr_changed": "the same",
    },
    "simulation/cluster/loop.py": {
        "_set_running_loop": "asyncio has it for loops that others write",
        "_run": "of its handles, which such a loop runs",
        "_callback": "the same",
        "_args": "the same",
        "_context": "the same",
    },
    "simulation/cluster/transaction_faults.py": {
        "_append": "a fault is patched in where the decision is",
        "_check_bumping": "the same",
        "_replay": "the same",
        "_settle": "the same",
    },
    "simulation/producer/lives.py": {"_sender": "its thread has ended when the producer is closed"},
    "unit/storage/test_checkpoint_beside_deletion.py": {
        "_logs": "a write-ahead log without its constructor, which would make files and threads",
        "_held": "the same",
        "_when_checkpointed": "the same",
    },
    "unit/broker/test_embedded.py": {
        "_main": "a thread that begins late, and a stop that comes before it",
        "_ask_to_stop": "the same",
        "_thread": "the same",
    },
    "unit/security/test_audit_topic.py": {"_PAUSE_S": "a test does not wait for a second"},
    "unit/security/test_audit_log.py": {
        "_opened": "root may open everything, so a refusal is played",
        "_RETRY_S": "a test does not wait for seconds",
    },
    "unit/storage/test_staged_tails.py": {"_boot_file": "no machine can be asked to hide its boot id"},
    "support/offline_producer.py": {
        "_header_pairs": "the same",
        "_no_partition": "the same",
        "_partition_number": "the same",
        "_timestamp_ms": "the same",
        "_topic_name": "the same",
    },
    "system/bad_input/test_clients_and_bad_input.py": {
        "_sender": "makes a producer forget its broker, which no broker can do",
    },
    "unit/clients/config/test_config_table.py": {
        "_max_poll_records": "what became of a setting; it shows only with a broker that is slow in the right way",
        "_group": "the same",
        "_timeout_s": "the same",
    },
    "unit/clients/net/test_purposes.py": {
        "_failures": "how often a broker has failed, which only slows clients"
    },
    "unit/clients/consumer/test_fetcher.py": {"_positions": "waits until records wait for polls"},
    "unit/clients/consumer/test_local_fetch.py": {
        "_fetcher": "tells records that came from files from those that came over TCP, which are equal",
        "_local": "the same",
    },
    "unit/clients/consumer/test_local_reader.py": {
        "_idle_timeout_s": "is short only once the reader has what it is to read",
    },
    "unit/clients/consumer/test_arrow_reading.py": {"_positions": "how many bytes wait for polls"},
    "unit/clients/consumer/test_unfinished.py": {"_group": "closing fails, which no broker makes happen"},
    "unit/clients/group/test_member.py": {
        "_group": "a generation that has passed, without the races of a rebalance",
        "_member": "the same",
        "_threads": "a poll that comes too late once, and never again",
        "_max_poll_interval_s": "the same",
    },
    "unit/clients/net/test_metadata.py": {
        "_asked": "metadata that was asked for shows nowhere until it comes"
    },
    "unit/clients/producer/test_callbacks.py": {
        "_sender": "a signal comes while a caller waits for room; and whether the thread has ended",
        "_connections": "how many bytes wait to be written",
    },
    "unit/clients/producer/test_producer_lifetime.py": {"_sender": "whether the thread has ended"},
    "unit/clients/producer/test_transactions.py": {"_sender": "whether an abort waits for an answer"},
    "unit/clients/test_troubles.py": {
        "_cluster": "a topic that is asked for no more shows nowhere",
        "_sender": "the same",
    },
    "unit/groups/test_administration.py": {"_heap": "bounds what a queue keeps for timers that are gone"},
    "simulation/nodes/acknowledged_changes.py": {"_rules": "what the reactors must follow, from the image"},
    "unit/security/test_token_endpoint.py": {
        "_renewing": "a failed renewal changes nothing that can be seen"
    },
    "simulation/nodes/faults.py": {
        "_NOTHING": "a fault is patched in where the decision is",
        "_ServedLogs": "the same",
        "_carry_out": "the same",
        "_replayed": "the same",
        "_send_heartbeat": "the same",
    },
    "simulation/nodes/leftovers.py": dict.fromkeys(
        (
            *(
                "_appends",
                "_asked",
                "_assignments",
                "_busy",
                "_checks",
                "_count",
                "_ends",
                "_failed_loads",
            ),
            *(
                "_free",
                "_hosted",
                "_left",
                "_missing_since_s",
                "_on_their_way",
                "_others",
            ),
            *("_queues", "_running", "_sender", "_serving", "_tasks", "_to_load"),
            *("_turns", "_urgent", "_waiting"),
        ),
        "what waits in a shipped node is of no use to others, and must go all the same",
    ),
    "simulation/nodes/logs.py": {
        "_durable": "of its own double of the write-ahead log",
    },
    "simulation/nodes/loop.py": {
        "_max_workers": "asyncio has it for loops that others write",
        "_run": "the same",
        "_set_running_loop": "the same",
    },
    "simulation/nodes/network.py": {
        "_end": "of the other end of its own connection",
        "_random": "the same",
    },
    "simulation/nodes/node.py": {
        "_control_fd": "a shipped node without its threads and descriptors",
        "_is_open": "the same",
        "_log": "the same",
        "_supply_fd": "the same",
        "_with_metadata": "the same",
    },
    "simulation/nodes/plane.py": {
        "_durable": "of its own double of the write-ahead log",
        "_tell": "the same",
    },
    "simulation/nodes/power.py": {
        "_is_open": "files of the metadata log are cut where a loss of power would",
        "_log": "the same",
    },
    "simulation/nodes/process.py": {
        "_fail": "a killed process ends the streams that it has open",
    },
    "simulation/nodes/world.py": {
        "_end": "of its own network and loop",
        "_queue": "the same",
    },
    "simulation/storage/one_thread_broker.py": {
        "_is_open": "a crash leaves the metadata log as it is",
        "_log": "the same",
    },
    "simulation/test_metadata_crashes.py": {
        "_is_open": "a crash leaves the metadata log as it is",
        "_log": "the same",
    },
    "spark/test_exactly_once.py": {
        "_pack": "a decision as an earlier version wrote it",
    },
    "unit/broker/test_cluster.py": {
        "_act": "holds an event of replication back until the test lets it go",
        "_events": "the same",
    },
    "unit/broker/test_image_follower.py": {
        "_Change": "one change, carried out while the image changes again",
        "_carry_out": "the same, without the task that waits for changes",
    },
    "unit/broker/test_dispatcher.py": {
        "_begins": "a request without a task that fails or waits",
        "_loop": "answers of another moment",
    },
    "unit/broker/test_lifecycle.py": {
        "_STILL_FENCED_S": "shorter pauses between lines of the log",
    },
    "unit/broker/test_order_of_requests.py": {
        "_answer_kept": "sees each request begin, whatever answers it",
        "_count": "the same",
    },
    "unit/controller/test_service.py": {
        "_leadership": "the state that a decision had when it failed",
    },
    "unit/groups/test_service_roles.py": {
        "_FIRST_PAUSE_S": "a shorter pause before a shard is loaded again",
    },
    "unit/network/test_connection.py": {
        "_reader": "a connection that its peer has closed while it was idle",
    },
    "unit/quorum/test_forwards.py": {
        "_bytes": "what is counted is given back on every way out",
        "_count": "the same",
        "_free": "the same",
        "_on_their_way": "the same",
        "_waiting": "the same",
    },
    "unit/quorum/test_leader_requests.py": {
        "_answering": "requests of a node that has stopped must be gone",
        "_handlers": "has the test answer an API of a real controller",
        "_made_connections": "whether there is a connection shows nowhere else",
        "_to_leader": "the same",
        "_others": "waits until requests wait for the controller",
        "_turns": "the same",
        "_urgent": "the same",
    },
    "unit/quorum/test_own_cluster.py": {
        "_log": "what a crash leaves, and a log whose begin is gone",
        "_replica": "voters of another broker",
    },
    "unit/quorum/test_service.py": {
        "_turns": "holds the turn that requests wait for",
        "_urgent": "the same",
    },
    "unit/spark/test_python_source.py": {
        "_say_which_engine": "the warning of a process, made anew",
    },
    "unit/storage/test_durability.py": {
        "_loop": "the loop that callbacks are posted to",
    },
    "unit/storage/test_log_manager.py": {
        "_configs": "a log that is gone while its configs change",
        "_logs": "the same",
        "_leaving": "the same",
        "_directories": "checkpoints alone, of logs that are not opened",
        "_written": "the same",
        "_writing": "the same",
    },
    "unit/test_background.py": {
        "_PAUSE_S": "a shorter pause before a task begins anew",
    },
    "unit/transactions/test_service.py": {
        "_FIRST_PAUSE_S": "a shorter pause before a shard is loaded again",
        "_answer_in_time": "an answer that is late behind another",
    },
}
# Listeners at 127.0.0.1, each with the reason why clients of other tests may reach them.
SHARED_ADDRESS = {
    "system/bad_input/meddler.py": "forwards to a real broker, in whose answers its address is to have the same length",
    "system/test_serve.py": "takes the port that a console is to find taken",
    "unit/cluster/test_ports.py": "takes a port that is not to be given; accepts nobody",
    "unit/server/test_listeners.py": "takes the port that a broker is to find taken",
}
# Calls that change or read an attribute by its name.
PATCHING = {"setattr", "getattr", "delattr", "hasattr", "patch", "object"}


@cache
def sources() -> dict[Path, ast.Module]:
    """Every file below tests/, parsed on first use, as every worker imports this file."""
    return {path: ast.parse(path.read_text()) for path in sorted(TESTS.rglob("*.py"))}


def imported(tree: ast.Module) -> set[str]:
    """Modules below `tests`, and names in them, that a file imports."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: import it by its full name"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.startswith("tests.")}


def test_no_test_imports_another_test():
    """Code shared by two tests is in tests/support, or beside the tests of its suite under its own name."""
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path, tree in sources().items()
        for name in imported(tree)
        if any(part.startswith("test_") or part == "conftest" for part in name.split("."))
    ]
    assert not wrong, "\n".join(wrong)


def test_unit_tests_mirror_the_packages():
    packages = {
        str(path.relative_to(top).parent)
        for top in (ROOT / "_native", ROOT / "engine", ROOT / "python" / "bowstring")
        for path in top.rglob("__init__.py")
    } | {"bench", "docs", "pages", "project", "."}
    folders = {str(path.relative_to(TESTS / "unit").parent) for path in (TESTS / "unit").rglob("*.py")}
    nowhere = folders - packages
    assert not nowhere, f"folders under tests/unit that no package is called as: {sorted(nowhere)}"


def test_every_folder_is_a_package():
    """A package distinguishes two files of one name."""
    lacking = {path.parent for path in sources()} - {
        path.parent for path in sources() if path.name == "__init__.py"
    }
    assert not lacking, f"no __init__.py in {sorted(map(str, lacking))}"


def test_waiting_stands_once():
    """Hand-written loops over a condition have their own deadlines, some of them too short."""
    names = ("until", "wait_until", "wait_for", "eventually")
    found = [
        f"{path.relative_to(ROOT)}: {node.name}"
        for path, tree in sources().items()
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name in names
    ]
    assert found == ["tests/support/waiting.py: wait_until"]


def test_doubles_listen_at_addresses_of_their_own():
    """A client of another test may look for its broker at 127.0.0.1 on a port that a double has by now."""
    listeners = ("create_server", "start_server", "HTTPServer", "ThreadingHTTPServer")
    found = {
        path.relative_to(TESTS).as_posix()
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in listeners
        and any(isinstance(each, ast.Constant) and each.value == "127.0.0.1" for each in ast.walk(node))
    }
    assert found == set(SHARED_ADDRESS), "use own_address (tests/support/addresses.py)"


def test_sleeps_say_why():
    """A sleep instead of a wait makes a test slow on quick machines and wrong on slow ones.

    `sleep(0)` lets other work proceed. A wait for something outside the test is a `pause` with its reason,
    also in programs that tests start.
    """
    found = []
    for path, tree in sources().items():
        if path == TESTS / "support" / "waiting.py":
            continue
        allowed = {
            node.func
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and [ast.unparse(each) for each in node.args] == ["0"]
        }
        for node in ast.walk(tree):
            is_sleep = isinstance(node, ast.Attribute) and node.attr == "sleep" and node not in allowed
            is_imported = isinstance(node, ast.alias) and node.name == "sleep"
            is_in_program = (
                isinstance(node, ast.Constant) and isinstance(node.value, str) and ".sleep(" in node.value
            )
            if is_sleep or is_imported or (is_in_program and path != Path(__file__)):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not found, f"use wait_until, or pause with a reason (tests/support/waiting.py): {found}"


def private_names(tree: ast.Module) -> set[str]:
    """Private names of other objects that a file reads, imports or patches."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found |= set() if own else {node.attr}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PATCHING:
            strings = [each.value for each in node.args if isinstance(each, ast.Constant)]
            found |= {part for each in strings if isinstance(each, str) for part in each.split(".")}
    return (
        {name for name in found if name.startswith("_") and not name.startswith("__")}
        - NOT_OURS
        - {"_native"}
    )


def test_private_names_are_left_alone():
    """A test of internals fails when they change, and passes when the behaviour breaks."""
    found = {
        path.relative_to(TESTS).as_posix(): names
        for path, tree in sources().items()
        if (names := private_names(tree))
    }
    assert found == {path: set(reasons) for path, reasons in PRIVATE.items()}


def test_no_function_stands_twice():
    """Except fixtures: each belongs to its module."""
    places = defaultdict(list)
    for path, tree in sources().items():
        for node in tree.body:
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and not node.decorator_list
            ):
                text = "\n".join(ast.unparse(each) for each in node.body[bool(ast.get_docstring(node)) :])
                if text.count("\n") >= 2:
                    places[text].append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    twice = [" = ".join(found) for found in places.values() if len(found) > 1]
    assert not twice, "\n".join(twice)
