"""What the controller stores: the cluster's image, reserved producer ids, and how many partitions were spread.

`controller.json` holds all of it as of some version; `controller.changes` holds what changed since, one JSON object a
line: whole topics where they are new or their settings changed (null: deleted), single partitions where only leaders
or replicas did, a broker's new start, and all changed settings of brokers where one was changed. When the lines are
larger than the whole state, it is written anew and the lines are thrown away. So a change costs one line, however many
topics there are. A torn last line was never answered and is ignored.

Both files are synced before a change is published, so changes survive a power cut, as those that a quorum of Kafka's
controllers has agreed on. If a write fails, nothing has changed. Part of that line may be in the file, so the whole
state is written anew before the next change.

Invariants: nothing is published that is not stored, except which brokers are alive (`announce`); image versions, leader
epochs and partition epochs only grow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from ottla.broker.dynamic_settings import ConfigPairs
from ottla.broker.events import (
    BrokerAddress,
    ClusterImage,
    ImageChanges,
    PartitionImage,
    QuotaEntity,
    TopicImage,
)
from ottla.broker.storage import Storage
from ottla.broker.topic_map import TopicMap
from ottla.broker.uuids import random_uuid, uuid_text
from ottla.errors import UserMistake

STATE_FILE = "controller.json"
CHANGES_FILE = "controller.changes"
PRODUCER_ID_BLOCK = 1000
# Announcements are not stored. A controller that resumes skips so many versions, more than were ever announced between
# two stored ones.
_ANNOUNCED_MAX = 1 << 20
_CHANGES_BYTES_MIN = 64 << 10

# What a power cut leaves in the place of a part that had not reached the disk; in no line that was answered.
_HOLE = b"\0"

_DAMAGE = (ValueError, KeyError, TypeError, AttributeError, IndexError)


class ControllerState:
    """The image as it is stored; `was_clean`: whether the last controller had closed it in order.

    Raises UserMistake where the folder belongs to a cluster with brokers that are missing now, or is damaged; OSError.
    """

    def __init__(
        self,
        brokers: Sequence[BrokerAddress],
        storage: Storage,
        rng: Random,
        cluster_id: str | None = None,
        *,
        resumes: bool = False,
    ) -> None:
        self.brokers = tuple(sorted(brokers, key=lambda address: address.broker_id))
        self.rng = rng
        self.partitions_made = 0
        self.was_clean = False
        self._storage = storage
        # Whether the last line may be in the file although it does not count.
        self._is_doubtful = False
        self._next_producer_id = 0
        self._producer_ids_end = 0
        self._snapshot_bytes = 0
        self._broker_configs: dict[str, ConfigPairs] = {}
        self._client_metrics: dict[str, ConfigPairs] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.broker_epochs: dict[int, int] = {}
        # The id of each broker's folder, where it is known.
        self.directories: dict[int, str] = {}
        topics, version, stored_id = self._load()
        name = cluster_id or stored_id or uuid_text(self.new_topic_id())
        self._topics = TopicMap(topics)
        self._names_by_id = {topic.topic_id: topic.name for topic in topics.values()}
        self._names_alike = {_without_dots(topic): topic for topic in topics}
        self.image = ClusterImage(
            version + (_ANNOUNCED_MAX if resumes else 1),
            name,
            self.brokers[0].broker_id,
            self.brokers,
            self._topics,
            broker_configs=self._broker_configs,
            client_metrics=self._client_metrics,
            quotas=self._quotas,
        )
        self._changes = storage.open(CHANGES_FILE)

    def change(
        self,
        topics: Mapping[str, TopicImage | None],
        *,
        partitions_made: int | None = None,
        broker_configs: dict[str, ConfigPairs] | None = None,
        client_metrics: dict[str, ConfigPairs] | None = None,
        quotas: dict[QuotaEntity, dict[str, float]] | None = None,
    ) -> ClusterImage:
        """Store topics as they are from now on (None: gone) and return the new image; OSError: nothing has changed.

        `broker_configs`, `client_metrics` and `quotas` replace those of the image.
        """
        made = self.partitions_made if partitions_made is None else partitions_made
        line: dict[str, Any] = {
            "topics": {name: None if topic is None else _written(topic) for name, topic in topics.items()},
            "partitions_made": made,
        }
        others: dict[str, Any] = {}
        if broker_configs is not None:
            others["broker_configs"] = line["broker_configs"] = broker_configs
        if client_metrics is not None:
            others["client_metrics"] = line["client_metrics"] = client_metrics
        if quotas is not None:
            others["quotas"], line["quotas"] = quotas, _written_quotas(quotas)
        image = self._take(line, topics, dict.fromkeys(topics), others)
        self.partitions_made = made
        return image

    def change_partitions(self, changes: Mapping[str, Mapping[int, PartitionImage]]) -> ClusterImage:
        """Store new leaders and replicas of partitions; as `change`."""
        topics: dict[str, TopicImage | None] = {}
        fields: dict[str, Any] = {}
        for name, partitions in changes.items():
            topic = self._topics[name]
            after = list(topic.partitions)
            for index, each in partitions.items():
                after[index] = each
            topics[name] = TopicImage(name, topic.topic_id, tuple(after), topic.configs)
            fields[name] = {
                "changed": {str(index): _written_partition(each) for index, each in sorted(partitions.items())}
            }
        line = {"topics": fields, "partitions_made": self.partitions_made}
        return self._take(line, topics, {name: tuple(sorted(each)) for name, each in changes.items()}, {})

    def _take(
        self,
        line: dict[str, Any],
        topics: Mapping[str, TopicImage | None],
        changed: dict[str, tuple[int, ...] | None],
        others: dict[str, Any],
    ) -> ClusterImage:
        """Store a line of changes, then make the image that has them; OSError: nothing has changed."""
        image = self.image
        version = image.version + 1
        self._append({"version": version, **line})
        for name, topic in topics.items():
            before = self._topics.get(name)
            if before is not None:
                self._names_by_id.pop(before.topic_id, None)
                self._names_alike.pop(_without_dots(name), None)
            if topic is not None:
                self._names_by_id[topic.topic_id] = name
                self._names_alike[_without_dots(name)] = name
        self._topics = self._topics.followed_by(topics)
        changes = ImageChanges(image.version, changed)
        self.image = image.but(version=version, topics=self._topics, changes=changes, **others)
        return self.image

    def topic_with(self, topic_id: bytes) -> TopicImage | None:
        """The topic that has this id."""
        name = self._names_by_id.get(topic_id)
        return None if name is None else self._topics[name]

    def name_like(self, name: str) -> str | None:
        """The topic whose name differs in nothing but dots and underscores, or is the same."""
        return self._names_alike.get(_without_dots(name))

    def announce(self, brokers: tuple[BrokerAddress, ...], broker_epochs: dict[int, int]) -> ClusterImage:
        """The image with these brokers alive; that is not stored, it is found out anew after a restart."""
        image = self.image
        self.image = image.but(
            version=image.version + 1,
            controller_id=brokers[0].broker_id if brokers else image.controller_id,
            brokers=brokers,
            broker_epochs=broker_epochs,
            changes=ImageChanges(image.version, {}),
        )
        return self.image

    def register(self, broker_id: int, epoch: int, directory_id: str) -> None:
        """Store which start of a broker is the newest known, and its folder; OSError: nothing has changed."""
        number = str(broker_id)
        line = {"version": self.image.version, "broker_epochs": {number: epoch}, "directories": {number: directory_id}}
        self._append(line)
        self.broker_epochs[broker_id] = epoch
        self.directories[broker_id] = directory_id

    def take_producer_id(self) -> int:
        """A producer id never given before; OSError where that cannot be guaranteed."""
        if self._next_producer_id == self._producer_ids_end:
            end = self._producer_ids_end + PRODUCER_ID_BLOCK
            self._append({"version": self.image.version, "producer_ids_end": end})
            self._producer_ids_end = end
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def save(self, *, clean: bool = False) -> None:
        """Write all of it anew, without lines of changes; OSError."""
        image = self.image
        state = {
            "version": image.version,
            "cluster_id": image.cluster_id,
            "clean": clean,
            "producer_ids_end": self._producer_ids_end,
            "partitions_made": self.partitions_made,
            "broker_configs": image.broker_configs,
            "client_metrics": image.client_metrics,
            "quotas": _written_quotas(image.quotas),
            "broker_epochs": {str(broker_id): epoch for broker_id, epoch in self.broker_epochs.items()},
            "directories": {str(broker_id): each for broker_id, each in self.directories.items()},
            "topics": {topic.name: _written(topic) for topic in image.topics.values()},
        }
        content = json.dumps(state, indent=1).encode()
        self._storage.write_file(STATE_FILE, content, synced=True)
        self._snapshot_bytes = len(content)
        # A crash between these two is harmless: lines that are not newer than the whole change nothing.
        self._changes.truncate(0)
        self._is_doubtful = False

    def new_topic_id(self) -> bytes:
        """A random (version 4) uuid."""
        return random_uuid(self.rng)

    def _append(self, change: dict[str, Any]) -> None:
        if self._is_doubtful or self._changes.size > max(_CHANGES_BYTES_MIN, self._snapshot_bytes):
            self.save()
        self._is_doubtful = True
        self._changes.append([json.dumps(change, separators=(",", ":")).encode() + b"\n"])
        self._changes.sync()
        self._is_doubtful = False

    def _load(self) -> tuple[dict[str, TopicImage], int, str | None]:
        content = self._storage.read_file(STATE_FILE)
        if content is None:
            if self._storage.read_file(CHANGES_FILE):
                raise UserMistake(
                    f"{STATE_FILE} of the cluster is missing, though {CHANGES_FILE} is there: "
                    "restore it, or name another folder."
                )
            return {}, 0, None
        name = STATE_FILE
        try:
            state = json.loads(content)
            topics = {name: _read_topic(name, fields) for name, fields in state["topics"].items()}
            self.was_clean = bool(state.get("clean", False))
            self._take_others(state)
            cluster_id, version = str(state["cluster_id"]), int(state["version"])
            name = CHANGES_FILE
            version = self._read_changes(topics, version)
        except _DAMAGE as error:
            raise UserMistake(
                f"{name} of the cluster is damaged ({error!r}): restore it, or name another folder."
            ) from error
        known = {address.broker_id: None for address in self.brokers}
        for topic in topics.values():
            missing = [b for each in topic.partitions for b in each.replicas if b not in known]
            if missing:
                raise UserMistake(
                    f"topic {topic.name!r} has replicas on broker {missing[0]}, but the cluster has brokers "
                    f"{', '.join(map(str, known))} only: start it with as many brokers as it was made with."
                )
        return topics, version, cluster_id

    def _read_changes(self, topics: dict[str, TopicImage], version: int) -> int:
        *lines, torn = (self._storage.read_file(CHANGES_FILE) or b"").split(b"\n")
        if lines and _HOLE in lines[-1]:
            torn = lines.pop()
        # The next line must not be written behind it.
        self._is_doubtful = bool(torn)
        for line in lines:
            change = json.loads(line)
            if change["version"] < version or ("topics" in change and change["version"] == version):
                continue
            self.was_clean = False
            self._take_others(change)
            version = change["version"]
            for name, fields in change.get("topics", {}).items():
                if fields is None:
                    topics.pop(name, None)
                else:
                    topics[name] = _read_topic(name, fields, topics.get(name))
        return version

    def _take_others(self, fields: dict[str, Any]) -> None:
        if "producer_ids_end" in fields:
            self._next_producer_id = self._producer_ids_end = int(fields["producer_ids_end"])
        if "partitions_made" in fields:
            self.partitions_made = int(fields["partitions_made"])
        for broker_id, epoch in fields.get("broker_epochs", {}).items():
            self.broker_epochs[int(broker_id)] = int(epoch)
        for broker_id, directory_id in fields.get("directories", {}).items():
            self.directories[int(broker_id)] = str(directory_id)
        if "broker_configs" in fields:
            self._broker_configs = _read_configs(fields["broker_configs"])
        if "client_metrics" in fields:
            self._client_metrics = _read_configs(fields["client_metrics"])
        if "quotas" in fields:
            self._quotas = {
                tuple((str(kind), None if name is None else str(name)) for kind, name in entity): {
                    str(key): float(value) for key, value in limits.items()
                }
                for entity, limits in fields["quotas"]
            }


def _without_dots(name: str) -> str:
    return name.replace(".", "_")


def _read_configs(fields: dict[str, Any]) -> dict[str, ConfigPairs]:
    return {str(name): tuple((str(key), str(value)) for key, value in configs) for name, configs in fields.items()}


def _written_quotas(quotas: dict[QuotaEntity, dict[str, float]]) -> list[Any]:
    return [[entity, limits] for entity, limits in quotas.items()]


def _written(topic: TopicImage) -> dict[str, Any]:
    return {
        "topic_id": topic.topic_id.hex(),
        "configs": [list(config) for config in topic.configs],
        "partitions": [_written_partition(each) for each in topic.partitions],
    }


def _written_partition(partition: PartitionImage) -> dict[str, Any]:
    written = {
        "leader": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": partition.replicas,
        "isr": partition.isr,
        "partition_epoch": partition.partition_epoch,
    }
    if partition.is_moving:
        written |= {"adding": partition.adding, "removing": partition.removing}
    return written


def _read_topic(name: str, fields: dict[str, Any], old: TopicImage | None = None) -> TopicImage:
    if "changed" in fields:
        if old is None:
            raise ValueError(f"a change of topic {name!r}, which is not there")
        partitions = list(old.partitions)
        for index, each in fields["changed"].items():
            partitions[int(index)] = _read_partition(each)
        return TopicImage(name, old.topic_id, tuple(partitions), old.configs)
    configs = tuple((str(key), str(value)) for key, value in fields["configs"])
    partitions = [_read_partition(each) for each in fields["partitions"]]
    return TopicImage(name, bytes.fromhex(fields["topic_id"]), tuple(partitions), configs)


def _read_partition(fields: dict[str, Any]) -> PartitionImage:
    replicas = tuple(int(broker_id) for broker_id in fields["replicas"])
    isr = tuple(int(broker_id) for broker_id in fields.get("isr", replicas))
    epochs = int(fields["leader_epoch"]), int(fields.get("partition_epoch", 0))
    adding, removing = (tuple(int(each) for each in fields.get(name, ())) for name in ("adding", "removing"))
    return PartitionImage(int(fields["leader"]), epochs[0], replicas, isr, epochs[1], adding, removing)
