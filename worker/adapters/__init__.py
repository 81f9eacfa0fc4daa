"""The shell's hands: Postgres, and whatever else is outside the process."""
