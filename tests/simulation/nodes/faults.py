"""Faults that shells of this system have had, or nearly had: patched in by tests only.

Most are a change in the text of a shipped function. A fault names the rules that may notice it first.
"""

import inspect
import sys
import textwrap
from contextlib import asynccontextmanager

from bowstring.engine.broker.broker import Broker
from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.broker.dispatcher import Dispatcher
from bowstring.engine.broker.image_follower import _NOTHING, ImageFollower
from bowstring.engine.broker.lifecycle import BrokerLifecycle
from bowstring.engine.broker.quota_publisher import QuotaPublisher
from bowstring.engine.broker.replication import Replication, _ServedLogs
from bowstring.engine.broker.transaction_checks import TransactionChecks
from bowstring.engine.controller.service import QuorumController
from bowstring.engine.coordinators.committed_appends import CommittedAppends
from bowstring.engine.coordinators.runtime import CoordinatorRuntime
from bowstring.engine.groups.service import GroupCoordinatorService
from bowstring.engine.metadata.client_quotas_image import ClientQuotasImage
from bowstring.engine.metadata.scram_image import ScramImage
from bowstring.engine.network.connection import PeerConnection
from bowstring.engine.quorum import forwards
from bowstring.engine.quorum.connections import Connections
from bowstring.engine.quorum.leader_requests import LeaderRequests
from bowstring.engine.quorum.service import QuorumService
from bowstring.engine.replication.isr_changes import IsrChanges
from bowstring.engine.storage.log_healer import LogHealer
from bowstring.engine.storage.log_manager import LogManager
from bowstring.engine.transactions.marker_sender import MarkerSender
from bowstring.engine.transactions.marker_writer import MarkerWriter
from bowstring.engine.transactions.service import TransactionCoordinatorService
from bowstring.engine.transactions.verifier import TransactionVerifier
from bowstring.engine.turns import Turn
from tests.simulation.cluster.plane import SimulatedPlane
from tests.simulation.nodes.logs import SimulatedLog
from tests.simulation.nodes.plan import TROUBLES
from tests.simulation.quorum.faults import Fault, into
from tests.support.waiting import pause_async

FAULTS: list[Fault] = []
fault = into(FAULTS)

FILES_OPEN = {"without": ("no_descriptors",), "commit_mode": False, "disks": 0, "settings": 0}
ADMINISTRATION = {"mostly": "administration", "stall": 0.03, "think_ms": 5, "names": 4, **FILES_OPEN}
DESCRIPTORS = {"mostly": "administration", "names": 4, "commit_mode": False, "disks": 0, "settings": 0}
PRODUCERS = {"mostly": "producers", **FILES_OPEN}
MEMBERS = {"mostly": "members", **FILES_OPEN}
IN_COMMIT_MODE = {"without": ("no_descriptors",), "commit_mode": True, "disks": 0, "settings": 0}
BROKEN_CONNECTIONS = {**PRODUCERS, "without": tuple(each for each in TROUBLES if each != "break_connections")}
ISOLATED = {
    **PRODUCERS,
    "without": tuple(each for each in TROUBLES if each != "isolate"),
    "think_ms": 5,
    "session_ms": 300,
}
# Nothing but disks that fail.
DISKS = {"without": tuple(TROUBLES), "disks": 1.0, "settings": 0}
SETTINGS = {**ADMINISTRATION, "clients": 1, "settings": 4}
# Nothing but many clients.
CROWD = {
    "mostly": "administration",
    "without": tuple(TROUBLES),
    "disks": 0,
    "clients": 40,
    "settings": 0,
    "think_ms": 1,
    "session_ms": 300,
}


def change(patches, owner, name, old, new):
    """Replaces a piece of text in a function, which must be there once."""
    shipped = owner.__dict__[name]
    function = shipped.__func__ if isinstance(shipped, staticmethod) else inspect.unwrap(shipped)
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{name} has {source.count(old)} times {old!r}:\n{source}"
    source = source.replace(old, new)
    if "super()" in source:
        source = source.replace("super()", f"super({owner.__name__}, self)")
    names = dict(vars(sys.modules[function.__module__]))
    exec(compile(source, f"<{name} with a fault>", "exec"), names)
    changed = names[name]
    # Names are looked up when they are used: what a run puts in the place of a module's clock counts here, too.
    if inspect.isfunction(changed):
        changed = _in_module(changed, function)
    patches.set(owner, name, changed)


