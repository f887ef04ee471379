"""Bytes <-> typed messages: frames, and one class per API generated from Kafka's own descriptors."""
