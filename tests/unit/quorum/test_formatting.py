"""`bowstring format`: what it writes, and what it refuses before it writes."""

import pytest

from bowstring.engine.broker.node_format import format_plan
from bowstring.engine.configs import ConfigError
from bowstring.engine.metadata.snapshot import BOOTSTRAP_ID, SnapshotId, decode_snapshot
from bowstring.engine.quorum.formatting import FormatOptions, carry_out
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.protocol.ids import format_uuid, parse_uuid

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY = format_uuid(b"a directory's id")
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def settings(tmp_path, **more):
    return {
        "node.id": "1",
        "process.roles": "controller",
        "log.dirs": f"{tmp_path}/a,{tmp_path}/b",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def run(tmp_path, more=None, **options):
    options.setdefault("cluster_id", CLUSTER)
    plan = format_plan(settings(tmp_path, **(more or {})), FormatOptions(**options))
    carry_out(plan)
    return plan


def first_levels(directory):
    data = (directory / "bootstrap.checkpoint").read_bytes()
    return decode_snapshot(data, SnapshotId(1, 0))[0].features


def facts(directory):
    lines = (directory / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


def test_standalone(tmp_path):
    run(tmp_path, standalone=True)
    found = facts(tmp_path / "a")
    assert (found["cluster.id"], found["node.id"], found["version"]) == (CLUSTER, "1", "1")
    _, quorum = decode_snapshot((tmp_path / "a" / SNAPSHOT).read_bytes(), BOOTSTRAP_ID)
    assert quorum.kraft_version == 1
    (voter,) = quorum.voters.voters
    assert (voter.voter_id, format_uuid(voter.voter_directory_id)) == (1, found["directory.id"])
    assert [(each.host, each.port) for each in voter.endpoints] == [("127.0.0.1", 9093)]
    assert first_levels(tmp_path / "a") == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "transaction.version": 2,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
    }
    assert facts(tmp_path / "b")["directory.id"] != found["directory.id"]
    assert not (tmp_path / "b" / SNAPSHOT).exists()


def test_initial_controllers(tmp_path):
    listed = [f"1@127.0.0.1:9093:{DIRECTORY}", f"2@[::1]:9094:{CLUSTER}"]
    run(tmp_path, initial_controllers=listed)
    assert facts(tmp_path / "a")["directory.id"] == DIRECTORY
    _, quorum = decode_snapshot((tmp_path / "a" / SNAPSHOT).read_bytes(), BOOTSTRAP_ID)
    assert [(each.voter_id, each.voter_directory_id) for each in quorum.voters.voters] == [
        (1, parse_uuid(DIRECTORY)),
        (2, parse_uuid(CLUSTER)),
    ]


def test_a_broker_and_configured_voters_get_no_voters(tmp_path):
    run(tmp_path, {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"})
    assert not (tmp_path / "a" / SNAPSHOT).exists()
    configured = {
        "controller_quorum_voters": "1@127.0.0.1:9093",
        "controller_quorum_bootstrap_servers": "",
        "log_dirs": f"{tmp_path}/c",
    }
    assert run(tmp_path, configured).features["kraft.version"] == 0
    assert not (tmp_path / "c" / SNAPSHOT).exists()


@pytest.mark.parametrize(
    ("level", "others"),
    [
        (21, {}),
        (23, {"group.version": 1}),
        (30, {"eligible.leader.replicas.version": 1, "share.version": 1, "streams.version": 1}),
        (31, {"eligible.leader.replicas.version": 1, "share.version": 2, "streams.version": 1}),
    ],
)
def test_a_level_of_metadata_brings_those_of_its_release(tmp_path, level, others):
    run(tmp_path, standalone=True, features={"metadata.version": level})
    since = {"group.version": 1, "transaction.version": 2} if level >= 24 else {}
    assert first_levels(tmp_path / "a") == {"metadata.version": level, **since, **others}


def test_a_feature_has_the_level_that_is_asked_for(tmp_path):
    run(tmp_path, standalone=True, features={"metadata.version": 30, "share.version": 0, "group.version": 0})
    levels = first_levels(tmp_path / "a")
    assert "share.version" not in levels and "group.version" not in levels
    assert levels["metadata.version"] == 30


def test_formatted_directories_are_refused_or_left_alone(tmp_path):
    run(tmp_path, {"log_dirs": f"{tmp_path}/a"}, standalone=True)
    before = facts(tmp_path / "a")
    with pytest.raises(DataDirectoryError, match=r"already formatted .* --ignore-formatted"):
        run(tmp_path, standalone=True)
    assert not (tmp_path / "b").exists()
    plan = run(tmp_path, standalone=True, ignore_formatted=True)
    assert [path.name for path in plan.present] == ["a"]
    assert facts(tmp_path / "a") == before
    assert facts(tmp_path / "b")["cluster.id"] == CLUSTER


@pytest.mark.parametrize("ignore", [False, True])
def test_directories_of_others_are_refused(tmp_path, ignore):
    run(tmp_path, {"log_dirs": f"{tmp_path}/a"}, standalone=True)
    other = "zzzzzzzzzzzzzzzzzzzzzz"
    with pytest.raises(DataDirectoryError, match=f"belongs to cluster {CLUSTER}, not to {other}; give"):
        run(tmp_path, standalone=True, cluster_id=other, ignore_formatted=ignore)
    with pytest.raises(DataDirectoryError, match=r"belongs to node 1, but node.id is 2; set node.id=1"):
        run(tmp_path, {"node_id": "2"}, standalone=True, ignore_formatted=ignore)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        ({}, {}, "give --standalone, --initial-controllers or --no-initial-controllers"),
        ({}, {"standalone": True, "no_initial_controllers": True}, "exclude each other"),
        (
            {"controller_quorum_voters": "1@a:1"},
            {"standalone": True},
            "voters names nodes 1; leave the option",
        ),
        (
            {"process_roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:9092"},
            {"standalone": True},
            "process.roles is broker",
        ),
        ({}, {"initial_controllers": ["1@a:1"]}, "'1@a:1' is not a controller; write id@host:port:directory"),
        ({}, {"initial_controllers": ["1@a:1:x"]}, "'x' in '1@a:1:x' is not a directory id"),
        ({}, {"initial_controllers": [f"2@a:1:{DIRECTORY}"]}, r"node.id=1 is not among .* \(nodes 2\)"),
        (
            {},
            {"initial_controllers": [f"1@a:1:{DIRECTORY}", f"1@b:1:{CLUSTER}"]},
            "names node 1 twice",
        ),
        (
            {},
            {"initial_controllers": [f"1@a:1:{DIRECTORY}", f"2@b:1:{DIRECTORY}"]},
            "to two nodes",
        ),
        ({}, {"standalone": True, "cluster_id": "no id!"}, "'no id!' is not a cluster id"),
        ({}, {"standalone": True, "features": {"metadata.version": 99}}, "supports 7 to 33"),
        ({}, {"standalone": True, "features": {"colour": 1}}, "supports only metadata.version"),
        (
            {},
            {"standalone": True, "features": {"metadata.version": 22, "eligible.leader.replicas.version": 1}},
            "needs metadata.version=23 or higher",
        ),
        ({}, {"standalone": True, "features": {"kraft.version": 0}}, "it must be 1"),
        ({}, {"no_initial_controllers": True, "features": {"kraft.version": 1}}, "1 needs --standalone"),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:9092"},
            {"standalone": True},
            "none of controller.listener.names",
        ),
    ],
)
def test_what_is_wrong_is_told_and_nothing_is_written(tmp_path, more, options, words):
    with pytest.raises(ConfigError, match=words):
        run(tmp_path, more, **options)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_with_partitions_but_no_identity_is_refused(tmp_path):
    (tmp_path / "a" / "t-0").mkdir(parents=True)
    (tmp_path / "a" / "t-0" / "partition.metadata").write_text("version: 0\n")
    with pytest.raises(DataDirectoryError, match=r"holds partitions, but no meta.properties"):
        run(tmp_path, standalone=True)
