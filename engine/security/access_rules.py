"""Follows the access control entries of the image, and decides by them. Imported only with an authorizer."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from bowstring._native.access.acl_table import AclTable
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.acls_image import Acl
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.names import INTERNAL_TOPICS, METADATA_TOPIC, topic_name_problem
from bowstring.engine.security.access_reports import AccessReports
from bowstring.engine.security.decided import Decided
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.records.cluster_metadata.markers import EndTransactionRecord
from bowstring.protocol.records.cluster_metadata.security import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.security.audit_log import AuditLog
    from bowstring.engine.security.audit_topic import AuditTopic

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ANEW_FROM: Final = 1000
"""So many changes go to a new table, which then replaces the other one: reactors do not wait for them."""


_ANY_HOST: Final = "*"
_RECHECK_S: Final = 0.02
_KINDS: Final = (
    (AclOperation.WRITE, AclResourceType.TOPIC, ApiKeys.PRODUCE),
    (AclOperation.READ, AclResourceType.TOPIC, ApiKeys.FETCH),
    (AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, ApiKeys.PRODUCE),
    (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, ApiKeys.FETCH),
)
"""What reactors decide about, by the kind in their reports."""

_Rule = tuple[int, int, bytes, bytes, bytes, int, int]
"""The fields of an Acl, with texts in UTF-8."""


class Followed(Protocol):
    """What is needed of this node's replica of the metadata log."""

    @property
    def image(self) -> ClusterImage: ...  # noqa: D102

    @property
    def on_applied(self) -> list[Callable[[Sequence[MetadataRecord], int, int], None]]: ...  # noqa: D102

    @property
    def on_snapshot(self) -> list[Callable[[ClusterImage, int, int], None]]: ...  # noqa: D102


class Plane(Protocol):
    """What reactors look rules up in."""

    def set_access(self, table: AclTable) -> None:
        """Has the reactors use a table from now on."""

    def change_access(self, added: list[_Rule], removed: list[_Rule]) -> None:
        """Changes the table that they use."""

    def report_allowed_access(self, reports: bool) -> None:
        """Whether they report also what they allow."""

    def take_access(self) -> tuple[list[tuple[str, str, int, str, bool]], int]:
        """Returns their reports, and how many are lost."""

    def denied_access(self) -> tuple[int, ...]:
        """Returns how often they have denied something, by kind."""

    def recheck_access(self) -> None:
        """Has them answer waiting fetches that have lost a permission."""


def super_users(configs: BrokerConfigs) -> list[str]:
    """Returns the principals of super.users.

    Raises:
        ConfigError: One is no principal.
    """
    names = [name.strip() for name in configs.value("super.users").split(";")]
    for name in filter(None, names):
        if ":" not in name:
            raise ConfigError(
                f"super.users names '{name}', which is no principal; write User:{name}, and separate "
                "principals by semicolons"
            )
    return [name for name in names if name]


def _audit_topic(configs: BrokerConfigs) -> str:
    name = str(configs.value("bowstring.audit.topic"))
    problem = topic_name_problem(name) if name else None
    if name in INTERNAL_TOPICS or name == METADATA_TOPIC:
        problem = f"{name} holds the state of the cluster"
    if problem is not None:
        raise ConfigError(f"bowstring.audit.topic is no name for such a topic: {problem}; choose another one")
    return name


