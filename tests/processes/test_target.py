"""--target, --jvm, --property and --java: valid values, the targets that get them, and errors of one line."""

from pathlib import Path

import pytest

from kcore.errors import TargetError
from kcore.measure.processes import target as targets
from kcore.measure.processes.target import TOOL_PROPERTIES, Target, jars_in, parse_targets

DIR = Path("/some/kafka")


def test_a_release_or_a_folder_is_started_and_addresses_are_taken_as_they_are() -> None:
    assert Target.parse("kafka-4.3.1") == Target("kafka-4.3.1", release="4.3.1")
    assert Target.parse("kafka-4.4.0-rc1").release == "4.4.0-rc1"
    assert Target.parse("kcore-kraft") == Target("kcore-kraft", is_kcore=True)
    assert Target.parse("kcore-zk") == Target("kcore-zk", is_kcore=True, in_zookeeper=True)
    assert Target.parse("kafka-3.7.2-zk") == Target("kafka-3.7.2-zk", release="3.7.2", in_zookeeper=True)
    assert Target.parse(f"kafka:{DIR}") == Target(f"kafka:{DIR}", folder=DIR)
    assert Target.parse(f"kafka-zk:{DIR}") == Target(f"kafka-zk:{DIR}", folder=DIR, in_zookeeper=True)
    assert Target.parse("kafka:here").folder == Path("here").absolute()
    assert Target.parse("one:9093, [::1]:9094").addresses == ("one:9093", "[::1]:9094")


def test_a_label_names_the_target() -> None:
    g1 = Target.parse("g1=kafka-4.4.0")
    assert (g1.name, g1.text, g1.release) == ("g1", "kafka-4.4.0", "4.4.0")
    assert Target.parse("kafka-4.4.0").name == "kafka-4.4.0"
    assert Target.parse("kafka:/a=b").folder == Path("/a=b"), "a path may have an equals sign"
    assert Target.parse("prod=one:9093").addresses == ("one:9093",)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kcore",
        "localhost",
        "localhost:",
        ":9093",
        "a:1,b",
        "a:0",
        "a:65536",
        "a:x",
        f"{'a' * 64}:1",
        "kafka:",
        "x=",
    ],
)
def test_an_invalid_target_is_refused_with_valid_ones(text: str) -> None:
    with pytest.raises(TargetError, match=r"^--target .*HOST:PORT.*kafka-4\.4\.0.*kafka:DIR.*kcore-kraft") as refused:
        Target.parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafka-0.7", "a form such as 4.4.0"),
        ("kafka-4.4", "a form such as 4.4.0"),
        ("kafka-3.6.2", "releases from 3.7.0 on"),
        ("kafka-4.4.0-zk", "has no ZooKeeper mode: 3.9 was the last"),
        ("a b=kafka-4.4.0", "a label has 1 to 40"),
        (f"{'a' * 41}=kafka-4.4.0", "a label has 1 to 40"),
        ("=kafka-4.4.0", "a label has 1 to 40"),
    ],
)
def test_an_impossible_release_or_label_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(TargetError, match=f"^--target {text}: .*{said}"):
        Target.parse(text)


def test_options_go_to_the_named_target_or_to_all_that_can_have_them() -> None:
    names = ["g1=kafka-4.4.0", "zgc=kafka-4.4.0", "kcore-kraft", "localhost:9093"]
    g1, zgc, kcore, other = parse_targets(
        names,
        jvm=["zgc:-XX:+UseZGC", "-Xss1m"],
        properties=["g1:metadata.log.max.record.bytes.between.snapshots=9", "a.b=c=d:e", "kcore-kraft:x=1"],
    )
    assert (g1.jvm_options, zgc.jvm_options) == (("-Xss1m",), ("-XX:+UseZGC", "-Xss1m"))
    assert g1.properties == ("metadata.log.max.record.bytes.between.snapshots=9", "a.b=c=d:e")
    assert zgc.properties == ("a.b=c=d:e",) and kcore.properties == ("a.b=c=d:e", "x=1")
    assert not kcore.jvm_options and not other.jvm_options and not other.properties


