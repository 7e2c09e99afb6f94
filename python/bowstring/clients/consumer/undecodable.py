"""Moves a consumer's positions behind records that do not decode, by its policy."""

from __future__ import annotations

import logging

from bowstring.clients.consumer.partition_state import PartitionState
from bowstring.clients.errors import UndecodableRecordError
from bowstring.clients.undecodable_policy import OnUndecodable, UndecodablePolicy, UndecodableRecord

_log = logging.getLogger("bowstring.consumer")


class Undecodables(UndecodablePolicy):
    """A consumer's policy for records that do not decode.

    Args:
        policy: "raise", "skip", or a DeadLetter.

    Raises:
        ConfigError: the policy is something else.
    """

    def __init__(self, policy: OnUndecodable):
        super().__init__(policy, _log)

    def passes(self, state: PartitionState) -> None:
        """Moves the position behind records that do not decode.

        A dead-letter topic has acknowledged them before the position moves. If it does not, the position
        stays, and a later poll sends them again.

        Raises:
            UndecodableRecordError: the policy is "raise"; the record stays the next one.
            ClientError: the dead-letter topic did not take a record.
        """
        while state.undecoded_record is not None:
            found = [
                UndecodableRecord(record, each.field, each.reason) for record, each in state.undecoded_run()
            ]
            if self.raises:
                raise UndecodableRecordError(*found[0])
            self.pass_over(found)
            for _ in found:
                state.pass_undecoded()
