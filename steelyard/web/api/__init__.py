"""The API, /api/v1: everything that the page does, for programs."""
