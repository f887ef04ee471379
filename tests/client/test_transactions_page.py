"""What docs/transactions.md shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ottla
from ottla import errors

PAGE = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL), ids=range(5))
def test_a_block_of_the_page_about_transactions_runs(block: str) -> None:
    exec(compile(block, "transactions.md", "exec"), {})


def test_what_a_fenced_producer_is_told_to_do_is_what_the_page_says() -> None:
    """Close it, and do not make another: the two would fence each other again and again."""
    with ottla.Cluster(brokers=1) as cluster:
        cluster.create_topic("bookings")
        old = ottla.Producer(cluster.bootstrap_servers, transactional_id="bookings-1")
        new = ottla.Producer(cluster.bootstrap_servers, transactional_id="bookings-1")
        old.begin_transaction()
        old.send("bookings", b"seat 12A").result(30)
        new.init_transactions()
        with pytest.raises(ottla.ProducerFenced) as caught:
            old.commit_transaction()
        old.close()
        new.close()
    [row] = [line for line in PAGE.splitlines() if line.startswith("| `ProducerFenced`")]
    for told in (str(caught.value), row, str(errors.ProducerFenced.__doc__)):
        words = " ".join(told.split())
        assert "close this one" in words
        assert "fence each other again and again" in words
    # The advice for other fatal errors is different.
    assert "make a new one once the cause is gone" in str(errors.__doc__)
    assert "but not for a fenced producer" in " ".join(str(errors.__doc__).split())
