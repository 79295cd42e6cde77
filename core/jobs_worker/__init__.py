"""The side of the ``long`` worker: a process for each job, its sources, its steps."""
