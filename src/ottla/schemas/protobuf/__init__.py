"""Protobuf: a parser of `.proto` text, and messages <-> Arrow columns (compiled) or Python dicts."""
