"""What happens to a conversation: the state machines of messages, runs, jobs and deliveries."""
