"""The database: the only place that knows SQL. Typed records go in and out; every change is an SQL function's."""
