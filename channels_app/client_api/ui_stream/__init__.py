"""``/ui/chat``, the UI message stream of the AI SDK."""
