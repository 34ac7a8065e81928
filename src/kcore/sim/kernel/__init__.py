"""What every simulated world stands on: events in order, processes, clocks and links. It knows no protocol."""
