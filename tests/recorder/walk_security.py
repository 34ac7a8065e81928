"""Credentials and access control lists."""

import base64
from typing import Any

from recorder.walk_settings import Settings


class Security(Settings):
    """Requests about users."""

    def g_scram(self) -> Any:
        users = ["alice", "bob", "carol", ""]
        salt = base64.b64encode(self.r.randbytes(12)).decode()
        password = base64.b64encode(self.r.randbytes(32)).decode()
        upsertions = (
            [
                {
                    "name": self.r.choice(users[:3] + users[:3] + [""]),
                    "mechanism": self.r.choice([1, 1, 2, 2, 0, 9]),
                    "iterations": self.r.choice([4096, 8192, 1, 20000, 16384]),
                    "salt": salt,
                    "saltedPassword": password,
                }
            ]
            if self.chance(0.75)
            else []
        )
        deletions = []
        if self.chance(0.4):
            known = sorted(self.state.scram)
            name, mechanism = (
                self.r.choice(known) if known and self.chance(0.7) else (self.r.choice(users), self.r.choice([1, 2, 0]))
            )
            deletions = [{"name": name, "mechanism": mechanism}]
        if self.chance(0.1) and upsertions:
            upsertions.append(dict(upsertions[0]))
        return self.s.ask("AlterUserScramCredentials", {"deletions": deletions, "upsertions": upsertions})

    def acl(self) -> Any:
        kind = self.r.choice([2, 2, 2, 3, 4, 5, 6, 7])
        name = {2: self.topic() or "t1", 4: "kafka-cluster", 7: "User:bob"}.get(kind, "g1")
        if kind == 2 and self.chance(0.3):
            name = "*"
        operation = {
            2: [3, 4, 5, 6, 7, 8, 10, 11, 2],
            4: [5, 8, 7, 10, 11, 9, 12],
            3: [3, 6, 8],
            5: [8, 4],
            6: [8],
            7: [13, 14],
        }[kind]
        return {
            "resourceType": kind,
            "resourceName": name,
            "resourcePatternType": self.r.choice([3, 3, 3, 4]),
            "principal": self.r.choice(["User:alice", "User:alice", "User:bob", "User:*"]),
            "host": self.r.choice(["*", "*", "10.0.0.1"]),
            "operation": self.r.choice(operation),
            "permissionType": self.r.choice([3, 3, 3, 2]),
        }

    def g_create_acls(self) -> Any:
        creations = [self.acl() for _ in range(self.r.choice([1, 1, 2, 3]))]
        if self.chance(0.15):
            creations[0].update(
                self.r.choice(
                    [
                        {"principal": "alice"},
                        {"resourceType": 4, "resourceName": "other"},
                        {"operation": 1},
                        {"permissionType": 1},
                        {"resourcePatternType": 1},
                        {"resourceName": ""},
                        {"host": ""},
                        {"operation": 0},
                        {"resourceType": 0},
                        {"resourceType": 1},
                    ]
                )
            )
        if self.chance(0.1):
            creations.append(dict(creations[0]))
        return self.s.ask("CreateAcls", {"creations": creations}, version=self.some_version("CreateAcls"))

    def acl_filter(self) -> Any:
        a = self.pick([self.state.acls[k] for k in self.state.acls]) if self.chance(0.5) else None
        if a is not None:
            exact = sorted(
                self.state.acls.values(),
                key=lambda m: (
                    m.resource_type,
                    m.resource_name,
                    m.pattern_type,
                    m.principal,
                    m.host,
                    m.operation,
                    m.permission_type,
                ),
            )
            a = self.r.choice(exact)
            return {
                "resourceTypeFilter": a.resource_type,
                "resourceNameFilter": a.resource_name,
                "patternTypeFilter": a.pattern_type,
                "principalFilter": a.principal,
                "hostFilter": a.host,
                "operation": a.operation,
                "permissionType": a.permission_type,
            }
        return {
            "resourceTypeFilter": (self.r.choice([1, 1, 2, 4]) if self.chance(0.96) else 0),
            "resourceNameFilter": self.r.choice([None, "t1", "kafka-cluster"]),
            "patternTypeFilter": self.r.choice([1, 2, 3, 4]) if self.chance(0.97) else 0,
            "principalFilter": self.r.choice([None, "User:alice", "User:bob"]),
            "hostFilter": self.r.choice([None, "*"]),
            "operation": self.r.choice([1, 1, 8]) if self.chance(0.97) else 0,
            "permissionType": self.r.choice([1, 1, 2, 3]),
        }

    def g_describe_acls(self) -> Any:
        return self.s.ask("DescribeAcls", self.acl_filter(), version=self.some_version("DescribeAcls"))

    def g_delete_acls(self) -> Any:
        if self.state.acls and len(self.state.acls) < 3 and self.chance(0.5):
            return False
        return self.s.ask(
            "DeleteAcls",
            {"filters": [self.acl_filter() for _ in range(self.r.choice([1, 1, 2]))]},
            version=self.some_version("DeleteAcls"),
        )
