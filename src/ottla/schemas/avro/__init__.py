"""Avro by columns: schemas, how one evolves into another, and kernels between payloads and Arrow."""
