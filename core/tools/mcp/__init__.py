"""Tools of MCP servers: pinned by hash, called within bounds."""
