"""Options of each SQLite connection; without imports, because Django's settings read them."""

# The `runs` worker empties the log (core.database.transactions.checkpoint); without one, the
# commit after which it has grown to 64 MB does.
INIT_COMMAND = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=16000;"
