"""The way out: resolving, checking and dialling, directly or through an upstream proxy."""
