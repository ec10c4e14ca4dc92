"""Where everything ran: lanes of streams and threads, exact at any zoom."""
