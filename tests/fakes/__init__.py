"""Stand-ins for what toolcrib talks to: real processes and real sockets, never mocks."""
