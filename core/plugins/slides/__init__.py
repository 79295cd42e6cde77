"""Shared by presentation makers: the deck, its writing, its measured layout, its look."""
