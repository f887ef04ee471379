"""Commands that error messages tell a user to run: complete, but for the file with a login or TLS (FILE)."""

from __future__ import annotations

import shlex

from ottla.sink.settings import CONTROL_TOPIC, SinkSettings, settings_for_reading


def recover_command(settings: SinkSettings, *more: str) -> str:
    """`ottla sink recover` for this sink, with these options."""
    own_topic = () if settings.control_topic == CONTROL_TOPIC else ("--control-topic", settings.control_topic)
    options = *_cluster(settings), *own_topic, *more
    # A sink.id may begin with a dash, as an option does.
    is_like_option = settings.sink_id.startswith("-")
    words = (*options, "--", settings.sink_id) if is_like_option else (settings.sink_id, *options)
    return shlex.join(("ottla", "sink", "recover", *words))


def alter_command(settings: SinkSettings, topic: str, config: str) -> str:
    """`ottla topics alter` for one setting of a topic."""
    return shlex.join(("ottla", "topics", "alter", topic, "--config", config, *_cluster(settings)))


def _cluster(settings: SinkSettings) -> tuple[str, ...]:
    """The brokers' addresses, and --command-config if they need a login or TLS; only the user knows that file."""
    servers = "-b", settings.bootstrap_servers.replace(" ", "")
    protocol = str(settings_for_reading(settings.client_settings).get("security_protocol", "PLAINTEXT"))
    return servers if protocol.upper() == "PLAINTEXT" else (*servers, "--command-config", "FILE")
