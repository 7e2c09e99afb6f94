"""`python -m tests.simulation.cluster`: tries seeds of whole clusters, and prints each that fails."""

import sys

from tests.simulation.cluster.faults import FAULTS
from tests.simulation.cluster.group_faults import GROUP_FAULTS
from tests.simulation.cluster.plan import draw
from tests.simulation.cluster.share_faults import SHARE_FAULTS
from tests.simulation.cluster.story import lines
from tests.simulation.cluster.transaction_faults import TRANSACTION_FAULTS
from tests.simulation.cluster.world import outcome
from tests.simulation.command import Simulation


def about(plan):
    """Describes a run."""
    medium = "commit mode" if plan.commit_mode else "page cache"
    elr = "with" if plan.eligible_leaders else "without"
    transactions = f", transaction.version={plan.transaction_version}" if plan.transactions else ""
    groups = ", a consumer group" if plan.groups else ""
    groups += ", a share group" if plan.shares else ""
    return (
        f"{plan.nodes} nodes, {plan.voters} of them voters, {medium}, {elr} eligible leaders, "
        f"min.insync.replicas={plan.min_in_sync}{transactions}{groups}"
    )


SIMULATION = Simulation(
    "tests.simulation.cluster",
    draw,
    outcome,
    lines,
    about,
    [*FAULTS, *TRANSACTION_FAULTS, *GROUP_FAULTS, *SHARE_FAULTS],
)

if __name__ == "__main__":
    SIMULATION.run_alike()
    sys.exit(SIMULATION.main())
