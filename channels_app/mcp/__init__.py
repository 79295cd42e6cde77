"""The MCP endpoint: agents at a terminal send results to their user ([D7], [S1]-[S4])."""
