"""PySpark meets ottla: a batch source by Spark's Python Data Source API (no jar), and a local session to try it in."""
