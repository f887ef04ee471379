"""The exactly-once sink's mechanism, whatever engine drives it: two-phase commit whose decision lives in Kafka."""
