"""Options of each SQLite connection; without imports, because Django's settings read them."""

# The `runs` worker empties the log (core.database.transactions.checkpoint); without one, the
# commit after which it has grown to 64 MB does. A log that begins anew is cut to LOG_BYTES: a file
# that is longer has as much to be moved, or nothing was written since that was done.
LOG_BYTES = 4 * 2**20
INIT_COMMAND = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000; "
    f"PRAGMA journal_size_limit={LOG_BYTES};"
)
