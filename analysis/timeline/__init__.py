"""Where everything ran: lanes of streams and threads, exact at any zoom, and a window of a run as a trace of its own."""
