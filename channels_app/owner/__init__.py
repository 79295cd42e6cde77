"""What the owner and unknown senders are told."""
