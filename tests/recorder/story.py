"""One story: a walk over the wire to one fresh controller, each request with its response and what was appended."""

import base64
import re
import time
from pathlib import Path
from typing import Any, Final

import kcore
from controller.kraft.recorded.story_wire import NAMES, UNKNOWN, Json, request_bytes, response_json
from kcore.schema.index import REQUESTS
from kcore.types import Uuid
from recorder.free_paths import free_paths, unordered
from recorder.known_records import KnownRecords
from recorder.real_controller import Connection, Jvm, LogFile, emptied
from recorder.requests import envelope_bytes, envelope_of, filled, principal_bytes
from recorder.settings import NODE, SESSION_MS, Setup
from recorder.walk import Walk
from recorder.wrong_requests import bad_envelope, wrong_request

REGISTERS_FROM: Final = 15  # metadata.version 3.7-IV0: a controller registers itself.
QUIET_STEPS: Final = 5  # So often 100 ms more bring nothing: then an advance has ended.
LATEST_S: Final = 20.0


def log_of(folder: Path) -> Path:
    """The metadata log's first segment of the controller in that folder."""
    return folder / "log" / "__cluster_metadata-0" / f"{0:020}.log"


def write_properties(folder: Path, properties: Json) -> Path:
    """The file, with the directory of the log."""
    path = folder / "node.properties"
    lines = {**properties, "log.dirs": folder / "log"}.items()
    path.write_text("".join(f"{name}={value}\n" for name, value in lines))
    return path


def formatted(jvm: Jvm, folder: Path, setup: Setup, cluster_id: str, properties: Json, voters: str) -> None:
    """`voters`: as --initial-controllers; the directory of the controller that is formatted is among them."""
    path = write_properties(folder, properties)
    words = ["format", "-t", cluster_id, "-c", path, "--release-version", setup.level]
    if setup.dynamic:
        words += ["--initial-controllers", voters]
    for each in setup.format_features:
        words += ["--feature", each]
    answer = jvm.ask("format", *words)
    assert answer[:2] == ["ok", "0"], (words, answer)
    [own] = [each for each in voters.split(",") if each.startswith(f"{properties['node.id']}@")]
    meta = folder / "log" / "meta.properties"
    meta.write_text(re.sub(r"directory\.id=\S+", f"directory.id={own.rsplit(':', 1)[1]}", meta.read_text()))