def _in_module(changed, function):
    made = type(changed)(
        changed.__code__, function.__globals__, changed.__name__, changed.__defaults__, changed.__closure__
    )
    made.__kwdefaults__ = changed.__kwdefaults__
    return made


# ---------------------------------------------------------------- the metadata quorum and its controller


def end_whoever_has_it(self):
    """A turn's end that ends the turn of its current owner."""
    if self._turns.holder is not None:
        self._turns.pass_on(self._turns.holder)


@fault(
    "The end of a handler's turn at the controller ends the turn of the next one",
    "NoBugIsLogged",
    **ADMINISTRATION,
)
def turns_end_twice(patches):
    patches.set(Turn, "end", end_whoever_has_it)


@fault(
    "Two handlers decide upon the same state, and records are appended to the log before they are applied",
    *("AppendedRecordsApply", "NoBugIsLogged"),
    **ADMINISTRATION,
)
def appended_before_applied(patches):
    patches.set(Turn, "end", end_whoever_has_it)
    patches.set(Turn, "is_held", property(lambda self: True))
    change(
        patches,
        QuorumController,
        "_append",
        "            offset = quorum.next_offset\n",
        "            offset = quorum.next_offset\n            leadership.last = quorum.append_all(batches)\n",
    )


@fault(
    "The controller answers decisions before their records are committed, and goes on when it has lost the leadership",
    *("AppendedRecordsApply", "NoBugIsLogged", "BecomesHealthy"),
    first=13,
    **ADMINISTRATION,
)
def controller_outlives_its_leadership(patches):
    change(patches, QuorumController, "_leader_changed", "self._end()", "pass")


@fault(
    "A connection goes on after a request was cancelled: its answer is taken for that of the next one",
    *("NoBugIsLogged", "NoShellFails", "BecomesHealthy", "EveryRequestIsAnswered", "NothingIsFencedInPeace"),
    **FILES_OPEN,
)
def connection_outlives_a_cancelled_request(patches):
    change(
        patches,
        PeerConnection,
        "exchange_prepared",
        "except (OSError, TimeoutError, EOFError, ProtocolError) as error:\n        if has_turn:\n            self.close()",
        "except (OSError, TimeoutError, EOFError, ProtocolError) as error:\n        if has_turn:\n            pass",
    )


@fault(
    "A decision that is refused keeps its turn",
    *("EveryRequestIsAnswered", "BecomesHealthy", "NothingIsFencedInPeace", "StartsAgain"),
    **ADMINISTRATION,
)
def refused_decision_keeps_its_turn(patches):
    change(
        patches,
        QuorumController,
        "run",
        "    finally:\n        turn.end()\n",
        "    except ZeroDivisionError:\n        pass\n    turn.end()\n",
    )


@fault(
    "Heartbeats wait behind the requests of clients, on one connection",
    *("NothingIsFencedInPeace", "BecomesHealthy"),
    **CROWD,
)
def heartbeats_wait_behind_clients(patches):
    patches.set(forwards, "CONNECTIONS", 1)
    change(
        patches,
        LeaderRequests,
        "ask",
        "own = OWN_CONNECTIONS.get(body.api_key)",
        'own, client = None, "all"',
    )


@fault(
    "A request to the controller that fails keeps its connection",
    *("BecomesHealthy", "EveryRequestIsAnswered"),
    first=8,
    **ADMINISTRATION,
)
def failed_forwards_keep_connections(patches):
    @asynccontextmanager
    async def turn(self, client, size_bytes, timeout_s, *, counts=True):
        place = await self._wait(client, size_bytes, timeout_s)
        yield place
        self._give_back(client, place)

    patches.set(forwards.Forwards, "turn", turn)


# ---------------------------------------------------------------- brokers that follow the image


