"""The packages of the tree, and what each may import of the others; tests/unit/test_tree.py holds them."""

# Each native package, and what it may import of the others.
NATIVE_PACKAGES = {
    "base": set(),
    "disk": {"base"},
    "protocol": {"base"},
    "record": {"base"},
    "values": {"base"},
    "wal": {"base", "disk"},
    "log": {"base", "disk", "record", "wal"},
    "replica": {"base"},
    "access": set(),
    "share": {"base", "record"},
    "cleaner": {"base", "disk", "record", "log"},
    "server": {"access", "base", "disk", "protocol", "record", "replica", "tls", "wal", "log"},
    "arrow": {"base", "record"},
    "tls": {"base"},
    "client": {"base", "record", "arrow", "tls"},
    "rest": {"arrow", "base", "client", "record", "values"},
}
# The same of Python packages. A module beside them, as serve.py, is a package here; `_native.log` is all of `log`.
GROUND_PACKAGES: dict[str, set[str]] = {"version": set(), "distribution": set()} | {
    "security": {"distribution", "protocol", "_native.tls"},
    "protocol": {"_native.protocol"},
}
ENGINE_PACKAGES = {
    "engine": {"protocol"},
    "engine.configs": {"protocol", "security"},
    "engine.metadata": {"engine.configs", "protocol", "_native.protocol", "_native.record"},
    "engine.storage": {"engine", "engine.configs", "engine.metadata", "protocol"}
    | {f"_native.{name}" for name in ("base", "disk", "wal", "log", "cleaner", "server")},
    "engine.metadata.store": {
        *("engine", "engine.configs", "engine.metadata", "protocol", "engine.storage"),
        *("_native.log", "_native.record"),
    },
    "engine.coordinators": {
        *("engine", "engine.configs", "engine.metadata", "engine.storage"),
        *("protocol", "_native.log", "_native.record", "_native.server"),
    },
    "engine.groups": {
        *("engine", "engine.configs", "engine.coordinators", "engine.metadata", "protocol"),
        *("engine.share.persister", "engine.storage"),
        *("_native.log", "_native.protocol", "_native.record", "_native.server"),
    },
    "engine.replication": {"engine.metadata", "protocol"},
    "engine.raft": {"protocol", "_native.protocol", "_native.record"},
    "engine.network": {"engine", "protocol", "security", "_native.tls"}
    | {f"engine.{name}" for name in ("configs", "metadata", "storage")},
    "engine.quorum": {
        *("engine", "engine.configs", "engine.metadata", "engine.metadata.store", "engine.network"),
        *("protocol", "security", "engine.raft", "engine.storage", "_native.log", "_native.record"),
    },
    "engine.controller": {"engine", "engine.configs", "engine.metadata", "protocol", "security"},
    "engine.transactions": {
        *("engine", "engine.configs", "engine.coordinators", "engine.metadata", "engine.network"),
        *("protocol", "engine.storage"),
        *("_native.log", "_native.protocol", "_native.record", "_native.server"),
    },
    "engine.share": {"engine.metadata", "engine.network", "protocol"},
    "engine.share.persister": {"engine", "engine.network", "protocol"},
    "engine.share.coordinator": {
        *("engine", "engine.configs", "engine.coordinators", "engine.groups", "engine.metadata"),
        *("protocol", "engine.share.persister", "engine.storage"),
        *("_native.log", "_native.protocol", "_native.server"),
    },
    "engine.share.leader": {
        *("engine", "engine.configs", "engine.metadata", "engine.network", "protocol"),
        *("engine.share", "engine.share.persister", "engine.storage", "_native.log", "_native.record"),
        *("_native.server", "_native.share"),
    },
    "engine.requests": {
        *("engine.configs", "engine.metadata", "engine.storage", "protocol", "_native.log"),
        "_native.protocol",
    },
    "engine.security": {
        *("engine", "engine.configs", "engine.metadata", "protocol", "security"),
        *(f"_native.{name}" for name in ("access", "tls")),
    },
    "engine.local": {
        *("engine", "engine.configs", "engine.metadata", "protocol", "engine.requests"),
        *("_native.log", "_native.server"),
    },
    "engine.api": {
        *("engine", "engine.configs", "engine.controller", "engine.coordinators", "engine.groups"),
        *("engine.local", "engine.metadata", "protocol", "engine.quorum", "engine.requests"),
        *("engine.security", "engine.share", "engine.share.coordinator", "engine.share.leader"),
        *("engine.share.persister", "engine.storage", "engine.transactions", "_native.log"),
        *("_native.protocol", "_native.record", "_native.share"),
    },
    "engine.broker": {
        *("engine", "engine.api", "engine.configs", "engine.controller", "engine.coordinators"),
        *("engine.groups", "engine.local", "engine.metadata", "engine.metadata.store", "engine.network"),
        *("engine.quorum", "engine.raft", "engine.replication", "engine.requests", "engine.security"),
        *("engine.share", "engine.share.coordinator", "engine.share.leader", "engine.share.persister"),
        *("engine.storage", "engine.transactions", "protocol", "_native.log", "_native.protocol"),
        *("_native.record", "_native.server", "version"),
    },
    "engine.migration": {
        *("engine.broker", "engine.configs", "engine.metadata", "engine.metadata.store", "protocol"),
        *("engine.quorum", "engine.requests", "engine.security", "engine.storage"),
    },
}
CLIENT_PACKAGES = {
    "clients": {"distribution", "protocol"},
    "clients.config": {"clients", "security"},
    "clients.net": {
        *("clients", "protocol", "security", "version", "_native.arrow", "_native.client"),
        *("_native.protocol", "_native.tls"),
    },
    "clients.group": {"clients", "clients.net", "protocol", "security", "_native.protocol"},
    "clients.admin": {"clients", "clients.config", "clients.group", "clients.net", "protocol"},
    "clients.producer": {
        *("clients", "clients.config", "clients.group", "clients.net", "protocol", "security"),
        *("_native.client", "_native.record"),
    },
    "values": {"clients", "_native.base", "_native.values"},
    "clients.arrow": {"clients", "values", "_native.arrow", "_native.base"},
    "clients.registry": {"clients", "schemas", "values", "_native.base", "_native.values"},
    "clients.local": {"clients", "clients.net", "protocol", "_native.client"},
    "clients.consumer": {
        *("clients", "clients.arrow", "clients.config", "clients.group", "clients.local"),
        *("clients.net", "clients.producer", "protocol"),
        *("_native.arrow", "_native.client", "_native.record"),
    },
    "clients.share": {
        *("clients", "clients.arrow", "clients.config", "clients.group", "clients.net", "protocol"),
        *("_native.arrow", "_native.record"),
    },
}
OUTER_PACKAGES = {
    "exactly_once": {"clients", "clients.consumer", "clients.producer"},
    "aio": {
        *("clients", "clients.admin", "clients.arrow", "clients.consumer", "clients.producer"),
        *("clients.share", "exactly_once"),
    },
    "tracing": {"clients", "version"},
    "monitoring": set(),
    "audit": {"clients", "clients.consumer", "spark"},
    "kernels": {"clients", "distribution"},
    "search": {"clients.registry", "clients", "clients.consumer"},
    "schemas": {"clients", "distribution", "protocol"},
    "registry.store": {
        *("clients", "clients.admin", "clients.config", "clients.consumer", "clients.group", "clients.net"),
        *("clients.producer", "protocol", "version", "_native.client", "_native.record"),
    },
    "registry": {"clients", "protocol", "registry.store", "schemas"},
    "registry.operations": {"protocol", "registry", "schemas"},
    "registry.api": {
        *("clients", "clients.registry", "protocol", "registry", "registry.operations", "version", "web"),
    },
    "registry.program": {
        *("clients", "clients.admin", "registry", "registry.api", "registry.store", "schemas", "web"),
    },
    "broker": {
        *("broker_children", "clients", "engine", "engine.broker", "engine.configs", "engine.storage"),
        "_native.log",
    },
    "cluster": {"clients", "serve", "engine.broker", "engine.configs", "protocol", "engine.quorum"},
    "signals": {"engine"},
    "service_manager": {"engine"},
    "supervised_child": {"engine", "engine.configs", "engine.requests"},
    "broker_children": {"clients", "engine.configs", "engine.requests", "supervised_child", "web"},
    "http_services": {"clients", "registry.program", "rest", "web"},
    "serve_options": {"protocol"},
    "serve": {
        "broker_children",
        "serve_options",
        "supervised_child",
        "service_manager",
        "signals",
        "engine",
        "engine.broker",
        "engine.configs",
        "engine.quorum",
        "engine.requests",
        "engine.storage",
    }
    | {"version", "_native.log"},
    "tables": {
        "clients",
        "clients.arrow",
        "clients.config",
        "clients.consumer",
        "clients.producer",
        "kernels",
        "values",
    },
    "pytest_plugin": {"broker", "clients", "clients.admin", "cluster"},
    "spark": {
        "values",
        "clients.registry",
        *("bowstring", "clients", "clients.config", "clients.consumer", "clients.group"),
        *("clients.net", "clients.producer", "kernels", "protocol", "security", "_native.client"),
    },
    "pipeline": {"clients", "clients.admin", "clients.config", "spark"},
    "operations": {"clients", "clients.admin", "protocol"},
    "web": {"clients", "clients.admin", "clients.config", "protocol", "security"},
    "rest": {"clients", "clients.admin", "clients.producer", "protocol", "version", "web"},
    "rest.records": {
        *("clients", "clients.consumer", "clients.producer", "clients.registry", "protocol", "rest"),
        *("schemas", "values", "web", "_native.rest"),
    },
    "rest.v2": {
        *("clients", "clients.admin", "clients.consumer", "clients.producer", "clients.registry", "protocol"),
        *("rest", "rest.records", "web"),
    },
    "rest.v3": {"clients", "clients.admin", "protocol", "rest", "rest.records", "web"},
    "console": {
        "clients.registry",
        *("audit", "clients", "clients.admin", "clients.config", "clients.consumer", "clients.producer"),
        *("operations", "protocol", "search", "security", "version", "web"),
    },
    "demo": {
        "broker",
        "clients",
        "clients.admin",
        "clients.consumer",
        "clients.producer",
        "cluster",
        "spark",
        "_native.record",
    },
    "cli": {
        "values",
        "clients.registry",
        *("audit", "clients", "clients.admin", "clients.config", "clients.consumer", "clients.net"),
        *("clients.producer", "clients.share", "cluster", "console", "demo", "engine.broker"),
        *("engine.configs", "engine.migration", "engine.quorum", "engine.storage", "operations"),
        *(
            "monitoring",
            "pipeline",
            "protocol",
            "registry.program",
            "security",
            "serve",
            "serve_options",
            "spark",
            "version",
            "_native.base",
            "_native.log",
        ),
        *("rest", "search", "_native.protocol", "_native.record"),
    },
}
PYTHON_PACKAGES = GROUND_PACKAGES | ENGINE_PACKAGES | CLIENT_PACKAGES | OUTER_PACKAGES
# The public names of everything, resolved on first access.
FACADE = ("bowstring", "__main__")
# Declarations, and commands of a command, are part of the package above them.
PARTS = (
    *("protocol.messages", "protocol.records", "cli.perf", "console.connect", "console.pages"),
    *(f"schemas.{kind}" for kind in ("avro", "json_schema", "protobuf")),
    *(f"engine.groups.{part}" for part in ("classic", "consumer", "modern", "offsets", "share", "streams")),
)
