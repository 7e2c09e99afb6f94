"""Builds the metadata records that a broker writes when it starts and when it stops."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.features import missing_levels
from bowstring.engine.metadata.leaderless_partitions import elect
from bowstring.engine.metadata.store.bootstrap import read_bootstrap
from bowstring.protocol import random_uuid
from bowstring.protocol.features import (
    BOWSTRING_VERSION,
    METADATA_VERSION,
    REGISTERED_BY_BOWSTRING,
    SUPPORTED_FEATURES,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from bowstring.protocol.records.cluster_metadata.settings import FeatureLevelRecord
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.engine.broker.lone_broker import LoneBroker

_PLAINTEXT: Final = 0
_YES: Final = 1


def start_records(broker: "LoneBroker") -> list[MetadataRecord]:
    """Returns features when the log is new, this broker's registration, and leaders for partitions without
    one.

    Raises:
        DataDirectoryError: What formatting has left cannot be read.
    """
    image = broker.metadata.image
    # As in Kafka, a finalized level stays: raising it is the operator's decision.
    records = [] if METADATA_VERSION in image.features else _first_records(broker)
    records.append(
        RegisterBrokerRecord(
            broker_id=broker.node_id,
            incarnation_id=random_uuid(),
            # Like Kafka's controller, uses the offset of this record.
            broker_epoch=broker.metadata.end_offset + len(records),
            end_points=[
                BrokerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=_PLAINTEXT)
                for each in broker.advertised
            ],
            features=[
                BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in {
                    **SUPPORTED_FEATURES,
                    BOWSTRING_VERSION: REGISTERED_BY_BOWSTRING,
                }.items()
            ],
            rack=broker.configs.value("broker.rack"),
            fenced=False,
            log_dirs=broker.directories.ids(),
        )
    )
    return [*records, *elect(image, broker.node_id)]


def stop_records(broker: "LoneBroker") -> list[MetadataRecord]:
    """Returns records that mark a planned stop, so that the next broker on this log need not wait for the
    session to end.
    """
    epoch = broker.metadata.image.brokers[broker.node_id].epoch
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=epoch, fenced=_YES, in_controlled_shutdown=_YES
        )
    ]


def _first_records(broker: "LoneBroker") -> list[MetadataRecord]:
    found = read_bootstrap(broker.directory.path)
    named = {each.name: each.feature_level for each in found if isinstance(each, FeatureLevelRecord)}
    return found + [
        FeatureLevelRecord(name=name, feature_level=level) for name, level in missing_levels(named).items()
    ]