@fault(
    "What of a change could not be carried out for want of descriptors is dropped",
    "BecomesHealthy",
    first=6,
    **DESCRIPTORS,
)
def change_is_dropped(patches):
    right = ImageFollower._carry_out

    async def carry_out(self, change):
        await right(self, change)
        return _NOTHING

    patches.set(ImageFollower, "_carry_out", carry_out)


@fault(
    "A partition that comes to a broker while it opens the logs of a change gets a role without a log",
    "NoBugIsLogged",
    **{**ADMINISTRATION, "thread_ms": (1.0, 15.0), "stall": 0.003, "clients": 8},
)
def role_without_a_log(patches):
    change(
        patches,
        _ServedLogs,
        "create",
        "if self._logs.get(topic.name, partition) is None and not self._logs.is_missing(topic.name, partition):",
        "if False:",
    )


@fault(
    "Configs of a topic that was deleted meanwhile end the change of all others",
    "NoBugIsLogged",
    **ADMINISTRATION,
    first=30,
)
def configs_of_a_deleted_topic(patches):
    change(
        patches,
        LogManager,
        "configure",
        "found = image.topics.get(topic)",
        "found = image.topics[topic]",
    )


@fault(
    "A broker does not hear of changes that are committed while it opens its logs",
    *("BecomesHealthy", "ReplicasAreInSync"),
    first=5,
    **ADMINISTRATION,
)
def deaf_while_logs_are_opened(patches):
    right = ImageFollower.start

    def start(self):
        self._waiting.clear()
        right(self)
        self._waiting.clear()

    patches.set(ImageFollower, "start", start)


@fault(
    "A restarted broker takes connections before it is unfenced",
    "ServesWhenUnfenced",
    **FILES_OPEN,
)
def serves_before_it_is_unfenced(patches):
    change(patches, Broker, "_join", "self.plane.start(accepts=False)", "self.plane.start()")


@fault(
    "Logs of removed partitions stay open",
    "BecomesHealthy",
    **ADMINISTRATION,
)
def removed_logs_stay_open(patches):
    kept = []
    patches.add(SimulatedLog, "mark_deleted", lambda self, path: kept.append(self))


@fault(
    "What replicas tell does not wake up who asks the controller",
    "BecomesHealthy",
    **FILES_OPEN,
)
def events_of_replicas_wake_nobody(patches):
    change(patches, Replication, "_act", "self._wake()", "pass")


@fault(
    "A failed request to change in-sync replicas is never sent again",
    "BecomesHealthy",
    first=95,
    **FILES_OPEN,
)
def isr_change_is_not_repeated(patches):
    change(
        patches,
        Replication,
        "_send",
        "        self._failed(str(error))\n        self.manager.failed(_now_ms())\n",
        "        self._failed(str(error))\n",
    )


@fault(
    "Heartbeats stop after the first one without an answer",
    *("BecomesHealthy", "NothingIsFencedInPeace"),
    **FILES_OPEN,
)
def heartbeats_end(patches):
    right = BrokerLifecycle._send_heartbeat

    async def send_heartbeat(self):
        heard = await right(self)
        if not heard:
            await pause_async(1000, "heartbeats that do not come again")
        return heard

    patches.set(BrokerLifecycle, "_send_heartbeat", send_heartbeat)


# ---------------------------------------------------------------- requests


@fault(
    "A request that is refused with an error is not answered",
    "EveryRequestIsAnswered",
    **FILES_OPEN,
)
def refused_requests_hang(patches):
    change(
        patches,
        Dispatcher,
        "_answer",
        "        self._plane.reply(message.connection_id, message.slot, payload, throttle_ms=throttle_ms)\n",
        "        if payload is not None and not failed:\n            self._plane.reply(message.connection_id, message.slot, payload)\n",
    )


@fault(
    "What the controller does not answer is answered as a bug",
    "NoUnknownServerError",
    **ADMINISTRATION,
)
def no_answer_counts_as_a_bug(patches):
    change(
        patches,
        Connections,
        "ask",
        "raise KafkaError(Errors.NOT_CONTROLLER, detail) from error",
        "raise KafkaError(Errors.UNKNOWN_SERVER_ERROR, detail) from error",
    )


