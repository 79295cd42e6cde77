"""The state machines: inbox, runs, events, outbox, jobs, sessions, schedules."""
