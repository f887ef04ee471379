"""A served cluster is told over HTTP what to do: the server, its routes, and the client that the command line uses."""