class Story:
    """One recorded story: a controller, its log, and the random walk that sends it requests."""

    walk: type[Walk] = Walk

    def __init__(self, setup: Setup, port: int, jvm: Jvm, folder: Path) -> None:
        self.setup, self.port, self._jvm, self._folder = setup, port, jvm, folder
        self.random, self.theme, self.length = setup.random, setup.theme, setup.length
        self.broker_count, self.racks, self.dir_counts = setup.broker_count, setup.racks, setup.dir_counts
        self.authorizer, self.tokens = setup.authorizer, setup.tokens
        self.state, self.steps = KnownRecords(), list[Json]()
        self.cluster_id, self.directory_id = self._uuid(), self._uuid()
        self.feature_limits: dict[str, tuple[int, int]] = {}
        self.next_envelope: tuple[str, str] | None = None
        self.can_register_controller, self.broken = False, ""
        self.connection = Connection(port)
        self._seen: set[str] = set()

    def _uuid(self) -> str:
        while (text := str(Uuid(self.random.randbytes(16)))).startswith("-"):
            pass
        return text

    def recorded(self) -> Json:
        """All of it."""
        head = self._start()
        try:
            self.walk(self).run()
        finally:
            self.connection.close()
            self._end()
        assert not self.broken, self.broken
        return {**head, "steps": self.steps}

    def _end(self) -> None:
        self._jvm.must("stop")

    # Set-up.

    def _start(self) -> Json:
        setup, properties = self.setup, self.setup.properties({NODE: self.port})
        self._launch(properties)
        body = {"clientSoftwareName": "story", "clientSoftwareVersion": "1"}
        data = self.connection.exchange(request_bytes("ApiVersions", 4, filled("ApiVersions", 4, body), 0))
        assert data is not None
        versions, _ = response_json("ApiVersions", 4, data)
        names = {key: cls.__name__.removesuffix("Request") for key, cls in REQUESTS.items()}
        rows = [each for each in versions["apiKeys"] if each["apiKey"] in names]
        self.announced = {names[each["apiKey"]]: (each["minVersion"], each["maxVersion"]) for each in rows}
        newest = {name: min(highest, NAMES[name].versions.highest) for name, (_, highest) in self.announced.items()}
        self.api_versions = {name: (lowest, newest[name]) for name, (lowest, _) in self.announced.items()}
        features = versions.get("supportedFeatures", [])
        self.supported = {each["name"]: (each["minVersion"], each["maxVersion"]) for each in features}
        if self.theme == "features" and self.random.random() < 0.4:
            low, high = self.supported["metadata.version"]
            self.feature_limits = {"metadata_version": (low, self.random.randint(max(low, high - 4), high))}
        batches = self._bootstrap()
        return {
            **{"story": f"{setup.release}-{setup.seed}", "release": setup.release, "theme": setup.theme},
            **{"clusterId": self.cluster_id, "controllerId": NODE, "directoryId": self.directory_id},
            **{"port": self.port, "placementSeed": setup.placement_seed, "sessionTimeoutMs": SESSION_MS},
            "format": {
                **{"releaseVersion": setup.level, "features": setup.format_features},
                "voters": "dynamic" if setup.dynamic else "static",
            },
            **{"config": properties, "apiVersions": {name: [*bounds] for name, bounds in self.announced.items()}},
            "supportedFeatures": {name: [*bounds] for name, bounds in sorted(self.supported.items())},
            "bootstrap": batches,
            **self._head(),
        }

    def _head(self) -> Json:
        """More about the story."""
        return {}

    def _launch(self, properties: Json) -> None:
        """The controller is formatted, and started."""
        voters = f"{NODE}@127.0.0.1:{self.port}:{self.directory_id}"
        formatted(self._jvm, emptied(self._folder), self.setup, self.cluster_id, properties, voters)
        self._jvm.must("start", self._folder / "node.properties", self.setup.placement_seed)
        self.log = LogFile(log_of(self._folder))

    def _bootstrap(self) -> list[Json]:
        """Until the controller is active, and has registered itself."""
        batches, end = list[Json](), time.monotonic() + LATEST_S
        while not self.state.features or self._unregistered:
            assert time.monotonic() < end, "the controller was not activated"
            time.sleep(0.004)
            batches += self._read()
        self._synced()
        self.can_register_controller = self._registers
        return batches

    @property
    def _registers(self) -> bool:
        return self.state.features.get("metadata.version", 0) >= REGISTERS_FROM

    @property
    def _unregistered(self) -> set[int]:
        """The controllers that have yet to register themselves."""
        return {NODE} - self.state.controllers if self._registers else set()

    @property
    def end_offset(self) -> int:
        """The end offset of the log, as far as the story has read it."""
        return self.log.end_offset

    def _read(self) -> list[Json]:
        batches = self.log.read()
        for each in (record for batch in batches if not batch.get("control") for record in batch["records"]):
            if each["type"] == UNKNOWN:
                continue
            self.state.apply(kcore.from_json(each["type"], each["version"], each["json"]))
        return batches

    def _synced(self) -> None:
        """All that was appended is published to whoever reads metadata in the controller."""
        self._jvm.must("sync", self.log.end_offset, 5000)

    # Steps.

    def ask(self, api: str, given: Json, version: Any = None, note: str = "", envelope: Any = None) -> Json | None:
        """The answer's body; None where there is none."""
        if version is None:
            version = self.api_versions[api][1] if api in self.api_versions else NAMES[api].versions.highest
        body = filled(api, version, given)
        step: Json = {"kind": "request", "api": api, "key": NAMES[api].api_key, "version": version}
        if note:
            step["note"] = note
        try:
            data = request_bytes(api, version, body, 0)
        except kcore.errors.KcoreError:  # The version cannot express the request.
            return None
        step["request"] = body
        if principal := envelope or self.next_envelope:
            outer = envelope_of(data, principal_bytes(*principal))
            said = {"principal": ":".join(principal), "clientAddress": "10.0.0.1", "request": outer}
            step["envelope"], data = said, envelope_bytes(outer)
        self.send(step, data)
        response: Json | None = step["response"]
        return response

    def send(self, step: Json, data: bytes) -> None:
        """Takes the answer into the step, and what was appended."""
        answer = self._exchange(step, data)
        step["response"] = None
        if answer is None:
            step["closed"] = True
        elif "envelope" in step:
            outer, _ = response_json("Envelope", 0, answer)
            step["envelope"]["errorCode"] = outer["errorCode"]
            answer = base64.b64decode(outer["responseData"] or "") or None
        if answer is not None:
            step["response"], said = response_json(step["api"], step["version"], answer)
            if said != step["version"]:
                step["responseVersion"] = said
        self._after(step)

    def _exchange(self, step: Json, data: bytes) -> bytes | None:
        return self.connection.exchange(data)

    def advance(self, ms: int, note: str = "") -> None:
        """Time passes at once, and after that some more, until nothing more happens."""
        self._pass(ms)
        quiet, size = 0, self.log.size
        while quiet < QUIET_STEPS:
            self._jvm.must("settle")
            self._pass(100)
            self._jvm.must("settle")
            time.sleep(0.012)  # A task that has more to do comes again after 10 ms.
            quiet, size = (quiet + 1 if self.log.size == size else 0), self.log.size
        self._after({"kind": "advance", "ms": ms, "note": note})

    def _pass(self, ms: int) -> None:
        self._jvm.must("advance", ms)

    def _after(self, step: Json) -> None:
        batches = self._read()
        self._synced()
        if self._unregistered:
            end = time.monotonic() + LATEST_S
            while self._unregistered and time.monotonic() < end:
                time.sleep(0.005)
                batches += self._read()
            step["after"] = "the controller registered itself: the last of the batches, after the response"
            self.can_register_controller = True
        if self._jvm.ask("active")[0] != "true":
            self._await_election()
            step.update({"renounced": True}, **self._leader())
            batches += self._read()
        self._synced()
        step.update(batches=batches, endOffset=self.log.end_offset)
        step["free"], step["unordered"] = free_paths(step, self._seen), unordered(step)
        self.steps.append(step)
        self.broken = self.broken or self._jvm.ask("exits")[0]

    def _await_election(self) -> None:
        """It has renounced, and is elected again: it is the only voter."""
        end = time.monotonic() + LATEST_S
        while self._jvm.ask("active")[0] != "true":
            assert time.monotonic() < end, "it did not come back"
            time.sleep(0.02)
        time.sleep(0.05)

    def _leader(self) -> Json:
        """The fields of a step that name the controller that leads now; none with a single controller."""
        return {}

    def bad_envelope(self, kind: str, walk: Any) -> bool:
        """One that is wrong on purpose."""
        self.send(*bad_envelope(self, kind, walk))
        return True

    def wrong(self, kind: str, walk: Any) -> bool:
        """A request that the controller does not have."""
        if (made := wrong_request(self, kind)) is None:
            return False
        self.send(*made)
        return True
