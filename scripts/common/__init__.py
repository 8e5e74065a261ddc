"""What the scripts share: tables, timing, statistics over seeds, pictures."""
