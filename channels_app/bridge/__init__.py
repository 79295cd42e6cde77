"""The channel for other platforms: a bridge sends requests here and gets callbacks ([D4])."""
