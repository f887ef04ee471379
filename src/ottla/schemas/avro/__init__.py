"""Avro: schemas, schema resolution, and compiled code between payloads and Arrow columns or Python objects."""
