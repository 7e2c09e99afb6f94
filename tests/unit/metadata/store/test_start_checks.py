"""Damage in the metadata log: what a crash leaves is accepted, anything else stops the start."""

import pytest

from bowstring.engine.metadata.store.start_checks import check_metadata_log, check_metadata_log_is_here
from bowstring.engine.storage.directory_lock import DataDirectoryError
from tests.support.log_batches import batch

PAGE_BYTES = 4096


@pytest.fixture
def home(tmp_path):
    """A log directory whose metadata log lacks its second page: batch 1 is damaged, batch 3 is whole."""
    batches = [batch([b"x" * 3300]) for _ in range(3)] + [batch([b"end"])]
    data = bytearray(b"".join(i.to_bytes(8, "big") + each[8:] for i, each in enumerate(batches)))
    data[PAGE_BYTES : 2 * PAGE_BYTES] = bytes(PAGE_BYTES)
    (tmp_path / "meta.properties").touch()
    metadata = tmp_path / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / f"{0:020d}.log").write_bytes(data)
    return tmp_path


def test_unsynced_records_may_be_damaged_in_any_place(home):
    check_metadata_log(home, synced_end=1)


@pytest.mark.parametrize("synced_end", [2, None])
def test_damage_before_records_that_may_be_synced_is_refused(home, synced_end):
    with pytest.raises(DataDirectoryError, match=r"is damaged at byte 33\d\d \(offset 1\)"):
        check_metadata_log(home, synced_end)


def test_a_clean_stop_leaves_no_damage(home):
    (home / ".kafka_cleanshutdown").touch()
    with pytest.raises(DataDirectoryError, match="is damaged"):
        check_metadata_log(home, synced_end=1)


def test_a_new_directory_before_the_one_with_the_log_is_refused(home, tmp_path):
    new = tmp_path / "new"
    with pytest.raises(DataDirectoryError, match=f"metadata.log.dir={home}, or name that directory first"):
        check_metadata_log_is_here(new, [new, home])
    check_metadata_log_is_here(home, [home, new])


def test_partitions_whose_metadata_log_is_nowhere_are_refused(tmp_path):
    new, empty, old = (tmp_path / name for name in ("new", "empty", "old"))
    empty.mkdir()
    check_metadata_log_is_here(new, [new, empty, old])
    (old / "a-topic-3").mkdir(parents=True)
    with pytest.raises(DataDirectoryError, match=r"old holds partitions \(a-topic-3\)"):
        check_metadata_log_is_here(new, [new, empty, old])
