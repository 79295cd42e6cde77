"""Questions whether a tool may be used: where they are asked, who decides, and what follows."""