@fault(
    "acks=all is answered as soon as the leader has the records",
    "AcknowledgedIsKept",
    first=71,
    **ISOLATED,
)
def acknowledged_by_the_leader_alone(patches):
    change(patches, SimulatedPlane, "written", "if acks != -1:", "if True:")


@fault(
    "A leader forgets the last batches of its producers",
    "NothingIsTwice",
    first=20,
    **BROKEN_CONNECTIONS,
)
def producers_are_forgotten(patches):
    right = SimulatedPlane.produce

    def produce(self, key, *batch, **verification):
        if key in self.parts:
            self.parts[key].log.expire_producers(1 << 62)
        right(self, key, *batch, **verification)

    patches.set(SimulatedPlane, "produce", produce)


@fault(
    "Batches that wait behind one of another transaction are not asked about",
    "EveryRequestIsAnswered",
    first=9,
    **PRODUCERS,
)
def later_batches_are_not_verified(patches):
    change(
        patches, TransactionChecks, "_serve", "            self._ask(following, key)\n", "            pass\n"
    )


@fault(
    "What waits for the verification of a transaction is not answered when the coordinator's broker ends",
    "EveryRequestIsAnswered",
    first=27,
    **PRODUCERS,
)
def questions_are_forgotten(patches):
    change(
        patches,
        TransactionVerifier,
        "_exchange",
        "    except (NoAnswerError, UnsupportedByPeerError):\n        otherwise = Errors.NETWORK_EXCEPTION\n",
        "    except (NoAnswerError, UnsupportedByPeerError):\n        return\n",
    )


@fault(
    "Who has asked about transactions counts as busy for ever",
    "EveryRequestIsAnswered",
    **PRODUCERS,
)
def verifier_stays_busy(patches):
    change(patches, TransactionVerifier, "_serve", "del self._serving[leader]", "pass")


# ---------------------------------------------------------------- coordinators


@fault(
    "Coordinators do not hear of changes of roles",
    *("BecomesHealthy", "EveryRequestIsAnswered"),
    **FILES_OPEN,
)
def roles_are_not_passed_on(patches):
    patches.set(Coordination, "role_changed", lambda self, topic, partition: None)


@fault(
    "A log that was read and is not committed yet is never looked at again",
    *("BecomesHealthy", "EveryRequestIsAnswered"),
    **FILES_OPEN,
)
def loaded_shard_waits_for_ever(patches):
    change(patches, CoordinatorRuntime, "advanced", "        if hosted.is_read:\n", "        if False:\n")


@fault(
    "Markers of transactions are not sent again after there was no answer",
    "BecomesHealthy",
    first=62,
    **PRODUCERS,
)
def markers_are_sent_once(patches):
    change(
        patches,
        MarkerSender,
        "_settle",
        "if left and not self._stopped and not job.hosted.dismissed:",
        "if False:",
    )


@fault(
    "Markers for a broker that has none under way are kept until there are more",
    "BecomesHealthy",
    **PRODUCERS,
)
def busy_broker_stays_busy(patches):
    change(patches, MarkerSender, "_serve", "        self._busy.discard(leader)\n", "        pass\n")


@fault(
    "Who writes markers does not hear of high watermarks",
    "BecomesHealthy",
    **PRODUCERS,
)
def marker_writer_is_deaf(patches):
    patches.set(MarkerWriter, "advanced", lambda self, topic, partition: None)


@fault(
    "Transactions that have passed their timeout are not aborted",
    "BecomesHealthy",
    **PRODUCERS,
)
def timeouts_are_not_looked_for(patches):
    async def abort_timed_out(self, now_ms):
        pass

    patches.set(TransactionCoordinatorService, "abort_timed_out", abort_timed_out)


@fault(
    "The timers of groups ring once",
    *("EveryRequestIsAnswered", "BecomesHealthy"),
    **MEMBERS,
)
def timers_of_groups_ring_once(patches):
    change(patches, GroupCoordinatorService, "_ring", "    self._alarm = None\n", "")


