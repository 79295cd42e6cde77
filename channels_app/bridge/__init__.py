"""The door for any other channel: a bridge asks here and is called back ([D4])."""
