"""What both shells share: settings, snapshots, running queries, limits, counters, errors."""
