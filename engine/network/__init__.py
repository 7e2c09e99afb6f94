"""Connects a node to the other nodes of its cluster.

`connection` sends requests over one connection and is the only place that opens one; `peers` holds one for
each node, and ends waits for answers that nobody needs; `broker_peers` does so for brokers that the image
has lost; `broker_addresses` finds where brokers listen for each other. Followers fetch from those addresses
in native code (_native/server/fetcher).

Connections to listeners with TLS or SASL are made by `peer_security`, and carried by `secure_link`, which
also logs in. Followers get theirs from there, too (broker/follower_links).

Imported by: engine.*.
May import: _native.tls, configs, engine, metadata, protocol, security, storage.
"""
