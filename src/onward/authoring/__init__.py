"""What people write workflows with: `workflow`, `Context` and its steps. Knows no database and no worker."""
