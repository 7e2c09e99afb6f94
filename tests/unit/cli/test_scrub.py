"""`bowstring scrub` on directories with and without damage."""

import fcntl
import hashlib
import os

import pytest

from tests.support.log_batches import batch, fill, headers, open_log, segment_name


@pytest.fixture
def data(tmp_path):
    """A data directory with two partitions of four segments."""
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=x\nnode.id=1\n")
    (tmp_path / ".lock").write_bytes(b"")
    for name in ("t-0", "u-1"):
        (tmp_path / name).mkdir()
        log = open_log(tmp_path / name, segment_bytes=8000)
        fill(log, 25)
        log.append(batch(producer_id=3, epoch=0, sequence=0), 0, 0)
        log.close()
    return tmp_path


def fingerprint(directory):
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_nothing_is_wrong(offline, data):
    before = fingerprint(data)
    done = offline("scrub", data)
    assert done.code == 0 and "2 partitions, 8 segments" in done.err and "no damage found" in done.err
    found = offline("scrub", data, "--json", "--topic", "t").json
    assert (found["partitions"], found["batches"], found["records"], found["bad"]) == (1, 26, 251, [])
    assert offline("scrub", data / "t-0").code == 0
    assert fingerprint(data) == before


def test_each_bad_place_is_named(offline, data):
    path = data / "t-0" / segment_name(70, ".log")
    content = bytearray(path.read_bytes())
    size = headers(bytes(content))[0].size_bytes
    content[size + 100] ^= 1
    content[3 * size : 5 * size] = bytes(2 * size)
    path.write_bytes(content)
    last = max((data / "u-1").glob("*.log"))
    with last.open("ab") as file:
        file.write(b"\0" * 100)
    done = offline("scrub", data)
    assert done.code == 1 and done.lines == [
        f"{path}: the batch fails its CRC-32C at byte {size:,} ({size:,} bytes), offset 80 to 89",
        f"{path}: there is no batch header at byte {3 * size:,} ({2 * size:,} bytes), offset 100 to 119",
        f"{last}: there is no batch header at byte {last.stat().st_size - 100:,} (100 bytes), offset 251 "
        "and all records after it",
    ]
    assert [bad["first_offset"] for bad in offline("scrub", data, "--json").json["bad"]] == [80, 100, 251]


def test_a_missing_segment_and_what_the_broker_makes_anew(offline, data):
    (data / "t-0" / segment_name(70, ".log")).unlink()
    (data / "u-1" / segment_name(70, ".index")).unlink()
    os.truncate(data / "u-1" / segment_name(0, ".timeindex"), 7)
    (data / "u-1" / segment_name(70, ".snapshot")).write_bytes(b"junk")
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\nt zero\n")
    done = offline("scrub", data)
    assert done.code == 1 and sum("rebuilds it" in line for line in done.lines) == 4
    assert f"{data / 't-0' / segment_name(140, '.log')}: a segment is missing before this one" in done.out
    (data / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 140\n")  # compaction leaves such gaps
    assert offline("scrub", data).code == 0


def test_a_running_broker_and_no_directory(offline, data):
    with (data / ".lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = offline("scrub", data)
    assert done.code == 1 and "in use by another broker" in done.err and "stop it first" in done.err
    done = offline("scrub", data / "nowhere")
    assert done.code == 1 and "nowhere: No such file" in done.err


def test_the_newest_segment_has_no_index_files_before_their_first_entries(offline, data):
    newest = max((data / "t-0").glob("*.log"))
    for suffix in (".index", ".timeindex"):  # as a crash leaves it
        newest.with_suffix(suffix).unlink()
    assert "rebuilds it" not in offline("scrub", data).out
    older = data / "t-0" / segment_name(70, ".timeindex")
    older.unlink()
    (line,) = [each for each in offline("scrub", data).lines if "rebuilds it" in each]
    assert line.startswith(f"{older}: the file is missing")
