"""The 2014 test: "2 million writes a second on three machines", run again against Bowstring and Apache Kafka.

`catalogue` has its tests and what they gave then. `machines` is where brokers and loads run: here, or by
`remote` where an `agent` is; `brokers` puts clusters there, `loads` and `load_main` are the native, Java and
librdkafka clients. `measure` measures one test on one cluster, `run` takes the peers in turn, `live` shows
it, `results` holds what came of it, `report` and `pictures` write that.
"""
