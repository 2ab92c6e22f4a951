"""Tables for the terminal and pages for the browser."""
