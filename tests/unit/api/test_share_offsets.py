"""DescribeShareGroupOffsets."""

from bowstring.protocol.messages import describe_share_group_offsets as dso


def test_partitions_that_do_not_exist_are_not_waited_for(served, monkeypatch):
    """The persister would wait two seconds for each group, in case its coordinator sees a topic late."""
    served.create_topic("t", 2)
    asked = []
    read_summary = served.engine.coordination.persister.read_summary

    async def noted(key):
        asked.append(key.partition)
        return await read_summary(key)

    monkeypatch.setattr(served.engine.coordination.persister, "read_summary", noted)
    topic = dso.DescribeShareGroupOffsetsRequestTopic(topic_name="t", partitions=[-1, 1, 2, 0x7FFFFFFF])
    groups = [dso.DescribeShareGroupOffsetsRequestGroup(group_id=each, topics=[topic]) for each in "ab"]
    answer = served.ask(dso.DescribeShareGroupOffsetsRequest(groups=groups))
    for group in answer.groups:
        partitions = group.topics[0].partitions
        assert [each.partition_index for each in partitions] == [-1, 1, 2, 0x7FFFFFFF]
        assert {(each.start_offset, each.error_code) for each in partitions} == {(-1, 0)}
    assert asked == [1, 1]
