"""The state machines of a conversation: messages, runs, jobs and deliveries."""
