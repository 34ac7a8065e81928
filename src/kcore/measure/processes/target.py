"""Parses --target, --jvm, --property and --java: the controllers to measure, and how the run starts them.

A target has a label, which names it in all results. Without a label its own text is the name.
"""

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kcore.errors import TargetError
from kcore.measure.processes.jars import check_release, kafka_jars
from kcore.measure.processes.kcore_quorum import KCORE_KRAFT
from kcore.net.address import address_flaw
from kcore.net.request_context import PLAINTEXT
from kcore.releases.known import DEFAULT_RELEASE
from kcore.spark.java import java_home
from kcore.suggestions import did_you_mean

KAFKA: Final = f"kafka-{DEFAULT_RELEASE}"
KAFKA_ZK: Final = "kafka-3.9.1-zk"
KCORE_ZK: Final = "kcore-zk"
OWN: Final = (KCORE_KRAFT, KCORE_ZK)
"""The targets that run kcore."""
TOOL_PROPERTIES: Final = frozenset(
    {
        *("process.roles", "node.id", "broker.id", "listeners", "advertised.listeners", "controller.listener.names"),
        *("listener.security.protocol.map", "controller.quorum.bootstrap.servers", "controller.quorum.voters"),
        *("log.dir", "log.dirs", "metadata.log.dir", "zookeeper.connect"),
    }
)
"""The properties that kcore sets for each process: --property refuses them."""
_RELEASE: Final = "kafka-"
_ZK: Final = "-zk"
_FOLDERS: Final = {"kafka:": False, "kafka-zk:": True}  # Whether they are in ZooKeeper mode.
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_LABELLED: Final = re.compile(r"([^:/\[\]]*?)=(.*)", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
# The properties that --secure sets, and those with a secret: a property is shown in the results.
_OF_SECURITY: Final = re.compile(
    r"(?:.*\.)?(?:ssl\.(?:keystore|truststore|key)\..*|ssl\.client\.auth|sasl\.enabled\.mechanisms"
    r"|sasl\.mechanism\..*|sasl\.jaas\.config|.*(?:password|secret).*)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """The quorum, or the controller in ZooKeeper mode, to measure; `text`: as the user wrote it, without the label."""

    text: str
    label: str = ""
    release: str | None = None  # of Kafka, whose jars are fetched
    folder: Path | None = None  # with Kafka's jars, or with a folder libs that has them
    is_kcore: bool = False
    addresses: tuple[str, ...] = ()  # of controllers that run already
    in_zookeeper: bool = False  # A controller in ZooKeeper mode, started for the run with a ZooKeeper.
    java: Path | None = None  # The program java; None: that of `java_home`.
    jvm_options: tuple[str, ...] = ()
    properties: tuple[str, ...] = ()  # Lines NAME=VALUE.
    security: str = PLAINTEXT  # The security protocol of the connections.

    @classmethod
    def parse(cls, text: str, own: Sequence[str] = OWN) -> "Target":
        """From "[LABEL=]FORM"; a form is one of `own`, kafka-RELEASE, kafka:DIR, or HOST:PORT,HOST:PORT.

        TargetError names the fault and the valid forms.
        """
        label = ""
        if found := _LABELLED.fullmatch(text):
            label, text = found.groups()
            if not _LABEL.fullmatch(label):
                raise TargetError(f"--target {label}={text}: a label has 1 to 40 letters, digits, dots, - or _")
        return replace(cls._of(text, own), label=label)

    @classmethod
    def _of(cls, text: str, own: Sequence[str]) -> "Target":
        if text in own:
            return cls(text, is_kcore=True, in_zookeeper=text.endswith(_ZK))
        for prefix, in_zookeeper in _FOLDERS.items():
            if text.startswith(prefix) and len(text) > len(prefix):
                folder = _path("--target", text, text.removeprefix(prefix))
                return cls(text, folder=folder, in_zookeeper=in_zookeeper)
        if text.startswith(_RELEASE) and ":" not in text:
            in_zookeeper = text.endswith(_ZK)
            release = text.removeprefix(_RELEASE).removesuffix(_ZK)
            try:
                check_release(release, in_zookeeper=in_zookeeper)
            except TargetError as error:
                raise TargetError(f"--target {text}: {error}") from None
            return cls(text, release=release, in_zookeeper=in_zookeeper)
        addresses = tuple(part.strip() for part in text.split(","))
        if not all(map(_is_address, addresses)):
            raise TargetError(f"--target {text!r}: {_known(own)}")
        return cls(text, addresses=addresses)

    @property
    def name(self) -> str:
        """The label, or without one the text: the target's name in all results."""
        return self.label or self.text

    @property
    def is_kafka(self) -> bool:
        """True if the run starts Kafka's controllers."""
        return self.release is not None or self.folder is not None

    @property
    def is_started(self) -> bool:
        """True if the run starts the controllers."""
        return not self.addresses

    @property
    def can_be_secured(self) -> bool:
        """True if the run starts the controllers of a quorum."""
        return self.is_started and not self.in_zookeeper

    def secured(self, protocol: str) -> "Target":
        """The same quorum, started for the run with that security protocol."""
        return replace(self, label=f"{self.name}+{protocol}", security=protocol)

    @property
    def java_program(self) -> Path:
        """The program java of Kafka's processes; NoJavaError if there is none."""
        return self.java or java_home() / "bin" / "java"

    def jars(self) -> Path:
        """The folder with Kafka's jars, fetched at the first use. TargetError if it has none."""
        if self.folder is None:
            assert self.release is not None, f"{self.text} has no jars"
            return kafka_jars(self.release)
        return jars_in(self.folder)


def jars_in(folder: Path) -> Path:
    """The folder itself, or its folder libs as in Kafka's distribution: whichever has jars. TargetError if none has."""
    if os.pathsep in str(folder):
        raise TargetError(
            f"{folder}: a class path of Java has no path with {os.pathsep!r}: rename the folder, or link it"
        )
    try:
        for each in (folder, folder / "libs"):
            if each.is_dir() and any(name.endswith(".jar") for name in os.listdir(each)):
                return each
        what = "has no jars, nor has its folder libs" if folder.is_dir() else "is no folder"
    except OSError as error:
        raise TargetError(f"{error.filename}: {error.strerror}") from None
    raise TargetError(f"{folder} {what}: name an unpacked distribution of Kafka, or a folder with its jars")


def parse_targets(
    texts: Iterable[str],
    *,
    jvm: Iterable[str] = (),
    properties: Iterable[str] = (),
    java: Iterable[str] = (),
    own: Sequence[str] = OWN,
) -> list[Target]:
    """The targets with their options. Each option is "LABEL:VALUE", or VALUE for all targets that it can apply to.

    TargetError for a target that is given twice, an unknown label, or an option that a target cannot have.
    """
    targets = [Target.parse(text, own) for text in texts]
    _check_names(targets)
    for option in jvm:
        targets = _with_jvm_option(targets, option)
    for line in properties:
        targets = _with_property(targets, line)
    for program in java:
        targets = _with_java(targets, program)
    return targets


def _check_names(targets: Sequence[Target]) -> None:
    seen: set[str] = set()
    for target in targets:
        key = ",".join(sorted(target.addresses)) or target.name  # Addresses in another order are the same controllers.
        if key not in seen:
            seen.add(key)
            continue
        if target.label:
            raise TargetError(f"--target: the label {target.label} is given twice: choose another one")
        fix = (
            "leave one out"
            if target.addresses
            else f"give each a label, as in --target a={target.text} --target b={target.text}"
        )
        raise TargetError(f"--target {target.text} is given twice: {fix}")


def _with_jvm_option(targets: Sequence[Target], given: str) -> list[Target]:
    names, option = _split(targets, given)
    if names is None and not option.startswith("-"):
        raise TargetError(_unknown("--jvm", given, targets, "an option of the JVM begins with -"))
    if not option.startswith("-") or any(letter.isspace() for letter in option):
        raise TargetError(f"--jvm {given}: give one option of the JVM, such as -XX:+UseZGC")
    chosen = _chosen(targets, names, "--jvm", given, {each.name for each in targets if each.is_kafka}, "no JVM")
    return [replace(each, jvm_options=(*each.jvm_options, option)) if each.name in chosen else each for each in targets]


def _with_property(targets: Sequence[Target], given: str) -> list[Target]:
    names, line = _split(targets, given)
    name, equals, value = line.partition("=")
    if names is None and ":" in name:
        raise TargetError(_unknown("--property", given, targets, "without a label give NAME=VALUE"))
    if not equals or not _NAME.fullmatch(name.strip()) or not value.isprintable():
        raise TargetError(f"--property {given!r}: give NAME=VALUE, or LABEL:NAME=VALUE")
    if name.strip() in TOOL_PROPERTIES:
        raise TargetError(f"--property {given}: kcore sets {name.strip()} for each process: leave it out")
    if _OF_SECURITY.fullmatch(name.strip()):
        raise TargetError(f"--property {name.strip()}: kcore makes certificates, keys and users: give --secure")
    started = {each.name for each in targets if each.is_started}
    chosen = _chosen(targets, names, "--property", given, started, "properties of its own")
    return [
        replace(each, properties=(*each.properties, f"{name.strip()}={value.strip()}")) if each.name in chosen else each
        for each in targets
    ]


def _with_java(targets: Sequence[Target], given: str) -> list[Target]:
    names, text = _split(targets, given)
    path = _path("--java", given, text)
    program = path / "bin" / "java" if os.path.isdir(path) else path
    if not (os.path.isfile(program) and os.access(program, os.X_OK)):
        known = f"; labels: {', '.join(each.name for each in targets)}" if names is None and ":" in given else ""
        raise TargetError(f"--java {given}: there is no program java at {program}{known}")
    chosen = _chosen(targets, names, "--java", given, {each.name for each in targets if each.is_kafka}, "no JVM")
    return [replace(each, java=program) if each.name in chosen else each for each in targets]


def _path(option: str, given: str, text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError:
        raise TargetError(f"{option} {given}: there is no user {text.partition('/')[0].removeprefix('~')}") from None


def _split(targets: Sequence[Target], given: str) -> tuple[str | None, str]:
    """The name of a target before the colon, None if there is none; and the rest."""
    for name in sorted((each.name for each in targets), key=len, reverse=True):
        if given.startswith(f"{name}:"):
            return name, given[len(name) + 1 :]
    return None, given


def _chosen(
    targets: Sequence[Target], name: str | None, option: str, given: str, able: Collection[str], lack: str
) -> Collection[str]:
    """The names of the targets that get an option; TargetError if the named one, or every one, cannot have it."""
    if name is None and able:
        return able
    if name is not None and name in able:
        return (name,)
    which = name or ", ".join(each.name for each in targets)
    why = f"has {lack}" if lack.startswith("no ") else f"runs already, with {lack}"
    raise TargetError(f"{option} {given}: {which} {why}")


def _unknown(option: str, given: str, targets: Sequence[Target], otherwise: str) -> str:
    """The error for an option that begins with an unknown label."""
    label, names = given.partition(":")[0], [each.name for each in targets]
    known = f"the labels are {', '.join(names)}; {otherwise}"
    return f"{option} {given}: no target has the label {label!r}{did_you_mean(label, names)}; {known}"


def _known(own: Sequence[str]) -> str:
    """The valid forms of a target, in words; only storms have addresses and ZooKeeper mode."""
    addresses = "HOST:PORT of a controller, several with commas, " if own is OWN else ""
    in_zookeeper = f", {KAFKA_ZK}, kafka-zk:DIR" if own is OWN else ""
    return f"give {addresses}{KAFKA} or another release, kafka:DIR with Kafka's jars{in_zookeeper}, {', '.join(own)}"


def _is_address(text: str) -> bool:
    host, _, port = text.rpartition(":")
    return port.isdecimal() and int(port) > 0 and address_flaw(host.strip("[]"), int(port)) is None
