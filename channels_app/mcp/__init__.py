"""The MCP door: agents at a terminal send results to their person ([D7], [S1]-[S4])."""
