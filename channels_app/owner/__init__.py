"""Messages to owners and to unknown senders."""
