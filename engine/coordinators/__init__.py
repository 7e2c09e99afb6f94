"""Runs coordinators whose state is the log of an internal topic: what all of them share.

A coordinator is a pure shard for each partition of its topic, and a subclass of `CoordinatorRuntime` that
carries out the effects of the shards.

Files: `coordinators` lists those of a broker by topic; `runtime` follows leaders, loads logs, writes, and
answers at the high watermark; `hosted` holds a shard with its log; `internal_topic` describes the topic;
`effects` are those that every shard may request; `log_replay` reads a log; `partitioning` maps keys to
partitions; `committed_appends` writes to partitions of any topic. `cluster_changes` has the active
controller create topics, `producer_ids` gives out its ids.

Imported by: engine.*.
May import: _native.log, _native.record, _native.server, configs, engine, metadata, protocol,
storage.
"""
