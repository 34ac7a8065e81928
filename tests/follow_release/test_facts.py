"""Schemas and bytecode, as they are read from jars."""

import json
import zipfile
from pathlib import Path

from follow_release.code import methods_of
from follow_release.facts import messages_in, without_comments

SCHEMA = """// Licensed to the ASF.
{ "apiKey": 63, "type": "request", "name": "BrokerHeartbeatRequest", "validVersions": "0-1", // Version 1: KIP-858.
  "flexibleVersions": "0+", "fields": [
    { "name": "Url", "type": "string", "versions": "0+", "about": "A text.", "default": "http://a" } ] }
"""
JAVAP = """Compiled from "Quorum.java"
public class org.Quorum {
  int elect(int);
    Code:
       0: iload_1
       1: ifne          {0}
       4: invokevirtual #{0}                 // Method org/Quorum.vote:()I
       7: ireturn

  private int lambda$elect${0}(int);
    Code:
       0: iconst_{1}

  public int hashCode();
    Code:
       0: iconst_{1}
}
Compiled from "Quorum.java"
class org.Quorum$Voter {
  void vote();
    Code:
       0: return
}
"""


def javap(pool: int, constant: int) -> str:
    """The output of javap. `pool`: a place in the constant pool; `constant`: a number in the code."""
    return JAVAP.replace("{0}", str(pool)).replace("{1}", str(constant))


def test_schemas_are_read_without_comments_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "kafka-clients-4.3.1.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("common/message/BrokerHeartbeatRequest.json", SCHEMA)
        jar.writestr("common/other.json", "{}")
        jar.writestr("org/apache/kafka/common/message/BrokerHeartbeatRequestData.class", b"")
        jar.writestr("org/apache/kafka/common/message/BrokerHeartbeatRequestData$1.class", b"")
    found = messages_in([path])
    assert list(found) == ["BrokerHeartbeatRequest"]
    assert found["BrokerHeartbeatRequest"] == {
        **{"apiKey": 63, "type": "request", "name": "BrokerHeartbeatRequest", "validVersions": "0-1"},
        **{"flexibleVersions": "0+", "class": "org.apache.kafka.common.message.BrokerHeartbeatRequestData"},
        "fields": [{"name": "Url", "type": "string", "versions": "0+", "default": "http://a"}],
    }


def test_comments_within_texts_stay() -> None:
    assert json.loads(without_comments('{"a": "x // y", /* no */ "b": "\\"//"} // end')) == {"a": "x // y", "b": '"//'}


def test_methods_are_compared_without_the_numbers_of_the_constant_pool() -> None:
    assert methods_of(javap(17, 1)) == methods_of(javap(23, 1))
    assert methods_of(javap(17, 1)) == methods_of(javap(17, 1).replace("org/Quorum.vote", "org/internals/Quorum.vote"))
    left, right = methods_of(javap(17, 1))["org.Quorum"], methods_of(javap(17, 2))["org.Quorum"]
    assert list(left) == ["elect", "Voter.vote"]  # A lambda counts to its method; hashCode decides nothing.
    assert [name for name in left if left[name] != right[name]] == ["elect"]