@fault(
    "A leader does not hear that a follower may join the in-sync replicas while another change is under way",
    "BecomesHealthy",
    **FILES_OPEN,
)
def followers_do_not_join(patches):
    patches.set(IsrChanges, "join", lambda self, key, leader_epoch, broker_id, broker_epoch: None)


@fault(
    "In commit mode, loading a shard asks for what is durable at each call, which calls at once, and so on",
    *("EndsEachStep", "NoBugIsLogged", "BecomesHealthy"),
    **IN_COMMIT_MODE,
)
def load_recurses(patches):
    change(
        patches, CoordinatorRuntime, "_is_read_committed", "if hosted.asked is not hosted.log:", "if True:"
    )


@fault(
    "A shard that cannot be loaded ends the loading of the others",
    *("NoBugIsLogged", "BecomesHealthy"),
    **FILES_OPEN,
)
def failed_load_ends_others(patches):
    right = CoordinatorRuntime._replayed

    def replayed(self, hosted):
        if not hasattr(self, "has_failed"):
            self.has_failed = True
            raise KeyError("a first load that fails")
        return right(self, hosted)

    patches.set(CoordinatorRuntime, "_replayed", replayed)
    change(
        patches,
        CoordinatorRuntime,
        "_load_one",
        "except Exception:  # no thread, for one",
        "except ZeroDivisionError:",
    )


@fault(
    "Partitions whose markers are written stay in the list of those that wait",
    "BecomesHealthy",
    **PRODUCERS,
)
def written_markers_are_kept(patches):
    change(patches, CommittedAppends, "advanced", "del self._waiting[key]", "pass")


@fault(
    "The quorum counts records of the metadata log before they are on the medium",
    *("CommittedMetadataIsKept", "BecomesHealthy", "StartsAgain", "AppendedRecordsApply", "MetadataApplies"),
    **{**IN_COMMIT_MODE, "sync_ms": (1.0, 25.0), "thread_ms": (1.0, 15.0)},
)
def metadata_counts_before_it_is_synced(patches):
    change(
        patches,
        QuorumService,
        "_begin_flush",
        "    self._on_disk(lambda: self._log.sync(end, cuts), flushed)",
        "    self._loop.call_soon(flushed, None)",
    )


# ---------------------------------------------------------------- credentials and quotas


@fault(
    "A SCRAM credential that was removed stays",
    "CredentialsAreKept",
    **SETTINGS,
)
def removed_credentials_stay(patches):
    patches.set(ScramImage, "remove", lambda self, record: None)


@fault(
    "A quota that is removed takes the others of its entity with it",
    "QuotasAreKept",
    **SETTINGS,
)
def removed_quotas_take_others(patches):
    change(patches, ClientQuotasImage, "apply", "if key != record.key", "if False")


@fault(
    "Reactors follow the first client quotas only",
    "QuotasAreKept",
    **SETTINGS,
)
def first_quotas_only(patches):
    change(patches, QuotaPublisher, "_look", "image.version != self._version", "self._version == 0")


# ---------------------------------------------------------------- disks


@fault(
    "A node whose log directories have all failed goes on",
    "BecomesHealthy",
    first=3,
    **DISKS,
)
def lost_node_goes_on(patches):
    change(patches, Broker, "_look_at_directories", "self.lost.set()", "pass")


@fault(
    "The controller is not told which log directories have failed",
    "BecomesHealthy",
    first=7,
    **DISKS,
)
def failed_directories_are_not_reported(patches):
    change(patches, BrokerLifecycle, "_send_heartbeat", "if each.health.failed]", "if False]")


@fault(
    "What the quorum cannot write beside its log, such as its votes, is forgotten",
    "BecomesHealthy",
    first=178,
    **DISKS,
)
def failed_votes_are_dropped(patches):
    change(patches, QuorumService, "_on_disk", "            self._fail(error)\n", "            pass\n")


@fault(
    "A log that has failed for want of memory is not healed",
    "BecomesHealthy",
    first=21,
    **DISKS,
)
def logs_are_not_healed(patches):
    patches.set(LogHealer, "look", lambda self: None)
