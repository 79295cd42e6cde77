"""The endpoints for clients of the UI message stream (Vercel AI SDK, version 1)."""