class AccessRules:
    """The rules that a node follows.

    Attributes:
        reports: Denials, counted and logged.
        audit_log: Writes decisions to a file; None: it is off.
        audit_topic: Writes them to a topic; None: it is off.
        table: The rules. Changed in place or replaced.
        version: Goes up before a decision may differ from an earlier one.
        look_at_hosts: Whether a rule is for some hosts only.
    """

    def __init__(self, configs: BrokerConfigs) -> None:
        """Reads the configs.

        Raises:
            ConfigError: Another authorizer is configured, or super.users is malformed.
        """
        wanted = configs.value("authorizer.class.name")
        if wanted != STANDARD:
            raise ConfigError(
                f"authorizer.class.name is {wanted}, but Bowstring cannot run Java classes; set it to "
                f"{STANDARD}, which Bowstring has built in"
            )
        self._super_users = super_users(configs)
        self._is_open_without_rules = bool(configs.value("allow.everyone.if.no.acl.found"))
        self._applied: dict[bytes, Acl] = {}
        self._for_some_hosts = 0
        self.version = 0
        self._plane: Plane | None = None
        self._recheck: asyncio.TimerHandle | None = None
        self._is_complete: Callable[[], bool] = lambda: False
        self.reports = AccessReports()
        self.audit_log: AuditLog | None = None
        self.audit_topic: AuditTopic | None = None
        self._audit_file = configs.value("bowstring.audit.file")
        self._audit_topic = _audit_topic(configs)
        self._node_id = int(configs.value("node.id"))
        self._audits_allowed = configs.value("bowstring.audit.decisions") == "all"
        self.table = self._new_table()

    def _new_table(self) -> AclTable:
        table = AclTable()
        table.allows_without_rules = self._is_open_without_rules
        table.set_super_users([name.encode() for name in self._super_users])
        return table

    def is_super_user(self, principal: str) -> bool:
        """Returns whether super.users has the principal."""
        return principal in self._super_users

    @property
    def look_at_hosts(self) -> bool:  # noqa: D102
        return self._for_some_hosts > 0

    def __len__(self) -> int:
        return len(self._applied)

    # ------------------------------------------------------------ following

    def follow(self, source: Followed, is_complete: Callable[[], bool], plane: Plane | None = None) -> None:
        """Follows the image from now on. Until `is_complete` returns True once, super users alone may do
        anything.

        Args:
            plane: The reactors that look rules up.
        """
        self._is_complete = is_complete
        self._plane = plane
        self._begin_audit()
        if plane is not None:
            plane.set_access(self.table)
        source.on_applied.append(lambda records, end_offset, epoch: self._look(source.image, records))
        source.on_snapshot.append(lambda image, end_offset, epoch: self.load(image.acls.entries))
        self.load(source.image.acls.entries)

    def _look(self, image: ClusterImage, records: Sequence[MetadataRecord]) -> None:
        touched: list[bytes] = []
        for record in records:
            kind = type(record)
            if kind is AccessControlEntryRecord or kind is RemoveAccessControlEntryRecord:
                touched.append(record.id)  # type: ignore[attr-defined]
            elif kind is EndTransactionRecord:
                self.load(image.acls.entries)
                return
        if touched:
            self._update(image.acls.entries, dict.fromkeys(touched))

    def load(self, entries: dict[bytes, Acl]) -> None:
        """Takes over all rules."""
        self._update(entries, dict.fromkeys([*self._applied, *entries]))

    def _update(self, entries: dict[bytes, Acl], ids: Iterable[bytes]) -> None:
        added: list[_Rule] = []
        removed: list[_Rule] = []
        for id in ids:
            old, new = self._applied.get(id), entries.get(id)
            if old == new:
                continue
            if old is not None:
                removed.append(_native(old))
                del self._applied[id]
                self._for_some_hosts -= old.host != _ANY_HOST
            if new is not None:
                added.append(_native(new))
                self._applied[id] = new
                self._for_some_hosts += new.host != _ANY_HOST
        if not added and not removed:
            return
        self.version += 1
        if len(added) + len(removed) >= _ANEW_FROM:
            self._replace()
        elif self._plane is not None:
            self._plane.change_access(added, removed)
            self._recheck_soon(self._plane)
        else:
            for rule in removed:
                self.table.remove(rule)
            for rule in added:
                self.table.add(rule)

    def _replace(self) -> None:
        table = self._new_table()
        table.is_loaded = self.table.is_loaded
        for acl in self._applied.values():
            table.add(_native(acl))
        self.table = table
        if self._plane is not None:
            self._plane.set_access(table)
            self._recheck_soon(self._plane)

    def _recheck_soon(self, plane: Plane) -> None:
        """Has fetches that wait looked at again, once for many changes."""

        def recheck() -> None:
            self._recheck = None
            plane.recheck_access()

        if self._recheck is None:
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:
                return  # the node does not serve yet
            self._recheck = loop.call_later(_RECHECK_S, recheck)

    def _begin_audit(self) -> None:
        found: list[AuditLog | AuditTopic] = []
        if self._audit_file:
            self.audit_log = self._opened_log()
            found.append(self.audit_log)
        if self._audit_topic:
            from bowstring.engine.security import audit_topic

            self.audit_topic = audit_topic.AuditTopic(self._audit_topic, self._node_id, self._acts_as_broker)
            found.append(self.audit_topic)
        if not found:
            return
        wants_all = self._audits_allowed

        def note(decided: Decided) -> None:
            if wants_all or not decided.allowed:
                at_s = time.time()  # file and topic have the same time
                for each in found:
                    each.note(decided, at_s)

        def note_lost(count: int) -> None:
            for each in found:
                each.note_lost(count)

        self.reports.audit, self.reports.lost = note, note_lost
        self.reports.audits_allowed = wants_all
        if self._plane is not None:
            self._plane.report_allowed_access(wants_all)

    def _opened_log(self) -> "AuditLog":
        from bowstring.engine.security.audit_log import AuditLog

        try:
            return AuditLog(self._audit_file)
        except OSError as error:
            raise ConfigError(
                f"bowstring.audit.file is {self._audit_file}, which cannot be written: {error.strerror}; "
                "name a file in a folder where the broker may write"
            ) from error

    def _acts_as_broker(self, principal: str, host: str) -> bool:
        operation, kind = AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER
        return self.table.allows(principal.encode(), host.encode(), operation, kind, CLUSTER_NAME.encode())

    def take_reports(self) -> None:
        """Reports what the reactors have decided."""
        if self._plane is None:
            return
        found, lost = self._plane.take_access()
        for principal, host, kind, name, allowed in found:
            operation, resource_type, api = _KINDS[kind]
            self.reports.note(Decided(principal, host, operation, resource_type, name, allowed, api))
        if lost:
            self.reports.lost(lost)

    def denied(self) -> Counter[tuple[int, int]]:
        """Returns how often access was denied, by operation and type of resource, also by the reactors."""
        total = self.reports.denied.copy()
        if self._plane is not None:
            for (operation, resource_type, _), count in zip(_KINDS, self._plane.denied_access(), strict=True):
                total[operation, resource_type] += count
        return total

    def stop(self) -> None:
        """Ends the audit."""
        if self._recheck is not None:
            self._recheck.cancel()
        if self.audit_log is not None:
            self.audit_log.stop()

    def loaded(self) -> None:
        """Notes that all rules are here."""
        self.version += 1
        self.table.is_loaded = True

    def _check_loaded(self) -> bool:
        if self._is_complete():
            self.loaded()
            return True
        return False

    # ------------------------------------------------------------ decisions

    def decides(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        """Returns whether a principal may do an operation on a resource from a host.

        Raises:
            KafkaError: UNKNOWN_SERVER_ERROR: the rules are not loaded yet (Kafka's
                AuthorizerNotReadyException).
        """
        table = self.table
        if not table.is_loaded and not self.is_super_user(principal) and not self._check_loaded():
            raise KafkaError(Errors.UNKNOWN_SERVER_ERROR, "The rules of access control are not loaded yet.")
        return table.allows(principal.encode(), host.encode(), operation, resource_type, name.encode())

    def decides_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Returns whether a principal may do an operation on any resource of a type from a host."""
        return self.table.allows_some(principal.encode(), host.encode(), operation, resource_type)


def _native(acl: Acl) -> _Rule:
    return (
        acl.resource_type,
        acl.pattern_type,
        acl.resource_name.encode(),
        acl.principal.encode(),
        acl.host.encode(),
        acl.operation,
        acl.permission,
    )
