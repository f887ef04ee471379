"""Lets Spark find `format("ottla")` by itself: PySpark loads `DefaultSource` from every `pyspark_*` module."""

from ottla.spark.source import DefaultSource

__all__ = ["DefaultSource"]
