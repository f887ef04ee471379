"""Commands that errors tell a user to run: they work as they are pasted."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

import ottla
from ottla.cli import main
from ottla.sink.commands import alter_command, recover_command
from ottla.sink.settings import SinkSettings

from . import driver
from .driver import Job
from .test_lost_after_decision import decided


@pytest.mark.parametrize("name", ["/data/check points/it's", "-orders", "orders"])
def test_the_command_of_a_refusal_works_as_it_is_pasted(job: Job, name: str) -> None:
    own = dataclasses.replace(job, sink_id=f"{name} {job.topic}")
    decided(own, lost=(1,), landed=(0,))
    other = dataclasses.replace(own, tasks=2, run_id="second")
    with pytest.raises(ottla.UserMistake) as refused:
        driver.main(other.text())
    program, *words = shlex.split(str(refused.value).partition("without the lost rows: ")[2])
    assert program == "ottla"
    assert main(words) == 0
    driver.main(other.text())


def test_a_command_names_a_topic_of_its_own_and_the_file_of_settings_where_a_login_is_needed() -> None:
    settings = SinkSettings("orders", "a:1, b:2", {"security.protocol": "SASL_SSL"}, control_topic="decisions")
    assert recover_command(settings, "--accept-loss") == (
        "ottla sink recover orders -b a:1,b:2 --command-config FILE --control-topic decisions --accept-loss"
    )
    assert alter_command(SinkSettings("orders", "a:1"), "__ottla_sink", "cleanup.policy=compact") == (
        "ottla topics alter __ottla_sink --config cleanup.policy=compact -b a:1"
    )
