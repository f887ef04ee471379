"""The exactly-once sink, for any engine: two-phase commit whose decision is stored in Kafka."""
