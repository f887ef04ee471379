"""A Kafka that is not ottla's own: what trials and `ottla run` make there, and what they remove again."""
