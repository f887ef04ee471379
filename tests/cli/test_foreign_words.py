"""What somebody types who knows other tools of Kafka is answered with what it is called here."""

from __future__ import annotations

import pytest

from ottla.cli import main

ANSWERED = [
    ("consume orders", "`ottla` has no command consume: `ottla read TOPIC` prints records."),
    ("-b localhost:1 topics", "`ottla` has no option -b: options stand behind the command."),
    ("read -t orders", "`ottla read` has no option -t: the topic is named without an option."),
    ("read orders --from-beginning", "`ottla read` has no option --from-beginning: it begins with the first record"),
    ("read orders --max-messages 5", "`ottla read` has no option --max-messages: --limit COUNT."),
    ("read orders -X security.protocol=SSL", "`ottla read` has no option -X: --command-config FILE takes a file"),
    ("read orders --property print.key=true", "`ottla read` has no option --property: --format text"),
    ("produce orders -K:", "`ottla produce` has no option -K: --key-separator TEXT."),
    ("produce --topic orders", "`ottla produce` has no option --topic: the topic is named without an option."),
    ("topics rm orders", "`ottla topics` has no command rm: `ottla topics delete TOPIC` is that."),
    ("topics --list", "`ottla topics` has no option --list: without a name all are listed."),
    ("topics alter orders --add-config a=b", "`ottla topics alter` has no option --add-config: --config NAME=VALUE."),
    ("groups seek billing 5", "`ottla groups` has no command seek: `ottla groups reset GROUP --to WHERE` is that."),
    ("groups reset billing --to-earliest", "`ottla groups reset` has no option --to-earliest: --to earliest."),
]


@pytest.mark.parametrize(("line", "answer"), ANSWERED, ids=[line for line, _ in ANSWERED])
def test_words_of_other_tools_are_answered(line: str, answer: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert answer in err


@pytest.mark.parametrize("line", ["serve --list", "tap --brokers x:1", "explain --zookeeper z", "serve -X a=b"])
def test_a_command_without_such_a_thing_says_nothing_of_it(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(line.split()) == 2
    assert "has no option" not in capsys.readouterr().err


def test_an_option_that_nobody_has_is_refused_as_before(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["read", "orders", "--nonsense"]) == 2
    assert capsys.readouterr().err == "ottla: no such option: --nonsense; see ottla read --help\n"
