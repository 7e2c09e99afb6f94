"""Subscriptions by regular expression: looked up aside, again when topics are created, and never for long."""

import pytest

from bowstring.engine.groups.consumer.regexes import Search
from bowstring.engine.groups.modern.cluster import ClusterView
from bowstring.protocol.errors import Errors
from tests.support.consumer_group_harness import ConsumerShell, Member, settle


@pytest.fixture
def shell():
    shell = ConsumerShell()
    for name in ("ab", "ac", "b"):
        shell.create(name, 1)
    return shell


def topics(shell, member):
    return sorted(shell.image.topics_by_id[topic_id].name for topic_id in member.owned)


def test_a_lookup_makes_a_new_epoch(shell):
    member = Member(shell, "a", subscribed_topic_regex="a.")
    assert member.step().member_epoch == 1
    assert len(shell.searches) == 1
    member.step()
    assert len(shell.searches) == 1
    shell.resolve()
    assert shell.consumer_group().epoch == 2
    settle(member)
    assert topics(shell, member) == ["ab", "ac"]
    shell.restart()
    assert shell.consumer_group().is_subscribed_to("ab")
    settle(member)
    assert topics(shell, member) == ["ab", "ac"]


def test_new_topics_are_found_after_a_while(shell):
    member = Member(shell, "a", subscribed_topic_regex="a.")
    member.step()
    shell.resolve()
    settle(member)
    shell.create("ad", 1)
    member.step()
    assert not shell.searches
    shell.advance(10_001)
    member.step()
    shell.resolve()
    settle(member)
    assert topics(shell, member) == ["ab", "ac", "ad"]
    shell.advance(20_000)
    member.step()
    assert not shell.searches


def test_new_topics_are_found_after_the_clock_was_set_back(shell):
    member = Member(shell, "a", subscribed_topic_regex="a.")
    member.step()
    shell.resolve()
    settle(member)
    shell.create("ad", 1)
    shell.now_ms -= 24 * 3600 * 1000
    member.step()
    shell.resolve()
    settle(member)
    assert topics(shell, member) == ["ab", "ac", "ad"]
    member.step()
    assert not shell.searches, "it is looked up once"


@pytest.mark.parametrize("regex", ["[", "(?<=a)b", r"\1", "(a{1000}){1000}{1000}"])
def test_invalid_expressions(shell, regex):
    answer = Member(shell, "a", subscribed_topic_regex=regex).step()
    assert answer.error_code == Errors.INVALID_REGULAR_EXPRESSION.code
    assert shell.shard.state.groups == {}


def test_expressions_go_with_their_last_member(shell):
    first = Member(shell, "a", subscribed_topic_regex="a.")
    second = Member(shell, "b", subscribed_topic_regex="a.")
    first.step()
    second.step()
    shell.resolve()
    settle(first, second)
    first.leave()
    assert shell.consumer_group().is_subscribed_to("ab")
    shell.beat("b", second.epoch, subscribed_topic_regex="", subscribed_topic_names=["b"])
    group = shell.consumer_group()
    assert not group.is_subscribed_to("ab")
    assert (group.resolved, group.regex_counts, group.regex_topic_counts) == ({}, {}, {})


def test_a_group_that_is_gone_takes_no_result(shell):
    member = Member(shell, "a", subscribed_topic_regex="a.")
    member.step()
    member.leave()
    shell.resolve()
    assert shell.consumer_group().resolved == {}


def test_a_search_takes_many_steps(shell):
    for number in range(3_000):
        shell.create(f"t{number}", 1)
    search = Search(ClusterView(shell), [f"t{n}.*" for n in range(10)] + ["("], shell.now_ms)
    steps = 0
    while not search.step():
        steps += 1
    assert steps >= 40
    assert len(search.found.topics["t1.*"]) == 1_111
    assert search.found.topics["("] == frozenset()


def test_an_expression_that_backtracks_elsewhere_is_quick(shell):
    shell.create("a" * 200, 1)
    member = Member(shell, "a", subscribed_topic_regex="(a*)*(a*)*(a*)*b|a{200}")
    member.step()
    shell.resolve()
    settle(member)
    assert topics(shell, member) == ["a" * 200, "ab", "b"]
