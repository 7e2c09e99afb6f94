"""The 2014 test: "2 million writes a second on three machines", run again against Bowstring and Apache Kafka.

`catalogue` has its tests and what they gave then, `brokers` starts clusters, `loads` drives them with native,
Java or librdkafka clients, `tests` measures, `run` takes the peers in turn, `report` writes what came of it.
"""
