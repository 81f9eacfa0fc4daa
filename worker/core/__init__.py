"""Pure core: stdlib and numpy, no clock, no randomness, no logging, no I/O."""
