"""The web chat: pages, the socket ``/ws``, the live part of the dashboard."""
