"""The ``runs`` worker: claims runs, runs turns, sends deliveries, sweeps, watches accounts."""
