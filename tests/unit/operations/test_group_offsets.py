"""Files of offsets that `bowstring groups reset-offsets --from-file` reads."""

import pytest

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition
from bowstring.operations.group_offsets import read_offsets


@pytest.mark.parametrize(
    "data",
    [b"t\xe9,0,1\n", b"t" * 200_000 + b",0,1\n", b"t,0,\x001\n", b"t,0\n", b"h,t,0,1\n", b""],
    ids=["not UTF-8", "a huge field", "a null byte", "two fields", "another group", "empty"],
)
def test_a_malformed_file_is_refused(tmp_path, data):
    path = tmp_path / "offsets.csv"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=str(path)):
        read_offsets(path, "g")


def test_lines_of_the_group_count(tmp_path):
    path = tmp_path / "offsets.csv"
    path.write_text('t,0,5\n\ng,"a,b",1,7\nother,t,0,9\n', encoding="utf-8-sig")  # as spreadsheets write it
    assert read_offsets(path, "g") == {TopicPartition("t", 0): 5, TopicPartition("a,b", 1): 7}
