"""Settings of both brokers of a conversation."""

SHORTEST_SESSION_MS = 600
LARGEST_GROUP = 4
# Clients authenticate at this listener; all other conversations are in the clear.
LISTENERS = {"SASL": "SASL_PLAINTEXT"}
PASSWORD = "alice-secret"
_SASL = {
    "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'user_alice="{PASSWORD}" user_bob="bob-secret" user_carol="carol-secret";'
    ),
    **{
        f"listener.name.sasl.scram-sha-{bits}.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
        for bits in (256, 512)
    },
    "connection.failed.authentication.delay.ms": "0",
    "delegation.token.secret.key": "a secret of both brokers",
}
SETTINGS = {
    **_SASL,
    "node.id": "1",
    # for the APIs of access control; all clients may do everything with what has no rules, and with the cluster
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    # a third change writes a snapshot
    "share.coordinator.snapshot.update.records.per.snapshot": "2",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "group.min.session.timeout.ms": str(SHORTEST_SESSION_MS),
    "group.max.size": str(LARGEST_GROUP),
    "group.consumer.max.size": str(LARGEST_GROUP),
    # Answers must not depend on the progress of a rebalance timer or a retention pass.
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "3600000",
    "log.initial.task.delay.ms": "3600000",
}
