"""What docs/transactions.md shows works as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "transactions.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL), ids=range(5))
def test_a_block_of_the_page_about_transactions_runs(block: str) -> None:
    exec(compile(block, "transactions.md", "exec"), {})
