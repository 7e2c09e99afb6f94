"""Answers whether a principal may do an operation on a resource."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.security.decided import Decided
from bowstring.engine.security.principals import OWN_NODE
from bowstring.protocol.acls import AclOperation, AclResourceType

if TYPE_CHECKING:
    from bowstring.engine.security.access_rules import AccessRules, Followed, Plane
    from bowstring.engine.security.audit_topic import AuditWriter


def _bits(operations: str) -> int:
    return sum(1 << AclOperation[operation] for operation in operations.split())


_OPERATIONS: Final = {
    AclResourceType.TOPIC: _bits("READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    AclResourceType.GROUP: _bits("READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS"),
    AclResourceType.CLUSTER: _bits(
        "CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"
    ),
    AclResourceType.TRANSACTIONAL_ID: _bits("WRITE DESCRIBE TWO_PHASE_COMMIT"),
    AclResourceType.DELEGATION_TOKEN: _bits("DESCRIBE"),
    AclResourceType.USER: _bits("CREATE_TOKENS DESCRIBE_TOKENS"),
}


class Sender(Protocol):
    """What the authorizer reads of a request."""

    @property
    def principal(self) -> str:
        """Who sent it, such as ``User:alice``."""

    @property
    def peer(self) -> str:
        """The address that it came from, ``host:port``."""


class Authorizer:
    """The access control of a node. Without ``authorizer.class.name`` it allows everything.

    Attributes:
        is_on: Whether an authorizer is configured.
        rules: What it decides by; None: it is off.
    """

    def __init__(self, configs: BrokerConfigs) -> None:
        """Reads the configs.

        Raises:
            ConfigError: Another authorizer is configured than Kafka's own, or a setting does not fit.
        """
        self.is_on = bool(configs.value("authorizer.class.name"))
        if configs.value("early.start.listeners") is not None:
            from bowstring.engine.security.early_listeners import check_early_listeners

            check_early_listeners(configs, has_authorizer=self.is_on)
        if not self.is_on:
            _check_nothing_is_wanted(configs)
        self.rules: AccessRules | None = None
        if self.is_on:
            from bowstring.engine.security import access_rules

            self.rules = access_rules.AccessRules(configs)

    def follow(
        self, source: "Followed", is_complete: Callable[[], bool], plane: "Plane | None" = None
    ) -> None:
        """Follows the rules of the image from now on; as `AccessRules.follow`."""
        if self.rules is not None:
            self.rules.follow(source, is_complete, plane)

    def loaded(self) -> None:
        """Notes that the node has all rules: before, super users alone may do anything."""
        if self.rules is not None:
            self.rules.loaded()

    def start_audit(self, writer: "AuditWriter | None") -> None:
        """Begins to write the audit topic, if there is one. Call on the control loop."""
        if self.rules is not None and self.rules.audit_topic is not None and writer is not None:
            self.rules.audit_topic.start(writer)

    async def drain_audit(self) -> None:
        """Waits a short time until the audit topic has what was decided until now."""
        if self.rules is not None and self.rules.audit_topic is not None:
            await self.rules.audit_topic.drain()

    async def stop_audit(self) -> None:
        """Writes to the audit topic what waits."""
        if self.rules is not None and self.rules.audit_topic is not None:
            await self.rules.audit_topic.stop()

    def stop(self) -> None:
        """Ends the audit file; the node answers no more requests."""
        if self.rules is not None:
            self.rules.stop()

    def allows(
        self,
        request: Sender,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        counts: bool = True,
    ) -> bool:
        """Returns whether the sender of a request may do an operation on a resource.

        Args:
            counts: Whether a denial is counted, logged and audited. False for a question whose denial refuses
                nothing, such as what may be seen in a list (Kafka's ``logIfDenied``); what it allows is
                audited once a minute.

        Raises:
            KafkaError: The node does not have the rules yet.
        """
        rules = self.rules
        if rules is None or request.principal is OWN_NODE:
            return True
        host = host_of(request.peer)
        allowed = rules.decides(request.principal, host, operation, resource_type, name)
        reports = rules.reports
        if counts and not allowed:
            reports.denied[operation, resource_type] += 1
        if reports.audits_allowed if allowed else counts:
            api = getattr(request, "api_key", -1)
            decided = Decided(request.principal, host, operation, resource_type, name, allowed, api)
            if counts or reports.is_new(decided):
                reports.note(decided)
        return allowed

    def allowed(
        self,
        request: Sender,
        operation: AclOperation,
        resource_type: AclResourceType,
        names: Iterable[str],
        *,
        counts: bool = True,
    ) -> set[str]:
        """Returns those of the names on which the sender may do an operation; `counts` as for `allows`."""
        distinct = set(names)
        if not self.is_on:
            return distinct
        return {
            name for name in distinct if self.allows(request, operation, resource_type, name, counts=counts)
        }

    @property
    def version(self) -> int:
        """Goes up before a decision may differ from an earlier one about the same."""
        return 0 if self.rules is None else self.rules.version

    @property
    def may_repeat(self) -> bool:
        """Whether answers may be repeated without a decision, while the version stays: not if each decision
        is audited.
        """
        return self.rules is None or not self.rules.reports.audits_allowed

    def alike(self, request: Sender) -> str:
        """Returns a text that senders share only if all decisions of this version about them are the same."""
        if self.rules is None:
            return ""
        if self.rules.look_at_hosts:
            return f"{host_of(request.peer)} {request.principal}"  # no host has a space
        return request.principal

    def permits(self, request: Sender, asked: list[tuple[AclOperation, AclResourceType, str]]) -> bool:
        """Returns whether the sender may do several operations, all of them, without a report: call
        `note_permitted` if that is the last word, and otherwise ask about each one.
        """
        rules = self.rules
        if rules is None:
            return True
        table = rules.table
        return table.is_loaded and table.allows_all(request.principal, request.peer, asked)

    def note_permitted(self, request: Sender, asked: list[tuple[AclOperation, AclResourceType, str]]) -> None:
        """Reports what was permitted, if each decision is audited."""
        rules = self.rules
        if rules is None or not rules.reports.audits_allowed:
            return
        host, api = host_of(request.peer), getattr(request, "api_key", -1)
        for operation, resource_type, name in dict.fromkeys(asked):
            rules.reports.note(
                Decided(request.principal, host, operation, resource_type, name, allowed=True, api=api)
            )

    def allows_some(self, request: Sender, operation: AclOperation, resource_type: AclResourceType) -> bool:
        """Returns whether the sender may do an operation on any resource of a type, whichever it is (Kafka's
        ``authorizeByResourceType``, KIP-679). Denials do not count.
        """
        if self.rules is None or request.principal is OWN_NODE:
            return True
        return self.rules.decides_some(request.principal, host_of(request.peer), operation, resource_type)

    def operations(self, request: Sender, resource_type: AclResourceType, name: str) -> int:
        """Returns the operations that the sender may do on a resource; bit n is operation n (KIP-430).
        Denials do not count.
        """
        possible = _OPERATIONS[resource_type]
        if not self.is_on:
            return possible
        return sum(
            1 << operation
            for operation in AclOperation
            if possible & 1 << operation and self._decides(request, operation, resource_type, name)
        )

    def _decides(
        self, request: Sender, operation: AclOperation, resource_type: AclResourceType, name: str
    ) -> bool:
        """Decides without a report."""
        rules = self.rules
        return (
            rules is None
            or request.principal is OWN_NODE
            or rules.decides(request.principal, host_of(request.peer), operation, resource_type, name)
        )


def _check_nothing_is_wanted(configs: BrokerConfigs) -> None:
    """Refuses settings of an authorizer without one: they would promise a protection."""
    everyone = configs.value("allow.everyone.if.no.acl.found")
    for name, wanted in (
        ("super.users", bool(configs.value("super.users"))),
        ("allow.everyone.if.no.acl.found", everyone is False),
        ("bowstring.audit.file", bool(configs.value("bowstring.audit.file"))),
        ("bowstring.audit.topic", bool(configs.value("bowstring.audit.topic"))),
    ):
        if wanted:
            raise ConfigError(
                f"{name} needs authorizer.class.name, without which every client may do everything; set it "
                "to org.apache.kafka.metadata.authorizer.StandardAuthorizer, or remove the setting"
            )


def host_of(peer: str) -> str:
    """Returns the address of a peer, ``host:port`` with or without brackets."""
    return peer.rpartition(":")[0].removeprefix("[").removesuffix("]")
