"""A schema registry of one's own: a REST server whose schemas are kept in a compacted Kafka topic."""
