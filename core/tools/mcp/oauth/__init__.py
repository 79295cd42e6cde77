"""Sign-ins at MCP servers by OAuth 2.1, and the tokens that they give (decision 199)."""