def test_a_label_that_begins_like_another_has_options_of_its_own() -> None:
    one, other = parse_targets(["a=kafka-4.4.0", "a.b=kafka-4.4.0"], jvm=["a.b:-Xss1m"])
    assert (one.jvm_options, other.jvm_options) == ((), ("-Xss1m",))


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (["kafka-4.4.0", "kafka-4.4.0"], {}, "give each a label, as in --target a=kafka-4.4.0 --target b="),
        (["a=kafka-4.4.0", "a=kafka-4.3.1"], {}, "the label a is given twice"),
        (["kafka-4.4.0", "kafka-4.4.0=kafka-4.3.1"], {}, "the label kafka-4.4.0 is given twice"),
        (["a=h:1,h:2", "b=h:2,h:1"], {}, "is given twice"),
        (["zgc=kafka-4.4.0"], {"jvm": ["zg:-XX:+UseZGC"]}, "the label 'zg'; did you mean 'zgc'.*labels are zgc"),
        (["zgc=kafka-4.4.0"], {"jvm": ["UseZGC"]}, "begins with -"),
        (["zgc=kafka-4.4.0"], {"jvm": ["zgc:UseZGC"]}, "give one option of the JVM"),
        (["zgc=kafka-4.4.0"], {"jvm": ["-Xmx1g -Xss1m"]}, "give one option of the JVM"),
        (["kcore-kraft"], {"jvm": ["-Xmx1g"]}, "kcore-kraft has no JVM"),
        (["kcore-kraft", "kafka-4.4.0"], {"jvm": ["kcore-kraft:-Xmx1g"]}, "kcore-kraft has no JVM"),
        (["g1=kafka-4.4.0"], {"properties": ["g2:a=b"]}, "no target has the label 'g2'; .*labels are g1"),
        (["g1=kafka-4.4.0"], {"properties": ["a"]}, "give NAME=VALUE"),
        (["g1=kafka-4.4.0"], {"properties": ["g1:=b"]}, "give NAME=VALUE"),
        (["g1=kafka-4.4.0"], {"properties": ["a=b\nnode.id=3"]}, "give NAME=VALUE"),
        (["g1=kafka-4.4.0"], {"properties": ["g1:node.id=3"]}, "kcore sets node.id for each process"),
        (["h:1"], {"properties": ["a=b"]}, "h:1 runs already"),
        (["h:1", "g1=kafka-4.4.0"], {"properties": ["h:1:a=b"]}, "h:1 runs already"),
        (["g1=kafka-4.4.0"], {"java": ["/nowhere"]}, "there is no program java at /nowhere"),
        (["g1=kafka-4.4.0"], {"java": ["g2:/nowhere"]}, "labels: g1"),
        (["g1=kafka-4.4.0"], {"java": ["~no.such.user/jdk"]}, "--java ~no.such.user/jdk: .* no user no.such.user"),
        (["g1=kafka-4.4.0"], {"java": ["g1:" + "a" * 300]}, "there is no program java"),
        (["kafka:~no.such.user/kafka"], {}, "--target kafka:~no.such.user/kafka: there is no user no.such.user"),
        (["k=kcore-kraft"], {"properties": ["k:ssl.keystore.key=Geheim"]}, "ssl.keystore.key: .*give --secure$"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_one_line(names: list[str], options: dict[str, list[str]], said: str) -> None:
    with pytest.raises(TargetError, match=said) as refused:
        parse_targets(names, **options)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "ssl.truststore.location",
        "ssl.key.password",
        "ssl.client.auth",
        "sasl.enabled.mechanisms",
        "sasl.mechanism.controller.protocol",
        "listener.name.controller.plain.sasl.jaas.config",
        "listener.name.controller.ssl.keystore.certificate.chain",
        "delegation.token.secret.key",
        "password.encoder.secret",
    ],
)
def test_a_property_that_secure_sets_or_that_is_secret_is_refused_without_its_value(name: str) -> None:
    with pytest.raises(TargetError, match=f"^--property {name}: .*: give --secure$"):
        parse_targets(["kcore-kraft"], properties=[f"{name}=Geheim"])


def test_other_settings_of_tls_are_properties() -> None:
    [kcore] = parse_targets(["kcore-kraft"], properties=["ssl.enabled.protocols=TLSv1.2"])
    assert kcore.properties == ("ssl.enabled.protocols=TLSv1.2",)


@pytest.mark.parametrize("name", sorted(TOOL_PROPERTIES))
def test_a_property_of_the_tool_is_refused(name: str) -> None:
    with pytest.raises(TargetError, match=f"kcore sets {name}"):
        parse_targets(["kafka-4.4.0"], properties=[f" {name} = x"])


def test_java_is_a_program_or_a_home(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.touch(0o755)
    for text in (str(tmp_path), str(program), f"g1:{tmp_path}"):
        g1, kcore = parse_targets(["g1=kafka-4.4.0", "kcore-kraft"], java=[text])
        assert (g1.java_program, kcore.java) == (program, None)
    program.chmod(0o644)
    with pytest.raises(TargetError, match="there is no program java"):
        parse_targets(["kafka-4.4.0"], java=[str(tmp_path)])


def test_the_jars_are_in_the_folder_or_in_its_libs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TargetError, match="has no jars, nor has its folder libs"):
        jars_in(tmp_path)
    with pytest.raises(TargetError, match="is no folder: name an unpacked distribution"):
        jars_in(tmp_path / "nowhere")
    with pytest.raises(TargetError, match=r"a{300}: File name too long$"):
        jars_in(tmp_path / ("a" * 300))
    with pytest.raises(TargetError, match=r"/a:b: a class path of Java has no path with ':'"):
        jars_in(tmp_path / "a:b")
    (tmp_path / "libs").mkdir()
    (tmp_path / "libs" / "a.jar").touch()
    assert Target.parse(f"kafka:{tmp_path}").jars() == tmp_path / "libs"
    (tmp_path / "b.jar").touch()
    assert jars_in(tmp_path) == tmp_path
    monkeypatch.setattr(targets, "kafka_jars", lambda release: tmp_path / release)
    assert Target.parse("kafka-4.0.1").jars() == tmp_path / "4.0.1"
