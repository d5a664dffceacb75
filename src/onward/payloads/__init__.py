"""Values that leave the journal: where an object lies, and the store that holds it. Knows no engine, no database."""
