"""Members of large groups are converted only while the answer is encoded."""

from bowstring.engine.groups.descriptions import converted


def test_a_small_group_is_converted_at_once():
    assert converted([1, 2], str) == ["1", "2"]


def test_a_large_group_is_converted_one_by_one():
    converted_already = []

    def convert(member):
        converted_already.append(member)
        return member

    elements = converted(range(1_000), convert)
    assert next(elements) == 0
    assert converted_already == [0]
    assert len(list(elements)) == 999
