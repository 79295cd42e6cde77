"""The door for clients of the UI message stream (Vercel AI SDK, version 1)."""
