"""The themes of stories: how likely the walk chooses each kind of step."""

from typing import Final

_TEXT: Final = {
    "general": """
        register=4 unfence=8 beat=6 shutdown=4 expire=3 tick=1 dirs=3 unregister=1.5 create_topics=8
        create_partitions=4 delete_topics=3 alter=12 shrink_all=1 grow_all=2 last_member=2 elect=4
        elect_leaderless=2 reassign=6 complete=4 list_reassign=1 assign_dirs=4 incremental=4 alter_configs=2
        unclean=1.5 min_isr=1.5 describe_configs=1.5 quotas=1.5 scram=1.5 create_acls=1.5 describe_acls=0.7
        delete_acls=0.7 features=2 producer_ids=2 describe=2 tokens=1 envelope=3 bad_envelope=0.7 wrong=0.5
    """,
    "elr": """
        register=3 unfence=14 beat=6 shutdown=6 expire=6 tick=2 create_topics=4 alter=12 shrink_all=5
        grow_all=5 last_member=9 elect=4 elect_leaderless=5 reassign=2 complete=2 incremental=1 unclean=5
        min_isr=6 create_partitions=1 delete_topics=1 unregister=1.5 dirs=2 upgrade=2 assign_dirs=1
    """,
    "reassign": """
        register=1 unfence=8 beat=3 shutdown=2 expire=2 create_topics=3 create_partitions=2 delete_topics=1
        alter=8 reassign=20 complete=14 list_reassign=5 elect=5 assign_dirs=2 grow_all=3 last_member=1
        unclean=1 unregister=1
    """,
    "jbod": """
        register=4 unfence=7 beat=3 dirs=14 assign_dirs=18 create_topics=7 create_partitions=4 reassign=6
        complete=4 alter=8 grow_all=3 shutdown=2 expire=2 last_member=2 elect=3 delete_topics=2 unregister=1
        upgrade=1
    """,
    "config": """
        create_topics=4 incremental=20 alter_configs=12 describe_configs=8 unclean=4 min_isr=5 last_member=2
        elect_leaderless=2 unfence=4 alter=3 beat=2 quotas=5 envelope=3 delete_topics=1
    """,
    "security": """
        create_topics=3 create_acls=14 describe_acls=6 delete_acls=7 scram=8 quotas=6 tokens=12 tick=2
        envelope=14 bad_envelope=4 describe_configs=2 describe=2 unfence=2 alter=2 wrong=1 features=1
    """,
    "features": """
        features=12 upgrade=14 register=9 describe=4 create_topics=4 alter=4 unfence=5 beat=3 shutdown=3
        dirs=3 assign_dirs=3 incremental=2 scram=3 create_acls=2 tokens=2 expire=2 last_member=2
        producer_ids=1 unregister=2
    """,
    "lifecycle": """
        register=18 unfence=14 beat=12 shutdown=10 expire=8 tick=1 unregister=4 dirs=5 create_topics=4
        alter=7 grow_all=4 producer_ids=4 elect=3 describe=2 wrong=1 last_member=2
    """,
}
THEMES: Final = {
    theme: {name: float(weight) for name, weight in (each.split("=") for each in text.split())}
    for theme, text in _TEXT.items()
}
"""By theme: how often each kind of request is chosen."""
