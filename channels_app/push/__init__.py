"""Web Push: notifications in browsers of people who have no page of the gateway in view."""
