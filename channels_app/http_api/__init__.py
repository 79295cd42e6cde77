"""``POST /inbound`` and the event stream of a run."""
