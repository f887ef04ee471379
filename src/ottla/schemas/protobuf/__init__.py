"""Protobuf: `.proto` text without protoc, messages <-> Arrow columns by compiled loops, and single messages."""
