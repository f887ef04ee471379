"""Transactions: states, the log they are kept in, their coordinator, and how partitions ask it (KIP-98, KIP-890)."""
