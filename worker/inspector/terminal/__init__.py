"""Inspector in a terminal: `desk` reads and asks for the caller, `app` shows what the commands would print."""
