"""One Spark session for all tests here; where there is no Java, they say so and are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from ottla.errors import UserMistake

from ..needs import lacking

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def find_java() -> None:
    """Skips where Spark finds no Java."""
    from ottla.spark.java import find_java

    try:
        find_java()
    except UserMistake as reason:
        lacking("spark", reason)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ottla.spark.session import local_session

    try:
        session = local_session("ottla-tests")
    except UserMistake as reason:
        lacking("spark", reason)
    yield session
    session.stop()
