"""PySpark meets ottla: source and sink by Spark's Python Data Source API (no jar), and a session to try them in."""

from ottla.spark.stream_offsets import consumer_lag

__all__ = ["consumer_lag"]
