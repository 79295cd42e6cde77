"""What presentation makers share: the deck, its writing, its measured layout, its look."""
