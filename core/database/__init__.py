"""Transactions, batching, hot statements, threads: the place for SQL."""
