"""Where the local step runs: numpy (the specification), cpu (C++) and cuda."""
