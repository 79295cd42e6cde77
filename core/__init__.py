"""What a conversation is: messages, inbox, runs, events, outbox. Knows no channel and no HTTP."""
