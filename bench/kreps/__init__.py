"""Repeats the 2014 test "2 million writes a second on three machines" with Bowstring and Apache Kafka.

`catalogue` lists the tests and the results of 2014. `machines` runs brokers and loads: here, or through
`remote` with an `agent`. `brokers` starts clusters; `loads` and `load_main` are the native, Java and
librdkafka clients. `measure` measures one test on one cluster, `run` takes the peers in turn, `live` shows
progress, `results` holds the outcome, `report` and `pictures` write it.
"""
