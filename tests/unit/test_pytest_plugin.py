"""The fixtures that pip installs: a broker for the session, a topic for a test, and nothing for the others."""

pytest_plugins = ["pytester"]


def test_fixtures(pytester):
    pytester.makepyfile(
        """
        from bowstring import Producer, TopicPartition, Admin

        def test_one(bowstring_broker, bowstring_topic):
            assert bowstring_topic.startswith("test_one-")
            with Producer(bowstring_broker.bootstrap_servers) as producer:
                assert producer.send(bowstring_topic, b"x").result().offset == 0

        def test_two(bowstring_broker, bowstring_topic):
            with Admin(bowstring_broker.bootstrap_servers) as admin:
                assert list(admin.topics()) == [bowstring_topic]
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_each_test_gets_a_whole_cluster(pytester):
    pytester.makepyfile(
        """
        from bowstring import Producer

        def test_one(bowstring_cluster):
            bowstring_cluster.pause(1)
            bowstring_cluster.kill(2)
            bowstring_cluster.cut(3)

        def test_two(bowstring_cluster):
            assert bowstring_cluster.running_ids == [1, 2, 3]
            with Producer(bowstring_cluster.bootstrap_servers, acks="all") as producer:
                assert producer.send("created", b"x").result().offset == 0
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_nothing_is_loaded_when_nothing_is_used(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_none():
            loaded = [name for name in sys.modules if name.startswith("bowstring.")]
            names = ["bowstring.distribution", "bowstring.pytest_plugin", "bowstring.version"]
            assert sorted(loaded) == names, loaded
        """
    )
    pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider").assert_outcomes(passed=1)
