"""Bodies of requests and answers, by theme. Everything that comes in is bounded; unknown fields are refused."""
