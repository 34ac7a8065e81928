"""The list of all periodic tasks, with their work and due times."""

from kcore.controller.kraft.admin.tokens import expire_tokens
from kcore.controller.kraft.brokers.fencing import fence_stale_brokers
from kcore.controller.kraft.kraft_controller_config import KraftControllerConfig
from kcore.controller.kraft.leaders.leader_elections import balance_leaders, elect_unclean
from kcore.controller.kraft.periodic import Task, tasks_of


def all_tasks(config: KraftControllerConfig) -> list[Task]:
    """The periodic tasks of a controller with these settings (QuorumController's constructor)."""
    return tasks_of(
        config,
        fence=fence_stale_brokers,
        elect_unclean=elect_unclean,
        balance=balance_leaders,
        expire_tokens=expire_tokens,
    )
