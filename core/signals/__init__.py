"""Wake-ups and events between processes, over the broker."""
