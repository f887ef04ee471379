"""Options and commands of other tools for Kafka (kcat, Kafka's own, rpk, kaf), and what they are called here.

Only words that have no meaning here are listed, so every valid command line works as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_Rows = Iterable[tuple[str, str]]

_ADDRESS = "-b HOST:PORT says where the brokers are."
_CONFIG = "--command-config FILE takes a file with such settings, as Kafka's own tools do."
_TOPIC = "the topic is named without an option."
_DONE = "`ottla {} TOPIC` is that."

_COMMANDS: _Rows = (
    ("consume consumer cat tail subscribe", "`ottla read TOPIC` prints records."),
    ("producer publish send write", "`ottla produce TOPIC` sends records."),
    ("topic metadata create-topic list", "`ottla topics` lists, shows, creates, changes and deletes topics."),
    ("group consumer-groups consumergroups offsets", "`ottla groups` lists, shows, moves and deletes groups."),
    ("brokers nodes", "`ottla console` shows brokers."),
    ("help", "`ottla --help`, or `ottla COMMAND --help`."),
    ("version", "`ottla --version`."),
    ("perf performance", "`ottla bench`."),
    ("-b --bootstrap-servers --bootstrap-server", "options stand behind the command."),
)
_TOPICS: _Rows = (
    ("rm remove drop del", _DONE.format("topics delete")),
    ("add new make", _DONE.format("topics create")),
    ("alter-config set-config config configs set update edit add-partitions", _DONE.format("topics alter")),
    ("show info get", _DONE.format("topics describe")),
    ("truncate purge clear delete-records trim-prefix", _DONE.format("topics trim")),
    ("consume read", _DONE.format("read")),
    ("produce send", _DONE.format("produce")),
)
_GROUPS: _Rows = (
    ("rm remove drop del", "`ottla groups delete GROUP` is that."),
    ("seek reset-offsets commit move set-offsets", "`ottla groups reset GROUP --to WHERE` is that."),
    ("show info get", "`ottla groups describe GROUP` is that."),
)
_ANY_OPTION: _Rows = (
    ("--broker-list --brokers --broker --zookeeper", _ADDRESS),
    ("-X --consumer-property --producer-property --consumer.config --producer.config --config-file -F", _CONFIG),
)
_NAMED: _Rows = (
    ("--list", "without a name all are listed."),
    ("--describe", "give the name alone."),
)
_READ: _Rows = (
    ("-t --topic", _TOPIC),
    ("--from-beginning", "it begins with the first record, unless --start says something else."),
    ("-c --count --max-messages --num", "--limit COUNT."),
    ("--offset --from --offsets", "--start OFFSET."),
    ("-e --exit-on-end", "it ends with the last record, unless --follow is given."),
    ("-g -G --group --group-id", "it belongs to no group and commits nothing; --start says where it begins."),
    ("--property --formatter", "--format text, value, json or table says how records are shown."),
    ("-J", "--json."),
    ("--timeout-ms", "it ends with the last record; with --follow, Ctrl+C ends it."),
)
_PRODUCE: _Rows = (
    ("-t --topic", _TOPIC),
    ("-K", "--key-separator TEXT."),
    ("-H", "--header NAME=VALUE."),
    ("-z --compression-codec", "--compression CODEC."),
    ("-P --partition", "the key decides on the partition: --key-separator, or --key COLUMN."),
    ("--acks --request-required-acks", "--command-config FILE takes a file with acks=..."),
    ("--property --reader-property", "--key-separator TEXT divides keys from values."),
    ("-l --file -f", "--input FILE, or the file as standard input."),
)
_ALTER: _Rows = (
    ("--add-config --set", "--config NAME=VALUE."),
    ("--delete-config", "--default NAME."),
    ("-t --topic --entity-name", _TOPIC),
)
_RESET: _Rows = (
    ("--to-earliest", "--to earliest."),
    ("--to-latest", "--to latest."),
    ("--to-offset", "--to OFFSET."),
    ("--to-datetime", "--to TIME, such as 2026-11-27T09:00."),
    ("--all-topics", "without --topic it moves in all topics that the group has read."),
    ("-g --group", "the group is named without an option."),
)


def _by_word(*tables: _Rows) -> Mapping[str, str]:
    return {word: instead for rows in tables for words, instead in rows for word in words.split()}


# Behind which words of the command line -> word -> what there is instead.
_WORDS = {
    "ottla": _by_word(_COMMANDS),
    "ottla topics": _by_word(_TOPICS, _ANY_OPTION, _NAMED),
    "ottla topics create": _by_word(_ALTER, _ANY_OPTION),
    "ottla topics alter": _by_word(_ALTER, _ANY_OPTION),
    "ottla topics delete": _by_word(_ANY_OPTION),
    "ottla groups": _by_word(_GROUPS, _ANY_OPTION, _NAMED),
    "ottla groups reset": _by_word(_RESET, _ANY_OPTION),
    "ottla groups delete": _by_word(_ANY_OPTION),
    "ottla read": _by_word(_READ, _ANY_OPTION),
    "ottla produce": _by_word(_PRODUCE, _ANY_OPTION),
}


def instead_of(command: str, word: str) -> str | None:
    """What there is in place of a word that `command` ("ottla topics") does not know; None where nobody knows it."""
    return _WORDS.get(command, {}).get(word)
