"""Privacy audits: replay on neighbouring tables, and membership attacks on releases."""
