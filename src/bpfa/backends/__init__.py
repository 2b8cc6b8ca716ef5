"""The devices that the local step can run on: numpy (the specification), cpu (C++) and cuda."""
