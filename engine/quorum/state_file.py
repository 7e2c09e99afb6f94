"""Reads and writes `quorum-state`, what a replica must not forget."""

from pathlib import Path

from bowstring.engine import event_log
from bowstring.engine.metadata.quorum import QUORUM_STATE, has_voters_in_log
from bowstring.engine.raft.election_state import ElectionState, QuorumStateError
from bowstring.engine.storage.checkpoints import replace_file
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import METADATA_PARTITION_DIRECTORY


class QuorumStateFile:
    """The file beside the log."""

    def __init__(self, directory: Path, *, is_only_voter: bool = False) -> None:
        """`is_only_voter`: No other node can have got a vote of this one, so the log says enough."""
        self._path = directory / QUORUM_STATE
        self._is_only_voter = is_only_voter

    def read(self) -> ElectionState | None:
        """Returns the state; None on a new node, and on an only voter whose file is damaged.

        Raises:
            DataDirectoryError: It cannot be read. The node may have voted, and must not vote again.
            OSError: An only voter cannot read it now.
        """
        try:
            return ElectionState.from_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, QuorumStateError, UnicodeDecodeError) as error:
            if self._is_only_voter:
                if isinstance(error, OSError):
                    raise
                event_log.error(
                    "the quorum-state file of the metadata log is damaged and is rebuilt from the log; no "
                    "action is needed",
                    file=str(self._path),
                    detail=str(error),
                )
                return None
            raise DataDirectoryError(
                f"{self._path} cannot be read ({error}), so it is not known for whom this node has voted; "
                "give it an empty data directory (bowstring format --no-initial-controllers): it comes back "
                "as an observer and copies the metadata from the others"
            ) from error

    def write(self, content: str) -> None:
        """Replaces the file; it is durable on return."""
        replace_file(self._path, content)


def voters_in_log(directory: Path) -> bool | None:
    """Whether the voters are in the metadata log (KIP-853), as a node has stored in its metadata directory;
    None if the node has never run.

    Raises:
        OSError: The state cannot be read.
    """
    path = directory / METADATA_PARTITION_DIRECTORY / QUORUM_STATE
    try:
        return has_voters_in_log(path.read_text(encoding="utf-8", errors="replace"))
    except FileNotFoundError:
        return None
