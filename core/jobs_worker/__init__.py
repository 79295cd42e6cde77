"""The ``long`` worker's side: one process per job, and the parts it uses."""
