"""The side of the ``long`` worker: a process of its own for each job, and what it works with."""
